"""Rows left out of nested factors: both sums again, with what is left of the touched inner levels."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from ..nested import Nested
from ..regression import Regression
from .blocks import Blocks, cells_of
from .rows import log_rows


def without_nested(
    inside: Nested, rows: Regression, theta: np.ndarray, blocks: Blocks
) -> np.ndarray:
    """log p(y_b | y_−b, θ) at n points, (n, blocks).

    Given the outer effect o the inner levels are independent: those of a block change the log integrand
    over o by log F′ − log F, with F′ the sum over an inner level's rows that are left.
    """
    cells = cells_of(blocks, inside.inner.codes, inside.inner.levels)
    place = np.full(inside.inner.levels, -1)
    place[inside.inner_level] = np.arange(len(inside.inner_level))
    inner = place[cells.level]
    outer = inside.above.of[inner]
    pairs, pair = np.unique(
        cells.block * np.int64(len(inside.above.starts)) + outer, return_inverse=True
    )
    owner, group = np.divmod(pairs, len(inside.above.starts))
    value = np.zeros((len(theta), blocks.n))
    constants = rows.likelihood.constants(rows.columns)
    own = np.zeros(blocks.n)
    np.add.at(own, blocks.of, constants[blocks.rows])
    X = rows.X[cells.rows]
    for i, point in enumerate(theta):
        grid, L, log_F, J = inside.logarithms(point)
        eta = (X @ point[: inside.p])[:, None] + grid.t
        log_p = log_rows(rows, cells.rows, eta[None], point[None, inside.p + 2 :])[0]
        log_p -= constants[cells.rows][:, None]
        left = L[inner] - np.add.reduceat(log_p, cells.starts)
        peak = left.max(1, keepdims=True)
        tiny = np.finfo(float).tiny
        log_left = np.log(np.maximum(np.exp(left - peak) @ grid.K, tiny)) + peak
        moved = np.zeros((len(pairs), J.shape[1]))
        np.add.at(moved, pair, log_left - log_F[inner])
        found = logsumexp(J[group], axis=1) - logsumexp(J[group] + moved, axis=1)
        np.add.at(value[i], owner, found)
    return value + own
