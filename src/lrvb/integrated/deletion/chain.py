"""Rows left out of factors nested in each other, however many: the touched sums again, from the rows out."""

from __future__ import annotations

import numpy as np

from ..chain import Chain
from ..regression import Regression
from .blocks import Blocks, cells_of
from .rows import log_rows


def without_chain(inside: Chain, rows: Regression, theta: np.ndarray, blocks: Blocks) -> np.ndarray:
    """log p(y_b | y_−b, θ) at n points, (n, blocks).

    A block changes L of the innermost levels that it touches, what they pass on changes by log F′ − log F,
    and so on out. Nodes reach as far as the priors do, and serve what is left of a level too.
    """
    k, p = inside.k, inside.p
    cells = cells_of(blocks, inside.terms[-1].codes, inside.terms[-1].levels)
    place = np.full(inside.terms[-1].levels, -1)
    place[inside.depths[-1].level] = np.arange(len(inside.depths[-1].level))
    # of every factor: the levels that blocks touch, whose each is, and its place among those further out
    touched, owner = [place[cells.level]], [cells.block]
    into: list[np.ndarray] = []
    for f in reversed(range(1, k)):
        size = np.int64(len(inside.depths[f - 1].level))
        pairs, back = np.unique(
            owner[0] * size + inside.parents[f][touched[0]], return_inverse=True
        )
        into.insert(0, back)
        owner.insert(0, pairs // size)
        touched.insert(0, pairs % size)
    constants = rows.likelihood.constants(rows.columns)
    X, value = rows.X[cells.rows], np.zeros((len(theta), blocks.n))
    for i, point in enumerate(theta):
        nodes, L, log_F = inside.logarithms(point)
        eta = (X @ point[:p])[:, None] + nodes[-1].t
        log_p = log_rows(rows, cells.rows, eta[None], point[None, p + k :])[0]
        log_p -= constants[cells.rows][:, None]
        change = -np.add.reduceat(log_p, cells.starts)
        for f in reversed(range(k)):
            left = L[f][touched[f]] + change
            peak = left.max(1, keepdims=True)
            F = np.maximum(np.exp(left - peak) @ nodes[f].K, np.finfo(float).tiny)
            passed = np.log(F) + peak - log_F[f][touched[f]]
            if f:
                change = np.zeros((len(touched[f - 1]), passed.shape[1]))
                np.add.at(change, into[f - 1], passed)
        np.add.at(value[i], owner[0], -passed[:, 0])
    own = np.zeros(blocks.n)
    np.add.at(own, blocks.of, constants[blocks.rows])
    return value + own
