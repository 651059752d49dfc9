"""Rows or levels left out of a fit, beyond the first order: a Newton step of each, or a fit without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..engine.response import Response
from ..engine.sensitivity import gathered, means_at, row_curvature, row_scores, without
from .answering import REFITTED

MOST = 1000  # rows or levels, the largest of those that matter, that get the Newton step
MANY = 100_000  # rows beyond which no fit without some is made; no more are fetched from elsewhere
WORTH = 100_000  # rows times fits: up to so many, about a second, all that matter are fitted


def refits_worth(n: int) -> int:
    """How many fits to all but a few of n rows are made, from each of which one row or level is left out."""
    return 0 if n > MANY else max(REFITTED, WORTH // max(n, 1))


def rows_of(which: Iterable[int], codes: np.ndarray | None) -> list[np.ndarray]:
    """The rows of each of some levels, or the rows themselves."""
    if codes is None:
        return [np.array([k]) for k in which]
    order = np.argsort(codes, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    return [order[ends[k] : ends[k + 1]] for k in which]


def affordable(blocks: Sequence[np.ndarray]) -> int:
    """How many of the first blocks have no more rows together than are fetched from elsewhere."""
    sizes = np.cumsum([len(rows) for rows in blocks])
    return int(np.searchsorted(sizes, MANY, side="right"))


def stepped(response: Response, blocks: Sequence[np.ndarray]) -> np.ndarray:
    """m (B, a) without each block of rows, by one Newton step; NaN where that leaves the domain.

    Only the blocks' own rows are visited.
    """
    if not blocks:
        return np.zeros((0, len(response.m)))
    near = gathered(response.fit, np.concatenate(blocks))
    assert near.problem.rows is not None
    weights = np.asarray(near.problem.rows.weights)
    etas, start = [], 0
    for rows in blocks:
        own = np.arange(start, start + len(rows))
        score = weights[own] @ np.concatenate(list(row_scores(near, own)))
        etas.append(without(response, score, row_curvature(near, own)))
        start += len(rows)
    return means_at(response.fit, np.array(etas))
