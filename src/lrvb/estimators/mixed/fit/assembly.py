"""The posterior of a mixed model: linear response of the precisions, of β, and of every level's z.

With the coefficients w integrated out, Σ̂_α is that of the precisions alone; then Cov(w, α) = RΣ̂_α and
Cov(w) = Σ̂_w|α + RΣ̂_αRᵀ with R = ∂μ/∂m. See: eq:nuisance_lrvb_est
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ....collapsed.gaussian.arrow import Blocks
from ....collapsed.gaussian.block import BlockSum
from ....collapsed.gaussian.conditional import conditional_blocks
from ....collapsed.gaussian.incidence import Vector
from ....engine.fitting import Fit
from ....engine.objective import Point
from ....engine.response import Response
from ....families import Location
from ....statement.meanfield import MeanField
from ..design.standardised import Coordinates
from .averaging import averaged_blocks


class Joined(NamedTuple):
    """β and the precisions together, and what the rest of w needs.

    `R` (a,) are ∂μ/∂m by flat coordinate of the precisions, `tilts` (p,) Cov(w, b_j | α), `given`
    the blocks of Σ̂_w|α, `inner` the response of the precisions alone.
    """

    response: Response
    inner: Response
    R: list[Vector]
    tilts: list[Vector]
    given: Blocks


def join(block: BlockSum, inner: Response, where: Coordinates, *, averaged: bool = False) -> Joined:
    """The response of (β, precisions) on the user's scale.

    With `averaged` the covariance of w given the precisions is their average, not that at their
    means: see `averaging`.
    """
    fit, m = inner.fit, inner.fit.m
    found, p = block.collapse(m), block.layout.p
    moves = block.responses(m)
    R = [moves.get(i, block.layout.zeros()) for i in range(len(m))]
    tilts = block.tilts(m, np.arange(p))
    given = conditional_blocks(block, found)
    if averaged:
        average = averaged_blocks(block, inner, given)
        tilts = [tilt + _column(average, given, j) for j, tilt in enumerate(tilts)]
        given = average
    if p == 0:
        return Joined(inner, inner, R, tilts, given)
    T = where.T
    R_b = np.stack([r.rest[:p] for r in R], axis=1)
    cross = T @ R_b @ inner.Sigma
    alone = np.stack([tilt.rest[:p] for tilt in tilts], axis=1)
    beta = T @ (alone + R_b @ inner.Sigma @ R_b.T) @ T.T
    Sigma = np.block([[(beta + beta.T) / 2, cross], [cross.T, inner.Sigma]])
    V = T @ found.blocks.Zrr[:p, :p] @ T.T
    family = Location((V + V.T) / 2)
    root = np.linalg.cholesky(family.cov)
    a = len(m)
    C = np.block([[root, np.zeros((p, a))], [np.zeros((a, p)), inner.C]])
    mean = T @ found.mu.rest[:p] + where.t
    point = Point(
        eta=np.concatenate([np.linalg.solve(family.cov, mean), fit.eta]),
        m=np.concatenate([mean, m]),
        C=C,
        elbo=fit.elbo,
        gradient=np.concatenate([np.linalg.solve(family.cov, mean), fit.eta]),
        H=None,
    )
    whole: Fit = replace(
        fit,
        problem=None,
        point=point,
        alpha=MeanField({"beta": family, **inner.alpha.blocks}),
        curved=None,
        local_sum=None,
    )
    return Joined(Response(whole, C, Sigma), inner, R, tilts, given)


def _column(after: Blocks, before: Blocks, j: int) -> Vector:
    """The change of Cov(w, b_j)."""
    z = (after.Z1r - before.Z1r)[:, j].reshape(after.Z11.shape[:2])
    return Vector(z, (after.Zrr - before.Zrr)[:, j])
