"""Rows and groups left out of an integrated model: their densities given the rest, at its draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ....integrated.deletion.blocks import blocks_of
from ....integrated.deletion.drawn import drawn_levels
from ....integrated.deletion.left_out import LeftOut, count_rows, finer, leave_out
from ....integrated.deletion.rows import given_levels
from ....integrated.importance import resampled
from ....integrated.inside import Inside
from ....integrated.nested_grids import TooManyNodes
from ....integrated.normal import Normal
from .fit import IntegratedFit

WORK = 5e8  # evaluations of a row's density that one answer may cost: about five seconds
SOLVED = 100  # evaluations that take as long as the solve of a block of gaussian rows at a draw
DRAWN = 4  # times as long, where levels that are left out have effects among the draws
FITTED = 20  # such levels, of which that takes half as long as fits without them
SMOOTHED = 1e7  # blocks × draws whose weights are smoothed: about as long
FEWEST = 256  # draws
CELLS = 2**22  # numbers of blocks × draws that are kept at a time


class Sample(NamedTuple):
    """Draws of the fit by their places `at` (S,), with their weights."""

    at: np.ndarray
    theta: np.ndarray
    weights: np.ndarray


class Lot(NamedTuple):
    """Blocks by their numbers, and what leaving each out takes from the density at the draws."""

    blocks: np.ndarray
    out: LeftOut


def sample(found: IntegratedFit, codes: np.ndarray, blocks: int) -> Sample:
    """All draws that matter, or as many as are worth their time, with their weights' roots.

    Draws of little weight are where the posterior without a block may be: they are kept.
    """
    inside, n = found.statement.inside, found.design.n
    work = 10.0 * n + SOLVED * blocks if isinstance(inside, Normal) else _work(inside, n)
    most = int(min(WORK / work, SMOOTHED / max(blocks, 1)))
    if drawn_levels(inside, codes).any():
        most = min(most // DRAWN, len(found.weights) * blocks // FITTED)
    most = max(FEWEST, most)
    if len(found.weights) <= most:
        return Sample(np.arange(len(found.weights)), found.theta, found.weights)
    root = np.sqrt(found.weights)
    at = resampled(root / root.sum(), most)
    return Sample(at, found.theta[at], root[at] / root[at].sum())


def _work(inside: Inside, n: int) -> float:
    """Of a draw: the sums, and the n rows at their nodes."""
    return 2 * inside.work + n


def _fine(found: IntegratedFit, draws: int) -> Normal | Inside:
    """The fit's sums with twice the nodes, if that is worth its time."""
    inside = found.statement.inside
    if isinstance(inside, Normal):
        return inside
    dense = finer(inside)
    try:
        work = _work(dense, found.design.n)
    except TooManyNodes:
        return inside
    return dense if draws * work <= WORK else inside


def lots(
    found: IntegratedFit,
    drawn: Sample,
    codes: np.ndarray,
    n: int,
    moved: bool = False,
    counted: bool = False,
) -> Iterator[Lot]:
    """Blocks `codes` (N,) of the rows, some at a time: those of neighbouring levels together.

    `moved` asks for the change of β given θ too. With `counted` it is of single rows, and instead of what is
    lost without them the slope in how often each counts. Sums then have twice the nodes of the fit's, by
    which slopes are known to 1e-5 of their size and not to 1e-2, unless that is beyond WORK or grids end.
    """
    ask = count_rows if counted else leave_out
    statement = found.statement
    terms = [statement.terms[t] for t in statement.order]
    width = len(drawn.theta) * (1 + (statement.p if moved else 0))
    size = max(1, CELLS // width)
    order = np.arange(n)
    if terms:
        first = np.zeros(n, dtype=np.int64)
        first[codes[::-1]] = terms[-1].codes[::-1]
        order = np.argsort(first, kind="stable")
    volume = np.bincount(codes, _volume(found), minlength=n)
    inside = _fine(found, len(drawn.theta)) if counted else statement.inside
    for start in range(0, n, size):
        some = np.sort(order[start : start + size])
        blocks = blocks_of(codes, some)
        try:
            out = ask(inside, statement.rows, terms, drawn.theta, blocks, moved=moved)
        except TooManyNodes:  # of a draw: that of the fit has fewer
            inside = statement.inside
            out = ask(inside, statement.rows, terms, drawn.theta, blocks, moved=moved)
        yield Lot(some, out._replace(log_p=out.log_p + volume[some]))


def lots_given(found: IntegratedFit, drawn: Sample, seed: int = 0) -> Iterator[Lot]:
    """Single rows given one draw of their levels at each draw of θ."""
    statement, rng = found.statement, np.random.default_rng(seed)
    terms = [statement.terms[t] for t in statement.order]
    size = max(1, CELLS // len(drawn.theta))
    for start in range(0, found.design.n, size):
        some = np.arange(start, min(start + size, found.design.n))
        log_p = given_levels(statement.inside, statement.rows, terms, drawn.theta, some, rng)
        yield Lot(some, LeftOut(log_p + _volume(found)[some]))


def _volume(found: IntegratedFit) -> np.ndarray:
    """What rows' densities have beyond those of the response on the scale of its sums, (N,)."""
    design = found.design
    if not design.family.quadratic:
        return np.zeros(design.n)
    each = np.broadcast_to(design.family.constant(design.y), (design.n,))
    return each if design.weights is None else design.weights * each
