"""Coefficients among β whose common sd is a hyperparameter: bends of a smooth, levels with a structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .terms import SdPrior

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Penalty:
    """root_j b_j = z_j, z ~ N(0, sd² Q⁻¹) for the coefficients b at `places` (K,), with a prior of sd.

    Q (K, K) is the identity where there is none. θ has log sd. The volume |root| is counted where that of
    all β is.
    """

    places: np.ndarray
    root: np.ndarray
    prior: SdPrior
    Q: np.ndarray | None = None

    @property
    def size(self) -> int:
        """Coefficients."""
        return len(self.places)

    @cached_property
    def unit(self) -> np.ndarray:
        """The prior precision of b at sd = 1, (K, K)."""
        Q = np.eye(self.size) if self.Q is None else self.Q
        return self.root[:, None] * Q * self.root

    @cached_property
    def half_logdet(self) -> float:
        """½ log |Q|."""
        return 0.0 if self.Q is None else float(np.linalg.slogdet(self.Q)[1]) / 2

    def log_prior(self, log_sd: np.ndarray) -> np.ndarray:
        """log p(log sd) at n points, (n,)."""
        return self.prior.log_density(np.exp(log_sd)) + log_sd

    def log_constant(self, log_sd: np.ndarray) -> np.ndarray:
        """What log p(b | sd) has that is not −½ zᵀQz/sd², (n,)."""
        return self.half_logdet - self.size * (log_sd + _LOG_2PI / 2)

    def log_density(self, log_sd: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """log p(log sd) + log p(b | sd) at n points with all of β (n, p), (n,)."""
        b = beta[:, self.places]
        square = ((b @ self.unit) * b).sum(1)
        inside = -square * np.exp(-2 * log_sd) / 2
        return self.log_prior(log_sd) + self.log_constant(log_sd) + inside


def add_precisions(P: np.ndarray, penalties: Sequence[Penalty], log_sds: np.ndarray) -> None:
    """Add to precisions of β (n, p, p) what k penalties are at log sds (n, k)."""
    for j, penalty in enumerate(penalties):
        scale = np.exp(-2 * log_sds[:, j])
        places = penalty.places
        if penalty.Q is None:
            P[:, places, places] += scale[:, None] * penalty.root**2
        else:
            P[:, places[:, None], places] += scale[:, None, None] * penalty.unit
