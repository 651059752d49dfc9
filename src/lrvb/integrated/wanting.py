"""What Monte Carlo may leave of a posterior mean and sd, and whether draws leave more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .importance import Weighted

MEAN_ERROR, SD_ERROR = 0.05, 0.05  # of a mean in sds, and of an sd, that Monte Carlo may leave
WANTED = 0.02  # of an sd, above which more draws are taken
TAIL = 0.5  # k̂ of weighted squares, from which the error of an sd is itself not known


def uncertain(values: Callable[[np.ndarray], np.ndarray]) -> Callable[[Weighted], bool]:
    """Whether weights are unreliable, or Monte Carlo's errors of values of x (n, a) too large."""

    def wanting(found: Weighted) -> bool:
        if not found.k_hat < 0.7:
            return True
        v = values(found.x)
        sd = np.maximum(found.sd(v), 1e-300)
        if (found.mean_error(v) > MEAN_ERROR * sd).any():
            return True
        return bool((found.sd_error(v) > WANTED * sd).any() or (found.tails(v) >= TAIL).any())

    return wanting


def in_sds(theta: np.ndarray, log: np.ndarray) -> np.ndarray:
    """θ with sds instead of their logarithms, which `log` (d,) marks."""
    values = theta.copy()
    values[:, log] = np.exp(np.minimum(theta[:, log], 500.0))
    return values
