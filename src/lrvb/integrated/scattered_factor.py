"""One factor, its rows in parts of whole levels: only sums of rows at known effects are made there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .factor import Factor
from .factor_density import Ends
from .frame import Frame
from .groups import Groups
from .inside import Lines
from .regression import Regression
from .row_sums import Plane, RowSums
from .scattered import Parts, once
from .terms import Term

TOGETHER = 2**20  # numbers that parts are asked for at a time
_ROWS = 2**20  # rows × points at a time, of one part


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


class ScatteredFactor(Factor):
    """The same sums of parts. bring(levels) gives those of some levels alone, in memory, numbers kept."""

    parts: Parts
    bring: Callable[[np.ndarray], Any]

    def _stand_in(
        self, rows: Regression, terms: Sequence[Term], parts: Parts, bring: Callable[..., Any]
    ) -> tuple[Regression, list[Term]]:
        """A row for each group, from `rows` and terms that have none, for all priors."""
        self.parts, self.bring = parts, bring
        found = parts.map(_portion)
        self._portions = there = [part for part in found if part is not None]
        self._cuts = np.cumsum([0 if part is None else len(part.sizes) for part in found])[:-1]
        sizes = np.concatenate([part.sizes for part in there])
        once(np.concatenate([part.levels for part in there]))
        # groups are those of part after part, but with more rows first
        self.order, G = np.argsort(-sizes, kind="stable"), len(sizes)
        self.place, self.row_sizes = np.argsort(self.order), sizes[self.order]
        group, start = np.full(terms[0].levels, -1), 0
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
        self._group = group
        own = replace(rows, columns=columns, X=X, offset=np.zeros(G))
        return own, [replace(term, codes=codes, R=np.ones((G, term.q))) for term in terms]

    def _know_levels(self) -> None:
        """The groups of all levels, of which a row each was given."""
        every, there = np.arange(self.G), self._portions
        counts = np.concatenate([part.counts for part in there])[self.order]
        self.groups = Groups(every, every, counts, every, self._group)
        self.constant = float(sum(part.constant for part in there))

    def _arrange(self, rows: Regression, R: np.ndarray) -> None:
        super()._arrange(rows, R)
        self.N = self.in_all

    @property
    def _is_here(self) -> bool:
        """Whether sums are had without the rows."""
        return self.table is not None

    def together(self, rows: int) -> int:
        """Points at which groups have nodes at a time: parts are asked as seldom as their answers allow."""
        if self._is_here:
            return super().together(rows)
        return max(1, TOGETHER // (self.G * self.nodes**self.q))

    def _ends(self, theta: np.ndarray) -> Ends:
        """Modes and ends, or windows where there may be several, which each part finds for its own groups."""
        if self._is_here:
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

    def _rows_at(self, theta: np.ndarray) -> RowSums:
        return ScatteredSums(self, theta) if self.table is None else self.table.at(theta)

    def derivatives_at(
        self, theta: np.ndarray, Z: np.ndarray, P: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of rows and levels over nodes Z (G, K, q) of probabilities P (G, K)."""
        ask = partial(_derivatives_at, theta)
        found = self.parts.map(ask, self.split(Z, 0), self.split(P, 0))
        gradient, H = zip(*(part for part in found if part is not None), strict=True)
        return np.sum(gradient, axis=0), np.sum(H, axis=0)

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


