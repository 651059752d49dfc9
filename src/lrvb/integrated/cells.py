"""Many rows of counts in two crossed factors: cells, where both have one level each, stand for them.

The rates of a cell's rows have the levels' effects and all columns that are constant there as one factor,
exp(a_cᵀβ + z), of a sum T_c over rows. Further columns, which many rows know well, make log T_c a
polynomial: a point then costs an exponential for each cell, and no visit to the rows.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from .coordinates import Kind
from .inside import Evaluated
from .laplace import curved
from .levels import Levels
from .nearby import Nearby
from .tabled import Rates, Tabled, table_work

if TYPE_CHECKING:
    from .crossed import Crossed

_CELL = 2.0  # what a cell costs at a point, in evaluations of a row's density


class Cells(Nearby):
    """Rates of the larger factor's rows near `center` (d,), `small` (N,) being the smaller one's levels.

    θ is that of `levels`, which has the smaller factor's effects among its coefficients. `same` (p,) are
    columns that no cell's rows differ in.
    """

    def __init__(
        self,
        levels: Levels,
        small: np.ndarray,
        center: np.ndarray,
        spread: np.ndarray,
        same: np.ndarray,
    ):
        order, self.starts = _sorted(levels, small)
        rows, p = levels.rows, levels.p
        X = rows.X[order]
        first = X[self.starts]
        super().__init__(center, np.flatnonzero(~same), spread)
        self.levels, self.A = levels, np.where(same, first, 0.0)
        self.within = np.searchsorted(levels.groups.of[order][self.starts], np.arange(levels.G))
        fixed = levels._exponential
        assert fixed is not None
        eta = rows.X @ center[:p] + rows.offset + np.ravel(fixed.shift)
        self._eta, self._X = eta[order], X[:, self.others]
        self._follow(self._known(np.zeros(len(self.others))))
        del self._eta, self._X

    def _known(self, t: np.ndarray) -> np.ndarray:
        """log T_c of all cells, (C,)."""
        return np.log(np.add.reduceat(np.exp(self._eta + self._X @ (t * self.step)), self.starts))

    def at(self, theta: np.ndarray) -> Rates:
        """The sums of rows at points θ (n, d)."""
        return Rates(self.levels, theta, self.log_totals(theta))

    def log_totals(self, theta: np.ndarray) -> np.ndarray:
        """The logarithm of every group's rate at points θ (n, d), (n, G)."""
        each = self._at(theta) + (theta - self.center)[:, : self.levels.p] @ self.A.T
        top = each.max(1)
        total = np.add.reduceat(np.exp(each - top[:, None]), self.within, axis=1)
        return np.log(total) + top[:, None]


class TabledCells:
    """log p(y, θ) of two crossed factors with cells in place of the rows. See: Crossed, Tabled."""

    def __init__(self, crossed: Crossed, center: np.ndarray):
        levels, at = crossed.levels, np.delete(np.arange(len(center)), crossed.p)
        p = crossed.p
        spread = np.zeros(len(at))
        hessian = crossed.derivatives(center)[2][:p, :p]
        spread[:p] = np.sqrt(np.diag(np.linalg.inv(curved(-hessian))))
        self.tabled = Tabled(levels, crossed.on_cells(center[at], spread), spread)
        self.cells = crossed.cells
        self.crossed, self.inside, self.p = crossed, copy(crossed), p
        assert isinstance(self.tabled.inside, Levels)
        self.inside.levels = self.tabled.inside

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.inside.kinds

    @property
    def work(self) -> float:
        """What a point costs, in evaluations of a row's density."""
        return _work(self.inside.levels, self.cells)

    def choose_nodes(self, theta: np.ndarray) -> None:
        """Ends, and the fewest nodes, that suffice at n points; the first of them is the center."""
        self.inside.choose_nodes(theta)

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What sums with these nodes are off by at n points, (n,)."""
        return self.inside.error(theta)

    def off(self, theta: np.ndarray) -> float:
        """What cells are off by over n draws of θ. See: Tabled.off."""
        return self.tabled.off(self.crossed._without(theta))

    def lend(self) -> None:
        """The nodes that were chosen, to the sums of the rows themselves."""
        self.tabled.lend()

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        return self.inside.log_density(theta)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with moments of every level."""
        return self.inside.evaluate(theta)

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point, the latter two from the rows."""
        return self.inside.derivatives(theta)


def cells_work(crossed: Crossed) -> float:
    """What a point would cost, in evaluations of a row's density; ∞ where cells do not stand for rows."""
    levels = crossed.levels
    fixed = levels._exponential
    if fixed is None or not (fixed.additive and fixed.intercept):
        return np.inf
    return _work(levels, crossed.cells)


def _work(levels: Levels, cells: int) -> float:
    return table_work(levels) + _CELL * cells


def same_in_cells(levels: Levels, small: np.ndarray) -> tuple[np.ndarray, int]:
    """Columns of X (p,) that no cell's rows differ in, and how many cells there are."""
    order, starts = _sorted(levels, small)
    X = levels.rows.X[order]
    sizes = np.diff(np.append(starts, len(X)))
    return (np.repeat(X[starts], sizes, axis=0) == X).all(0), len(starts)


def _sorted(levels: Levels, small: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of rows by cells, and where each cell starts in it."""
    key = levels.groups.of * (int(small.max()) + 1) + small
    order = np.argsort(key, kind="stable")
    return order, np.flatnonzero(np.diff(key[order], prepend=-1))
