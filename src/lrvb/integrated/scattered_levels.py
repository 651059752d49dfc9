"""One factor with an effect a level, its rows in parts: only sums of rows at known effects are made there.

Where a table stands for the rows of few levels, those are asked for such sums a few dozen times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from .factor_density import Ends, FactorDensity, Sums
from .frame import Frame
from .groups import Groups
from .inside import Lines
from .levels import Levels, first_nodes
from .regression import Regression
from .row_sums import OneEffect, RowSums
from .scattered import Parts, once
from .tabled import Rates
from .terms import Term

_TOGETHER = 2**20  # numbers that parts are asked for at a time


@runtime_checkable
class Totals(Protocol):
    """What knows the totals of groups' rates, part by part."""

    def log_totals(self, theta: np.ndarray) -> tuple[np.ndarray | None, ...]:
        """Their logarithms at n points, of every part (n, G)."""


class Portion(NamedTuple):
    """Of one part: its rows, the constant of their density; levels that it has, and groups of these.

    counts (G,) are levels of each group, sizes (G,) its rows, reach (G,) its largest |R|. X (2, p) is what
    columns are between; whether every R is 1, `intercept` says. sums are Σ yX, Σ yR and Σ y·offset of the
    groups, where rates are on a log scale.
    """

    rows: int
    constant: float
    levels: np.ndarray
    group: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray
    reach: np.ndarray
    X: np.ndarray
    intercept: bool
    sums: tuple[np.ndarray, ...]