class ScatteredSums:
    """Sums of rows in parts, at effects of their levels. See: RowSums."""

    def __init__(self, factor: ScatteredFactor, theta: np.ndarray):
        self.factor, self.theta = factor, theta

    def take(self, points: np.ndarray) -> RowSums:
        """At some of the points."""
        return ScatteredSums(self.factor, self.theta[points])

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""
        return self._ask(_line, self.factor.split(Z))

    def plane(self, plane: Plane) -> np.ndarray:
        """On product grids of two effects, (n, G, Q, Q)."""
        each = zip(*(self.factor.split(part) for part in plane), strict=True)
        return self._ask(_plane, [Plane(*own) for own in each])

    def height(self, z: np.ndarray) -> np.ndarray:
        """At effects (n, G, q), (n, G)."""
        return self._ask(_height, self.factor.split(z))

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, q) and information (n, G, q, q) at effects (n, G, q)."""
        factor = self.factor
        found = factor.parts.map(partial(_slopes, self.theta), factor.split(z))
        first, second = _transposed(found)
        return factor.joined(first), factor.joined(second)

    def _ask(self, question: Callable[..., Any], own: Sequence[Any]) -> np.ndarray:
        return self.factor.joined(self.factor.parts.map(partial(question, self.theta), own))


def _portion(_: int, part: Factor | None) -> Portion | None:
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
        np.maximum.reduceat(np.abs(part.R).max(1), groups.starts),
        np.array([X.min(0), X.max(0)]),
        bool(np.all(part.R == 1)),
        sums,
    )


def _line(theta: np.ndarray, _: int, part: Factor | None, Z: np.ndarray) -> np.ndarray | None:
    return None if part is None else part._rows_at(theta).line(Z)


def _plane(theta: np.ndarray, _: int, part: Factor | None, plane: Plane) -> np.ndarray | None:
    """Of as many points at a time as the part would ask by itself."""
    if part is None:
        return None
    here = copy(part)
    here.nodes = plane.first.shape[2]
    found = [
        part._rows_at(theta[lot]).plane(Plane(*(own[lot] for own in plane)))
        for lot in _lots(len(theta), here.together(here._width))
    ]
    return np.concatenate(found)


def _height(theta: np.ndarray, _: int, part: Factor | None, z: np.ndarray) -> np.ndarray | None:
    return None if part is None else part._rows_at(theta).height(z)


def _slopes(theta: np.ndarray, _: int, part: Factor | None, z: np.ndarray) -> Any:
    return None if part is None else part._rows_at(theta).slopes(z)


def _ends(
    theta: np.ndarray,
    center: np.ndarray,
    bent: bool,
    drop: float,
    _: int,
    part: Factor | None,
    own: tuple[np.ndarray, ...],
) -> Ends | None:
    """With what all know of these groups: starts, moves, and any box."""
    if part is None:
        return None
    here = copy(part)
    here._center, here.bent, here.drop = center, bent, drop
    here._start, here._moves, *box = own
    here._box = (box[0], box[1]) if box else None
    found = [here._ends(theta[lot]) for lot in _lots(len(theta), max(1, _ROWS // part.N))]
    return Ends(*(np.concatenate(ends) for ends in zip(*found, strict=True)))


def _lots(n: int, few: int) -> Iterator[slice]:
    """So few of n points at a time."""
    return (slice(start, start + few) for start in range(0, n, few))


def _windows(theta: np.ndarray, drop: float, _: int, part: Factor | None, own: Frame) -> Any:
    """Of one point after another: where a group is looked at hangs on all that are asked together."""
    if part is None:
        return None
    here = _framed(part, drop, own)
    found = [here._ends(point[None]) for point in theta]
    return Ends(*(np.concatenate(ends) for ends in zip(*found, strict=True)))


def _learnt(
    theta: np.ndarray, move: bool, drop: float, _: int, part: Factor | None, own: Frame
) -> Any:
    """Frames and ends, each an array of the groups."""
    if part is None:
        return None
    here = _framed(part, drop, own)
    here._learn_frame(theta, move)
    assert here._frame is not None
    assert here._box is not None
    return *here._frame[:3], *here._box


def _framed(part: Factor, drop: float, own: Frame) -> Factor:
    here = copy(part)
    here._frame, here._box, here.drop = own, None, drop
    return here


def _like_beta(_: int, part: Factor | None) -> np.ndarray | None:
    return None if part is None else part._like_beta()


def _transposed(found: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Each of several answers, from all parts that have rows."""
    return zip(*(part for part in found if part is not None), strict=True)


def _derivatives_at(
    theta: np.ndarray, _: int, part: Factor | None, Z: np.ndarray, P: np.ndarray
) -> Any:
    return None if part is None else part.derivatives_at(theta, Z, P)
