"""What a certificate and a fit cost, counted in passes over the rows, never by a clock.

So an answer does not depend on the machine. A pass is the collapsed density of all rows at one draw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..collapsed.seam import SMALL
from ..engine.response import Response
from ..statement.problem import Problem
from .sampling import MOST
from .scouts import cost as scouting
from .starts import STARTS

DRAWS = 1024
BRIEF = 128  # of which 100 must be effective: few enough for any number of rows
FEWER_STARTS = STARTS - 4  # of a certificate that nobody asked for
SECOND = 5e7  # elementary terms of draws that take about a second, with the fits from other starts
LONG = (
    3 * SECOND
)  # of a brief certificate that is more than three fits, beyond which it is not made of all rows
FITS = 3  # that a certificate may cost unasked
START = 60  # passes of a fit from a far start, where a curvature costs few of them
SWEEPS, STEPS = 120, 4  # the same where it costs many: passes of its sweeps, and curvatures


class Unasked(NamedTuple):
    """What a certificate may do that nobody asked for: so many draws, and passes in all (None: any).

    A `brief` one has few draws, and some of the rows look for other modes. A `long` one is for rows of which
    some can stand for all.
    """

    draws: int
    passes: int | None = None
    brief: bool = False
    long: bool = False


def unasked(response: Response) -> Unasked | None:
    """A certificate that takes about a second or costs less than three fits; else a brief one.

    Few draws confirm an answer that many rows have made nearly normal, and more of them are made where those
    settle too little, within a second or three fits. None where rows are not linear in z, or elsewhere.
    """
    problem = response.fit.problem
    if not problem.structure.conjugate or problem.total is not None:
        return None
    fits = FITS * max(response.fit.n_iter, 1) * curvature_cost(problem)
    looking = FEWER_STARTS * start_cost(problem)
    each = problem.n * row_cost(problem)
    for n in (2 * DRAWS, DRAWS, DRAWS // 2):
        if n + looking <= fits or (n == DRAWS and n * each <= SECOND):
            return Unasked(n)
    size = problem.alpha.size
    first = BRIEF + scouting(size, size <= MOST)
    passes = max(fits, first + int(SECOND / each))
    return Unasked(BRIEF, passes, brief=True, long=first > fits and first * each > LONG)


def row_cost(problem: Problem) -> float:
    """Elementary terms of one row's collapsed value: nodes of a quadrature, or entries of z.

    Features multiply them. A row that is a whole group has as many as half of its numbers.
    """
    blocks = problem.local.blocks.values()
    own = max(1.0, sum(f.copies * getattr(f, "nodes", f.size) for f in blocks))
    if problem.model.features is not None:
        return own * max(1.0, problem.alpha.size / 8)
    columns = {} if problem.rows is None else problem.rows.columns
    return max(own, sum(float(np.prod(c.shape[1:])) for c in columns.values()) / 2)


def curvature_cost(problem: Problem) -> int:
    """Passes that objective, gradient and curvature are counted as: 4 to 7 of few coordinates."""
    return max(6, problem.alpha.size // 6)


def start_cost(problem: Problem) -> int:
    """Passes that a fit from a far start is counted as."""
    return START if problem.alpha.size <= SMALL else SWEEPS + STEPS * curvature_cost(problem)
