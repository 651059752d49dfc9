"""Two crossed factors, their rows in parts of whole levels of the larger one: sums return, and no rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np

from .cells import Cells
from .crossed import Crossed
from .factor_density import Tabulated
from .levels import Levels
from .nearby import Place
from .regression import Regression
from .row_sums import RowSums
from .scattered import Parts
from .scattered_levels import ScatteredLevels
from .tabled import Rates
from .terms import Term


class ScatteredCrossed(Crossed):
    """The same sums of parts; `rows` and terms, of no rows, have the priors.

    bring(levels) gives the sums of some levels of the larger factor alone, in memory.
    """

    def __init__(
        self,
        rows: Regression,
        small: Term,
        large: Term,
        parts: Parts,
        bring: Callable[[np.ndarray], Crossed],
    ):
        super().__init__(rows, large, small)
        none, self.parts = self.levels, parts
        self.levels = ScatteredLevels(
            none.rows,
            large,
            parts.prepared(_levels),
            lambda levels: bring(levels).levels,
            none.nodes,
        )

    @cached_property
    def same_in_cells(self) -> tuple[np.ndarray, int]:
        """Columns that no cell's rows differ in, and how many cells there are."""
        same, cells = zip(
            *(part for part in self.parts.map(_same) if part is not None), strict=True
        )
        return np.all(same, axis=0), sum(cells)

    def on_cells(self, center: np.ndarray, spread: np.ndarray) -> Tabulated:
        """Cells in place of the rows, near a point of the larger factor's θ."""
        return ScatteredCells(self, center, spread)


class ScatteredCells(Place):
    """Cells that stay where their rows are. See: Cells."""

    def __init__(self, crossed: ScatteredCrossed, center: np.ndarray, spread: np.ndarray):
        same, _ = crossed.same_in_cells
        super().__init__(center, np.flatnonzero(~same), spread)
        self.levels = crossed.levels
        self.parts = crossed.parts.prepared(partial(_cells, center, spread, same))

    def at(self, theta: np.ndarray) -> RowSums:
        """The sums of rows at points θ (n, d)."""
        assert isinstance(self.levels, ScatteredLevels)
        return Rates(self.levels, theta, self.levels.joined(self.log_totals(theta)))

    def log_totals(self, theta: np.ndarray) -> tuple[np.ndarray | None, ...]:
        """The logarithms of all groups' rates, part by part."""
        return self.parts.map(partial(_log_totals, theta))


# ---- where the rows are: a part is the sums of its levels, or None if it has no rows -----------


def _levels(part: Crossed | None) -> Levels | None:
    return None if part is None else part.levels


def _same(_: int, part: Crossed | None) -> tuple[np.ndarray, int] | None:
    return None if part is None else part.same_in_cells


def _cells(
    center: np.ndarray, spread: np.ndarray, same: np.ndarray, part: Crossed | None
) -> Cells | None:
    return None if part is None else Cells(part.levels, part._small_codes, center, spread, same)


def _log_totals(theta: np.ndarray, _: int, part: Cells | None) -> np.ndarray | None:
    return None if part is None else part.log_totals(theta)
