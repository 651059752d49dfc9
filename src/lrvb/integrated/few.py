"""One factor of few levels and many rows: where its mode is, and a table around it that stands for the rows.

Every so many-th row of each level, counted so often, finds the mode roughly (of nested factors, whose inner
sd is a coordinate of the table, counted once); a rough table of all rows leads to theirs, around which a
finer one is made.
"""

from __future__ import annotations

import numpy as np

from .cells import cells_work
from .crossed import Crossed
from .effort import FEW_LEVELS
from .importance import Budget
from .inside import Inside
from .levels import Levels
from .many import sds
from .mode import Mode, climb, steadied
from .nested import Nested
from .outer import Outer
from .surrogate import NotSmooth
from .tabled import Table, Tabled, own_coordinates, reach, table_work

_ROWS = 1000  # that find the mode roughly,
_EACH = 20  # so many of every level at least,
_NEAR = 0.3  # to so many of its sds
_ROUGH, _MOVED = 3, 1.5  # rough tables, while modes are so many sds from their centers
_ROOM = 2.5  # times the ends there, that a rough table reaches
_UP = 2.0  # sds of a log sd, to either side, over which a table must reach
_WIDE = 0.3  # sd of the inner log sd beyond which no polynomial of it follows the rows
_NESTED = 4e8  # evaluations by nested sums that are not worth a table
_LEAST = 2e6  # evaluations of a row's density that are not worth a table
_GAIN = 2.0  # by which a point must cost less


def can_tabulate(inside: Inside, budget: Budget) -> bool:
    """Whether a table saves time: rows are many, in levels with one effect of one mode each, or in cells."""
    draws = budget.final + budget.rounds * budget.explore
    if isinstance(inside, Nested):
        return inside.rows.likelihood.concave and draws * inside.work > _NESTED
    if isinstance(inside, Crossed):
        return draws * inside.work > _LEAST and inside.work > _GAIN * cells_work(inside)
    if not isinstance(inside, Levels) or not inside.rows.likelihood.concave:
        return False
    own = inside.cost * inside.work
    return inside.fewest < FEW_LEVELS and draws * own > _LEAST and own > _GAIN * table_work(inside)


def tabulate(inside: Inside, start: np.ndarray, longest: np.ndarray) -> tuple[Tabled, Mode]:
    """The sums of rows by a table around their mode; `NotSmooth` or `NoMode` where there is none."""
    if isinstance(inside, Nested):
        return _tabulate_outer(inside, start, longest)
    assert isinstance(inside, Levels)
    some = inside.of_some_rows(_every(inside.N, inside.G))
    some.be_quick(11)
    first = climb(some.log_density, start, some.derivatives, longest, _NEAR)
    inside._center, inside._start = first.x.copy(), some._start
    return _around(inside, first.x, sds(first), longest)


def _tabulate_outer(nested: Nested, start: np.ndarray, longest: np.ndarray) -> tuple[Tabled, Mode]:
    """Of the outer of two factors, whose rows' density has the inner levels summed out."""
    some = _some_rows(some_inner(nested))
    first = climb(some.log_density, start, some.derivatives, longest, _NEAR)
    spread, inner = np.sqrt(some.N / nested.N) * sds(first), nested.p + 1
    # of M levels' log sd no rows know more than M exact effects would
    spread[inner] = max(spread[inner], 1 / np.sqrt(2 * nested.M))
    if spread[inner] > _WIDE:
        raise NotSmooth("Rows tell too little of the inner sd.", mode=first.x)
    outer = Outer(nested)
    outer.choose_step(first.x)
    return _around(outer, first.x, spread, longest)


def _around(
    inside: Levels, center: np.ndarray, spread: np.ndarray, longest: np.ndarray
) -> tuple[Tabled, Mode]:
    """A table at the mode, which rough ones find, from a center nearby."""
    # rows know the effects with all that does the same to them
    inside._moves = np.broadcast_to(-own_coordinates(inside)[1], inside._moves.shape)
    for _ in range(_ROUGH):
        table = Table(
            inside, center, spread, *reach(inside, center[None], center, _ROOM), rough=True
        )
        mode = _top(Tabled(inside, table, spread), center, longest)
        moved = np.abs(mode.x - center)[table.others] / sds(mode)[table.others]
        center, spread = mode.x, sds(mode)
        if moved.max(initial=0.0) < _MOVED:
            break
    points = np.array([center, *sideways(center, _UP * spread, inside)])
    inside._center, inside._start = center.copy(), inside._ends(center[None]).z[0]
    tabled = Tabled(inside, Table(inside, center, spread, *reach(inside, points, center)), spread)
    return tabled, _top(tabled, center, longest)


def _every(rows: int, levels: int) -> int:
    """One row of so many is enough to find a mode roughly."""
    return max(1, int(min(rows / _ROWS, rows / (_EACH * levels))))


def some_inner(nested: Nested) -> Nested:
    """Every so many-th inner level of each outer one alone."""
    every = int(min(nested.N / _ROWS, nested.M / (_EACH * nested.G)))
    return nested.of_some_inner(every) if every > 1 else nested


def _some_rows(nested: Nested) -> Nested:
    """Every so many-th row of each inner level alone.

    Each counts once: if they counted for the others, what a few rows say of a level by chance would be told
    as differences between levels, and the inner sd come out too large.
    """
    every = _every(nested.N, nested.M)
    return nested.of_some_rows(every) if every > 1 else nested


def sideways(x: np.ndarray, moves: np.ndarray, inside: Levels) -> list[np.ndarray]:
    """x with the levels' sd larger, and smaller."""
    move = np.where(np.arange(len(x)) == inside.p, np.minimum(moves, 2.0), 0.0)
    return [x + move, x - move]


def _top(tabled: Tabled, start: np.ndarray, longest: np.ndarray) -> Mode:
    found = climb(tabled.log_density, start, tabled.derivatives, longest)
    return steadied(tabled.log_density, found)
