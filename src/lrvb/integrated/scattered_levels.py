"""One factor with an effect a level, its rows in parts: only sums of rows at known effects are made there.

Where a table stands for the rows of few levels, those are asked for such sums a few dozen times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from .factor_density import FactorDensity, Sums
from .levels import Levels, first_nodes
from .regression import Regression
from .row_sums import RowSums
from .scattered import Parts
from .scattered_factor import TOGETHER, ScatteredFactor
from .tabled import Rates
from .terms import Term


@runtime_checkable
class Totals(Protocol):
    """What knows the totals of groups' rates, part by part."""

    def log_totals(self, theta: np.ndarray) -> tuple[np.ndarray | None, ...]:
        """Their logarithms at n points, of every part (n, G)."""


class ScatteredLevels(ScatteredFactor, Levels):
    """The same sums of parts; `rows` and `term`, of no rows, have the priors.

    bring(levels) gives the sums of some levels alone, in memory, with their numbers kept.
    """

    def __init__(
        self,
        rows: Regression,
        term: Term,
        parts: Parts,
        bring: Callable[[np.ndarray], Levels],
        nodes: int = 0,
    ):
        self._ahead: dict[bytes, np.ndarray] = {}  # totals at points that will be asked for
        own, (one,) = self._stand_in(rows, [term], parts, bring)
        nodes = nodes or first_nodes(rows.likelihood, self.in_all)
        super().__init__(own, one, merge=False, nodes=nodes)
        self._know_levels()

    def _arrange(self, rows: Regression, R: np.ndarray) -> None:
        super()._arrange(rows, R)
        fixed = self._exponential
        self.R = np.concatenate([part.reach for part in self._portions])[self.order, None]
        if fixed is None:
            return
        fixed.intercept = all(part.intercept for part in self._portions)
        if fixed.additive:
            sums = zip(*(part.sums for part in self._portions), strict=True)
            fixed.yX, fixed.yR, fixed.y_offset = (np.concatenate(p)[self.order] for p in sums)

    def _run(
        self, theta: np.ndarray, points: np.ndarray, like: FactorDensity | None = None
    ) -> Iterator[tuple[np.ndarray, Sums]]:
        """Sums at points; parts are asked for totals at many of them together, however few fit a cache."""
        regular, many = self._regular(theta), max(1, TOGETHER // self.G)
        try:
            for start in range(0, len(points), many):
                lot = points[start : start + many]
                self._ahead = {}
                if self._has_totals:
                    totals = self._log_totals(regular[lot])
                    keys = [point.tobytes() for point in regular[lot]]
                    self._ahead = dict(zip(keys, totals, strict=True))
                yield from super()._run(theta, lot, like)
        finally:
            self._ahead = {}

    @property
    def _has_totals(self) -> bool:
        """Whether the rows of a group matter through the total of their rates."""
        if self.table is not None:
            return isinstance(self.table, Totals)
        fixed = self._exponential
        return fixed is not None and fixed.additive and fixed.intercept

    @property
    def _is_here(self) -> bool:
        """Whether sums are had without the rows, or from their totals."""
        return self.table is not None or self._has_totals

    def _log_totals(self, theta: np.ndarray) -> np.ndarray:
        """The logarithm of every group's total at n points, (n, G)."""
        known = [self._ahead.get(point.tobytes()) for point in theta]
        if known and all(total is not None for total in known):
            return np.array(known)
        if isinstance(self.table, Totals):
            return self.joined(self.table.log_totals(theta))
        return np.log(self.joined(self.parts.map(partial(_totals, theta))))

    def _rows_at(self, theta: np.ndarray) -> RowSums:
        if self._has_totals:
            return Rates(self, theta, self._log_totals(theta))
        return super()._rows_at(theta)

    def of_some_rows(self, every: int) -> Levels:
        """Every so many-th row of each group, brought here."""
        found = [part for part in self.parts.map(partial(_some_rows, every)) if part is not None]
        taken, R, of = zip(*found, strict=True)
        starts = np.cumsum([0, *(len(part.sizes) for part in self._portions)])
        columns = tuple(
            np.concatenate(part) for part in zip(*(t.columns for t in taken), strict=True)
        )
        rows = replace(
            self.rows,
            columns=columns,
            X=np.concatenate([part.X for part in taken]),
            offset=np.concatenate([part.offset for part in taken]),
        )
        here = object.__new__(Levels)  # these sums, of rows in memory
        here.__dict__.update(self.__dict__)
        groups = [self.place[part + start] for part, start in zip(of, starts, strict=False)]
        whole = np.concatenate(groups)
        by = np.argsort(whole, kind="stable")
        return here.thinned(rows.take(by), np.concatenate(R)[by], whole[by], self.row_sizes)


# ---- where the rows are: a part is the sums of its levels, or None if it has no rows -----------


def _totals(theta: np.ndarray, _: int, part: Levels | None) -> np.ndarray | None:
    return None if part is None else part._rows_at(theta).total.T  # type: ignore[attr-defined]


def _some_rows(every: int, _: int, part: Levels | None) -> Any:
    return None if part is None else part.some_rows(every)
