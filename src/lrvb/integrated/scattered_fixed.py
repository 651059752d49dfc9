"""No random effects, rows in parts: only sums over them return."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from .fixed import Fixed, values_of
from .regression import Regression
from .scattered import Parts


class Portion(NamedTuple):
    """Of one part: its rows, how many of them differ, their constant, and hashes where some are alike."""

    rows: int
    differing: int
    constant: float
    hashes: np.ndarray | None


class ScatteredFixed(Fixed):
    """The same sums of parts; `rows`, of next to none, have the priors."""

    def __init__(self, rows: Regression, parts: Parts):
        self.rows, self.p, self.parts = rows, rows.p, parts
        there = [part for part in parts.map(_portion) if part is not None]
        self.constant = sum(part.constant for part in there)
        self.n, self.N = sum(part.rows for part in there), sum(part.differing for part in there)
        hashes = [part.hashes for part in there if part.hashes is not None]
        if hashes:  # a row of several parts is one
            every = np.concatenate(hashes)
            self.N -= len(every) - len(np.unique(every))

    def of_rows(self, theta: np.ndarray) -> np.ndarray:
        """The log density of the rows alone, but for their constant, at n points (n,)."""
        found = self.parts.map(partial(_of_rows, theta))
        return np.sum([part for part in found if part is not None], axis=0)

    def slopes_of_rows(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of the rows alone at one θ (d,)."""
        found = self.parts.map(partial(_slopes_of_rows, theta))
        gradient, H = zip(*(part for part in found if part is not None), strict=True)
        return np.sum(gradient, axis=0), np.sum(H, axis=0)


# ---- where the rows are: a part is the sums of its rows, or None if it has none -----------------


def _portion(_: int, part: Fixed | None) -> Portion | None:
    if part is None:
        return None
    hashes = None
    if part.n > part.N:
        values = pd.DataFrame(values_of(part.rows) + 0.0)  # of one zero only
        hashes = pd.util.hash_pandas_object(values, index=False).to_numpy()
    return Portion(part.n, part.N, part.constant, hashes)


def _of_rows(theta: np.ndarray, _: int, part: Fixed | None) -> np.ndarray | None:
    return None if part is None else part.of_rows(theta)


def _slopes_of_rows(
    theta: np.ndarray, _: int, part: Fixed | None
) -> tuple[np.ndarray, np.ndarray] | None:
    return None if part is None else part.slopes_of_rows(theta)
