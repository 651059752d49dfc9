"""Coefficients among β whose common sd is a hyperparameter: the bent part of a smooth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .terms import SdPrior

_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class Penalty:
    """root_j b_j ~ N(0, sd²) for the coefficients b at `places` (K,), with a prior of sd.

    θ has log sd. The volume |root| is counted where that of all β is.
    """

    places: np.ndarray
    root: np.ndarray
    prior: SdPrior

    @property
    def size(self) -> int:
        """Coefficients."""
        return len(self.places)

    def log_prior(self, log_sd: np.ndarray) -> np.ndarray:
        """log p(log sd) at n points, (n,)."""
        return self.prior.log_density(np.exp(log_sd)) + log_sd

    def log_constant(self, log_sd: np.ndarray) -> np.ndarray:
        """What log p(b | sd) has that is not −½ Σ (root b/sd)², (n,)."""
        return -self.size * (log_sd + _LOG_2PI / 2)

    def precision(self, log_sd: np.ndarray) -> np.ndarray:
        """The diagonal of their prior precision at n points, (n, K)."""
        return np.exp(-2 * log_sd)[:, None] * self.root**2

    def log_density(self, log_sd: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """log p(log sd) + log p(b | sd) at n points with all of β (n, p), (n,)."""
        square = ((beta[:, self.places] * self.root) ** 2).sum(1)
        inside = -square * np.exp(-2 * log_sd) / 2
        return self.log_prior(log_sd) + self.log_constant(log_sd) + inside


def total_precision(penalties: Sequence[Penalty], log_sds: np.ndarray, p: int) -> np.ndarray:
    """The diagonal that all penalties (k) add to the precision of β (n, p), at log sds (n, k)."""
    found = np.zeros((len(log_sds), p))
    for j, penalty in enumerate(penalties):
        found[:, penalty.places] += penalty.precision(log_sds[:, j])
    return found
