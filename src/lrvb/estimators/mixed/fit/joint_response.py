"""The response of β and the precisions together, and of the coefficients that were integrated out.

With the coefficients w collapsed, Σ̂_α is that of the precisions alone, and β joins them as
Cov(β, α) = RΣ̂_α and Cov(β) = Σ̂_β|α + RΣ̂_αRᵀ. See: eq:nuisance_lrvb_est
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ....collapsed.gaussian.block import BlockSum
from ....collapsed.gaussian.functionals import CoefficientResponse, Functionals
from ....engine.fitting import Fit
from ....engine.objective import Point
from ....engine.response import Response
from ....families import Location
from ....numerics.algebra import local_covariance
from ....statement.meanfield import MeanField
from ..design.standardised import Coordinates
from .averaged_covariance import averaged_conditional


class JointResponse(NamedTuple):
    """β and the precisions together; the precisions alone, and the coefficients w given them.

    `averaged` tells whether the covariance of w given the precisions is their average.
    """

    response: Response
    precisions: Response
    coefficients: CoefficientResponse
    averaged: bool


def join(
    block: BlockSum, precisions: Response, where: Coordinates, *, averaged: bool = False
) -> JointResponse:
    """The response of (β, precisions) on the user's scale.

    With `averaged` the covariance of w given the precisions is their average, not that at their
    means: see `averaged_covariance`.
    """
    fit, m = precisions.fit, precisions.fit.m
    coefficients = block.coefficients(m, fit.point.state)
    average = averaged_conditional(block, precisions, coefficients.Sigma) if averaged else None
    if average is not None:
        coefficients = coefficients.with_conditional(average)
    p = block.layout.p
    if p == 0:
        return JointResponse(precisions, precisions, coefficients, average is not None)
    T = where.T
    beta = coefficients.of(Functionals(None, fixed=True))
    own, cross = local_covariance(beta.Sigma[0], beta.R[0], precisions.Sigma)
    own, cross = T @ own @ T.T, T @ cross
    Sigma = np.block([[(own + own.T) / 2, cross], [cross.T, precisions.Sigma]])
    V = T @ beta.V[0] @ T.T
    family = Location((V + V.T) / 2)
    root = np.linalg.cholesky(family.cov)
    a = len(m)
    C = np.block([[root, np.zeros((p, a))], [np.zeros((a, p)), precisions.C]])
    mean = T @ beta.z[0] + where.t
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
        alpha=MeanField({"beta": family, **precisions.alpha.blocks}),
        curved=None,
        local_sum=None,
    )
    return JointResponse(Response(whole, C, Sigma), precisions, coefficients, average is not None)
