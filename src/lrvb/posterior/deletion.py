"""Rows or levels left out of a fit, beyond the first order: a step of the second order, or a fit without."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..engine.fitting import Fit
from ..engine.numbers import third_order
from ..engine.response import Response
from ..engine.sensitivity import (
    gathered,
    means_at,
    newton_change,
    row_curvature,
    row_scores,
    without,
)
from .answering import REFITTED

MOST = 1000  # rows or levels, the largest of those that matter, that get a step
TURNED = 10_000_000  # rows times steps up to which those are of the second order: about a second
UNSURE = 0.05  # of a change, which the second order may alter before a fit is made
MANY = 100_000  # rows beyond which no fit without some is made; no more are fetched from elsewhere
WORTH = 500_000  # rows times fits: up to so many, about a second, all that matter are fitted


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


class Steps(NamedTuple):
    """m (B, a) without each block of rows: by a Newton step, and by one of the second order after it.

    etas (B, a) are where the further of the two has led to.
    """

    newton: np.ndarray
    second: np.ndarray
    etas: np.ndarray


def stepped(response: Response, blocks: Sequence[np.ndarray], second: bool = True) -> Steps:
    r"""m without each block of rows; NaN where a step leaves the domain, or has not been made.

    After the Newton step to m* + δ the fixed point η = ∂L̄₋/∂m of the rows that are left is off by
    −g(m* + δ) + H̃δ + ½D³L̄[δ, δ, ·] − δη, with g the block's own score there and the others' gradient to the
    second order: one more pass over all rows, for all blocks together, as long as that is cheap.
    """
    fit = response.fit
    if not blocks:
        return Steps(*np.zeros((3, 0, len(fit.m))))
    near, owns = _gathered(fit, blocks)
    assert near.problem.rows is not None
    assert fit.curved is not None
    weights = np.asarray(near.problem.rows.weights)

    def score(own: np.ndarray, m: np.ndarray) -> np.ndarray:
        return np.asarray(weights[own] @ np.concatenate(list(row_scores(near, own, m))))

    curvatures = [row_curvature(near, own) for own in owns]
    etas = np.array(
        [without(response, score(own, fit.m), H) for own, H in zip(owns, curvatures, strict=True)]
    )
    newton = means_at(fit, etas)
    further = np.full(newton.shape, np.nan)
    if not second:
        return Steps(newton, further, etas)
    cheap = np.flatnonzero(np.isfinite(newton).all(1))[: max(1, TURNED // max(fit.problem.n, 1))]
    dm = newton[cheap] - fit.m
    bent = dm @ fit.curved.H + third_order(response, dm) / 2
    for b, gradient in zip(cheap, bent, strict=True):
        residual = response.eta + gradient - score(owns[b], newton[b]) - etas[b]
        eta = etas[b] + newton_change(response, residual, curvatures[b])
        further[b] = means_at(fit, eta[None])[0]
        if np.isfinite(further[b]).all():
            etas[b] = eta
    return Steps(newton, further, etas)


def _gathered(fit: Fit, blocks: Sequence[np.ndarray]) -> tuple[Fit, list[np.ndarray]]:
    """The fit with the blocks' rows alone, and where each block's are.

    Blocks are filled up with rows that do not count: of a few lengths each has its program.
    """
    lengths = [1 << (len(rows) - 1).bit_length() for rows in blocks]
    filled = [np.resize(rows, length) for rows, length in zip(blocks, lengths, strict=True)]
    counted = [np.arange(n) < len(rows) for n, rows in zip(lengths, blocks, strict=True)]
    near = gathered(fit, np.concatenate(filled))
    rows = near.problem.rows
    assert rows is not None
    rows = replace(rows, weights=np.asarray(rows.weights) * np.concatenate(counted))
    ends = np.cumsum([0, *lengths])
    owns = [np.arange(i, j) for i, j in itertools.pairwise(ends)]
    return replace(near, problem=replace(near.problem, rows=rows)), owns


def doubted(newton: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Which changes (B, k), in sds, the second order alters by more than a twentieth: they may be 5 % off."""
    with np.errstate(invalid="ignore"):
        turn = np.abs(second - newton).max(1, initial=0.0)
        return np.asarray(~(turn <= UNSURE * np.abs(second).max(1, initial=0.0)))
