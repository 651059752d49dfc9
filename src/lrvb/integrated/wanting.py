"""What Monte Carlo may leave of a posterior mean and sd, and whether draws leave more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .importance import Wanting, Weighted, tails_of

MEAN_ERROR, SD_ERROR = 0.05, 0.05  # of a mean in sds, and of an sd, that Monte Carlo may leave
WANTED = 0.02  # of an sd, above which more draws are taken
TAIL = 0.5  # k̂ of weighted squares, from which the error of an sd is itself not known


def uncertain(values: Callable[[np.ndarray], np.ndarray]) -> Wanting:
    """More draws where weights are unreliable, or Monte Carlo's errors of values of x (n, a) too large.

    What is given back has log factors of the weights, whose mean under these is 1.
    Where few draws decide an sd, half of those to come are wanted where its variance is.
    """

    def wanting(found: Weighted) -> np.ndarray | None:
        v = values(found.x)
        square = (v - found.mean(v)) ** 2
        variance = np.maximum(found.mean(square), 1e-300)
        long = tails_of(found.raw, square) >= TAIL
        if long.any():
            return np.log1p((square[:, long] / variance[long]).mean(1)) - np.log(2)
        sd = np.sqrt(variance)
        poor = not found.k_hat < 0.7 or (found.mean_error(v) > MEAN_ERROR * sd).any()
        if poor or (found.sd_error(v) > WANTED * sd).any():
            return np.zeros(len(v))
        return None

    return wanting


def in_sds(theta: np.ndarray, log: np.ndarray) -> np.ndarray:
    """θ with sds instead of their logarithms, which `log` (d,) marks."""
    values = theta.copy()
    values[:, log] = np.exp(np.minimum(theta[:, log], 500.0))
    return values
