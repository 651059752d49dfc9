"""Optima far from the first that hold little of the evidence: what leaving them out does to an sd.

One with a share p of the evidence at a distance Δ adds pΔ² to a variance. At fifty sds a thousandth is enough
to make an sd twice as large, so that an sd needs more than that hardly anything is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..engine.modes import Mode

REACHED = 0.25  # of an optimum's share of the evidence that draws must have found on its side


class Rivals(NamedTuple):
    """Shares of the evidence (k,), and statistics there (k, a), of optima far from the first."""

    shares: np.ndarray
    T: np.ndarray

    @classmethod
    def of(cls, modes: Sequence[Mode]) -> Rivals:
        """Of optima in the engine's statistics."""
        odds = np.exp(np.clip([mode.gain for mode in modes], -700, 700))
        return cls(odds / (1 + odds.sum()), np.array([mode.point.m for mode in modes]))

    def left_out(self, there: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """What each adds to the variances of quantities that are `there` (k, q), of them: (k, q)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.shares[:, None] * ((there - mean) / sd) ** 2
        return np.where(sd > 0, found, 0.0)

    def unseen(
        self,
        there: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        values: np.ndarray,
        weights: np.ndarray,
    ) -> np.ndarray:
        """What those add to which draws with values (n, q) did not come, in all: (q,)."""
        total = np.zeros(len(mean))
        parts = self.left_out(there, mean, sd)
        for share, at, part in zip(self.shares, there, parts, strict=True):
            beyond = (values - mean) * np.sign(at - mean) > np.abs(at - mean) / 2
            total += np.where(weights @ beyond < REACHED * share, part, 0.0)
        return total
