"""Rows left out of levels that are summed over nodes: averages of 1/p over the nodes.

Levels are independent given θ, so that a block's log p(y_b | y_−b, θ) is a sum over the levels that it
touches of −log E[1 / p(y_c | z)] over z given y and θ, with y_c its rows there. Where the nodes of z given
all rows do not reach far enough for z given the rest, their ends are moved out; where that is not enough
either, the rest is summed over nodes of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from ..crossed import Crossed
from ..factor import Factor
from ..regression import Regression
from ..terms import Term
from .blocks import EDGE, ROWS, Blocks, Cells, cells_of
from .rows import log_rows, tail_of

_WIDER = 1.7  # of ends, before a level's rest is summed over nodes of its own


def without_levels(
    inside: Factor | Crossed,
    rows: Regression,
    terms: Sequence[Term],
    theta: np.ndarray,
    blocks: Blocks,
) -> np.ndarray:
    """log p(y_b | y_−b, θ) at n points θ, (n, blocks). terms are in θ's order."""
    term = terms[-1]
    cells = cells_of(blocks, term.codes, term.levels)
    result = np.empty((len(theta), len(cells.block)))
    whole = np.flatnonzero(cells.whole)
    if len(whole):
        result[:, whole] = _level_sums(inside, rows, term, theta, cells.level[whole])
    cut = np.flatnonzero(~cells.whole)
    short = np.zeros(result.shape, dtype=bool)
    for some in _runs(cells.take(cut)):
        part = cells.take(cut[some])
        result[:, cut[some]], edge = _at_nodes(inside, rows, terms, theta, part)
        short[:, cut[some]] = edge > EDGE
    wider = _widened(inside)
    if wider is not None and short.any():
        left = np.flatnonzero(short.any(0))
        for some in _runs(cells.take(left)):
            which = left[some]
            points = np.flatnonzero(short[:, which].any(1))
            again, edge = _at_nodes(wider, rows, terms, theta[points], cells.take(which))
            place = np.ix_(points, which)
            result[place] = np.where(short[place], again, result[place])
            short[place] &= edge > EDGE
    if short.any():  # at few points, as a rule, and those far out
        points, which = np.flatnonzero(short.any(1)), np.flatnonzero(short.any(0))
        part, at = cells.take(which), theta[points]
        again = _level_sums(inside, rows, term, at, part.level)
        again -= _rest_sums(inside, rows, terms, at, part)
        place = np.ix_(points, which)
        result[place] = np.where(short[place], again, result[place])
    return cells.added(result, blocks.n)


def _widened(inside: Factor | Crossed) -> Factor | Crossed | None:
    """The same sums with ends further out, where ends are known, and nodes as near to each other."""
    if isinstance(inside, Factor):
        return inside.widened(_WIDER)
    levels = inside.levels.widened(_WIDER)
    if levels is None:
        return None
    crossed = copy(inside)
    crossed.levels = levels
    return crossed


def _runs(cells: Cells) -> Iterator[np.ndarray]:
    """Cells in runs of about so many rows."""
    if not len(cells.block):
        return
    run = cells.starts // ROWS
    for value in np.unique(run):
        yield np.flatnonzero(run == value)


def _at_nodes(
    inside: Factor | Crossed,
    rows: Regression,
    terms: Sequence[Term],
    theta: np.ndarray,
    cells: Cells,
) -> tuple[np.ndarray, np.ndarray]:
    """−log E[1/p] of the cells (n, C), and what share of that mean lies at the nodes' ends (n, C)."""
    at = cells.rows
    codes = [term.codes[at] for term in terms]
    R = [term.R[at] for term in terms]
    value, edge = np.empty((2, len(theta), len(cells.block)))
    factor = inside.levels if isinstance(inside, Crossed) else inside
    inner = np.zeros((factor.nodes,) * factor.q, dtype=bool)
    inner[(slice(1, -1),) * factor.q] = True
    for found in inside.lines(theta, rows.X[at], codes, R):
        log_p = log_rows(rows, at, found.eta, tail_of(inside, terms, theta[found.at]))
        a = -np.add.reduceat(log_p, cells.starts, axis=1)
        P = found.P[:, cells.starts]
        top = np.where(P > 0, a, -np.inf).max(2, keepdims=True)
        weight = P * np.exp(np.minimum(a - top, 0.0))
        total = weight.sum(2)
        value[found.at] = -(top[..., 0] + np.log(total))
        edge[found.at] = 1 - weight[..., inner.ravel()].sum(2) / total
    return value, edge


def _level_sums(
    inside: Factor | Crossed, rows: Regression, term: Term, theta: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """log ∫ Π p(y_n | z) p(z) dz of some levels at n points, (n, levels)."""
    constants = rows.likelihood.constants(rows.columns)
    own = np.bincount(term.codes, constants, minlength=term.levels)
    return inside.level_sums(theta, levels) + own[levels]


def _rest_sums(
    inside: Factor | Crossed,
    rows: Regression,
    terms: Sequence[Term],
    theta: np.ndarray,
    cells: Cells,
) -> np.ndarray:
    """The same of the levels of cells without the cells' rows, (n, C), by nodes of their own."""
    *others, term = terms
    by_level = np.argsort(term.codes, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(term.codes, minlength=term.levels))])
    kept, codes = [], []
    for c, (start, size, level) in enumerate(
        zip(cells.starts, cells.sizes, cells.level, strict=True)
    ):
        every = by_level[ends[level] : ends[level + 1]]
        rest = np.setdiff1d(every, cells.rows[start : start + size], assume_unique=True)
        kept.append(rest)
        codes.append(np.full(len(rest), c))
    at, code = np.concatenate(kept), np.concatenate(codes)
    count = len(cells.block)
    if isinstance(inside, Crossed):
        own = [*(t.on(at) for t in others), term.on(at, code, count)]
    else:
        own = [t.on(at, code, count) for t in terms]
    made = inside.on(rows.take(at), own)
    constants = rows.likelihood.constants(rows.columns)[at]
    return made.level_sums(theta, np.arange(count)) + np.bincount(code, constants, count)