class ScatteredLevels(Levels):
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
        self.parts, self.bring = parts, bring
        self._ahead: dict[bytes, np.ndarray] = {}  # totals at points that will be asked for
        found = parts.map(_portion)
        self._portions = there = [part for part in found if part is not None]
        self._cuts = np.cumsum([0 if part is None else len(part.sizes) for part in found])[:-1]
        sizes = np.concatenate([part.sizes for part in there])
        once(np.concatenate([part.levels for part in there]))
        # groups are those of part after part, but with more rows first
        self.order, G = np.argsort(-sizes, kind="stable"), len(sizes)
        self.place, self.row_sizes = np.argsort(self.order), sizes[self.order]
        group, start = np.full(term.levels, -1), 0
        for part in there:
            group[part.levels] = self.place[start + part.group]
            start += len(part.sizes)
        # a row for each group, whose columns differ where those of all rows do
        low = np.min([part.X[0] for part in there], axis=0)
        X = np.tile(low, (G, 1))
        X[-1] = np.max([part.X[1] for part in there], axis=0)
        columns = tuple(np.repeat(column[:1], G) for column in rows.columns)
        first = np.unique(group[group >= 0], return_index=True)[1]
        codes = np.flatnonzero(group >= 0)[first]
        self.in_all = sum(part.rows for part in there)
        super().__init__(
            replace(rows, columns=columns, X=X, offset=np.zeros(G)),
            replace(term, codes=codes, R=np.ones((G, 1))),
            merge=False,
            nodes=nodes or first_nodes(rows.likelihood, self.in_all),
        )
        every, counts = np.arange(G), np.concatenate([part.counts for part in there])[self.order]
        self.groups = Groups(every, every, counts, every, group)
        self.constant = float(sum(part.constant for part in there))

    def _arrange(self, rows: Regression, R: np.ndarray) -> None:
        super()._arrange(rows, R)
        self.N, fixed = self.in_all, self._exponential
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
        regular, many = self._regular(theta), max(1, _TOGETHER // self.G)
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

    def together(self, rows: int) -> int:
        """Points at which groups have nodes at a time: parts are asked as seldom as their answers allow."""
        if self.table is not None or self._has_totals:
            return super().together(rows)
        return max(1, _TOGETHER // (self.G * self.nodes))

    def _ends(self, theta: np.ndarray) -> Ends:
        """Modes and ends, or windows where there may be several, which each part finds for its own groups."""
        if self.table is not None or self._has_totals:
            return super()._ends(theta)
        if self._frame is not None:
            if self._box is not None:  # then nobody asks the rows
                return super()._ends(theta)
            found = self.parts.map(partial(_windows, theta, self.drop), self._frames())
            return Ends(*(self.joined(part) for part in _transposed(found)))
        known = self._start, self._moves, *(self._box or ())
        own = list(zip(*(self.split(values, 0) for values in known), strict=True))
        found = self.parts.map(partial(_ends, theta, self._center, self.bent, self.drop), own)
        return Ends(*(self.joined(part) for part in _transposed(found)))

    def _learn_frame(self, theta: np.ndarray, move: bool) -> None:
        """Frames and ends, which each part learns for its own groups."""
        ask = partial(_learnt, theta, move, self.drop)
        found = _transposed(self.parts.map(ask, self._frames()))
        J, b, moves, low, high = (self.joined([own[None] for own in part])[0] for part in found)
        self._frame, self._box = Frame(J, b, moves, theta[0]), (low, high)

    def _frames(self) -> list[Frame]:
        """The frames of each part's groups."""
        assert self._frame is not None
        J, b, moves = (self.split(values, 0) for values in self._frame[:3])
        center = self._frame.center
        return [Frame(*part, center) for part in zip(J, b, moves, strict=True)]

    def _like_beta(self) -> np.ndarray:
        """The effects that do to a group's rows what β does. See: FactorNodes."""
        if self._alike is None:
            found = [part for part in self.parts.map(_like_beta) if part is not None]
            self._alike = self.joined([part[None] for part in found])[0]
        return self._alike

    @property
    def _has_totals(self) -> bool:
        """Whether the rows of a group matter through the total of their rates."""
        if self.table is not None:
            return isinstance(self.table, Totals)
        fixed = self._exponential
        return fixed is not None and fixed.additive and fixed.intercept

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
        return ScatteredSums(self, theta) if self.table is None else self.table.at(theta)

    def derivatives_at(
        self, theta: np.ndarray, Z: np.ndarray, P: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of rows and levels over nodes Z (G, K, q) of probabilities P (G, K)."""
        ask = partial(_derivatives_at, theta)
        found = self.parts.map(ask, self.split(Z, 0), self.split(P, 0))
        gradient, H = zip(*(part for part in found if part is not None), strict=True)
        return np.sum(gradient, axis=0), np.sum(H, axis=0)

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

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows at the nodes of their levels, whose rows are brought here."""
        asked = np.unique(codes[0][codes[0] >= 0])
        near = self.bring(asked)
        near.nodes, near.bent, near.drop = self.nodes, self.bent, self.drop
        near._center = self._center
        if len(asked):
            own = np.empty(near.G, dtype=np.int64)  # the group here of each of theirs
            own[near.groups.group[asked]] = self.groups.group[asked]
            near._start, near._moves = self._start[own], self._moves[own]
            near._box = None if self._box is None else (self._box[0][own], self._box[1][own])
            near._frame = None if self._frame is None else self._frame.take(own)
        return near.lines(theta, X, codes, R)

    def split(self, values: np.ndarray, axis: int = 1) -> list[np.ndarray]:
        """Of all groups, those of each part."""
        return np.split(values.take(self.place, axis=axis), self._cuts, axis=axis)

    def joined(self, found: Sequence[np.ndarray | None]) -> np.ndarray:
        """Of the parts' groups (n, G, …), those of all."""
        there = [part for part in found if part is not None]
        return np.concatenate(there, axis=1)[:, self.order]


class ScatteredSums(OneEffect):
    """Sums of rows in parts, at effects of their levels. See: RowSums."""

    def __init__(self, levels: ScatteredLevels, theta: np.ndarray):
        self.levels, self.theta = levels, theta

    def take(self, points: np.ndarray) -> RowSums:
        """At some of the points."""
        return ScatteredSums(self.levels, self.theta[points])

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""
        levels = self.levels
        return levels.joined(levels.parts.map(partial(_line, self.theta), levels.split(Z)))

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at effects (n, G, 1)."""
        levels = self.levels
        found = levels.parts.map(partial(_slopes, self.theta), levels.split(z))
        first, second = zip(*(part for part in found if part is not None), strict=True)
        return levels.joined(first), levels.joined(second)


# ---- where the rows are: a part is the sums of its levels, or None if it has no rows -----------


def _portion(_: int, part: Levels | None) -> Portion | None:
    if part is None:
        return None
    X, groups, fixed = part.rows.X, part.groups, part._exponential
    levels = np.flatnonzero(groups.group >= 0)
    sums: tuple[np.ndarray, ...] = ()
    if fixed is not None and fixed.additive:
        sums = fixed.yX, fixed.yR, fixed.y_offset
    return Portion(
        round(float(groups.sizes @ groups.counts)),
        part.constant,
        levels,
        groups.group[levels],
        groups.counts,
        groups.sizes,
        part._reach,
        np.array([X.min(0), X.max(0)]),
        bool(np.all(part.R == 1)),
        sums,
    )


def _totals(theta: np.ndarray, _: int, part: Levels | None) -> np.ndarray | None:
    return None if part is None else part._rows_at(theta).total.T  # type: ignore[attr-defined]


def _line(theta: np.ndarray, _: int, part: Levels | None, Z: np.ndarray) -> np.ndarray | None:
    return None if part is None else part._rows_at(theta).line(Z)


def _slopes(theta: np.ndarray, _: int, part: Levels | None, z: np.ndarray) -> Any:
    return None if part is None else part._rows_at(theta).slopes(z)


def _ends(
    theta: np.ndarray,
    center: np.ndarray,
    bent: bool,
    drop: float,
    _: int,
    part: Levels | None,
    own: tuple[np.ndarray, ...],
) -> Ends | None:
    """With what all know of these groups: starts, moves, and any box."""
    if part is None:
        return None
    here = copy(part)
    here._center, here.bent, here.drop = center, bent, drop
    here._start, here._moves, *box = own
    here._box = (box[0], box[1]) if box else None
    return here._ends(theta)


def _windows(theta: np.ndarray, drop: float, _: int, part: Levels | None, own: Frame) -> Any:
    """Of one point after another: where a group is looked at hangs on all that are asked together."""
    if part is None:
        return None
    here = _framed(part, drop, own)
    found = [here._ends(point[None]) for point in theta]
    return Ends(*(np.concatenate(ends) for ends in zip(*found, strict=True)))


def _learnt(
    theta: np.ndarray, move: bool, drop: float, _: int, part: Levels | None, own: Frame
) -> Any:
    """Frames and ends, each an array of the groups."""
    if part is None:
        return None
    here = _framed(part, drop, own)
    here._learn_frame(theta, move)
    assert here._frame is not None
    assert here._box is not None
    return *here._frame[:3], *here._box


def _framed(part: Levels, drop: float, own: Frame) -> Levels:
    here = copy(part)
    here._frame, here._box, here.drop = own, None, drop
    return here


def _like_beta(_: int, part: Levels | None) -> np.ndarray | None:
    return None if part is None else part._like_beta()


def _transposed(found: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Each of several answers, from all parts that have rows."""
    return zip(*(part for part in found if part is not None), strict=True)


def _derivatives_at(
    theta: np.ndarray, _: int, part: Levels | None, Z: np.ndarray, P: np.ndarray
) -> Any:
    return None if part is None else part.derivatives_at(theta, Z, P)


def _some_rows(every: int, _: int, part: Levels | None) -> Any:
    return None if part is None else part.some_rows(every)
