"""The posterior of a mixed model: linear response of the precisions, of β, and of every level's z.

With the coefficients w integrated out, Σ̂_α is that of the precisions alone; then Cov(w, α) = RΣ̂_α and
Cov(w) = Σ̂_w|α + RΣ̂_αRᵀ with R = ∂μ/∂m. See: eq:nuisance_lrvb_est
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from ....collapsed.gaussian.arrow import Blocks
from ....collapsed.gaussian.block import BlockSum
from ....collapsed.gaussian.conditional import conditional_blocks
from ....collapsed.gaussian.incidence import Vector
from ....engine.response import Response
from ....posterior.blocks import RealBlock
from ....posterior.estimate import Estimate, estimate_of
from ....posterior.units import Units, in_units
from ..design.standardised import Coordinates
from .averaging import averaged_blocks


class Joined(NamedTuple):
    """β and the precisions together on the user's scale, and what the rest of w needs.

    `R` (a,) are ∂μ/∂m by flat coordinate of the precisions, `tilts` (p,) Cov(w, b_j | α), `given`
    the blocks of Σ̂_w|α, `inner` the response of the precisions alone.
    """

    estimate: Estimate
    inner: Response
    R: list[Vector]
    tilts: list[Vector]
    given: Blocks


def join(block: BlockSum, inner: Response, where: Coordinates, *, averaged: bool = False) -> Joined:
    """The estimate of (β, precisions) on the user's scale, β = Tb + t.

    With `averaged` the covariance of w given the precisions is their average, not that at their
    means: see `averaging`.
    """
    m = inner.fit.m
    found, p = block.collapse(m), block.layout.p
    moves = block.responses(m)
    R = [moves.get(i, block.layout.zeros()) for i in range(len(m))]
    tilts = block.tilts(m, np.arange(p))
    given = conditional_blocks(block, found)
    if averaged:
        average = averaged_blocks(block, inner, given)
        tilts = [tilt + _column(average, given, j) for j, tilt in enumerate(tilts)]
        given = average
    estimate = estimate_of(inner)
    if p:
        R_b = np.stack([r.rest[:p] for r in R], axis=1)
        alone = np.stack([tilt.rest[:p] for tilt in tilts], axis=1)
        estimate = in_units(
            _beside(estimate, found.mu.rest[:p], found.blocks.Zrr[:p, :p], alone, R_b),
            Units(
                scipy.linalg.block_diag(where.T, np.eye(len(m))),
                np.concatenate([where.t, np.zeros(len(m))]),
            ),
        )
    return Joined(estimate, inner, R, tilts, given)


def _beside(
    precisions: Estimate, mean: np.ndarray, V: np.ndarray, given: np.ndarray, R: np.ndarray
) -> Estimate:
    """b, a vector with its mean, mean-field covariance and Cov(b | α), beside α, which moves it by R."""
    cross = R @ precisions.Sigma
    return Estimate.of_blocks(
        {"beta": RealBlock(mean.shape), **precisions.blocks},
        np.concatenate([mean, precisions.m]),
        scipy.linalg.block_diag(V, precisions.V),
        np.block([[given + cross @ R.T, cross], [cross.T, precisions.Sigma]]),
    )


def _column(after: Blocks, before: Blocks, j: int) -> Vector:
    """The change of Cov(w, b_j)."""
    z = (after.Z1r - before.Z1r)[:, j].reshape(after.Z11.shape[:2])
    return Vector(z, (after.Zrr - before.Zrr)[:, j])
