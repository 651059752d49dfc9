"""The estimate of β and the precisions together, and the response of the coefficients integrated out.

With the coefficients w collapsed, Σ̂_α is that of the precisions alone, and β joins them as
Cov(β, α) = RΣ̂_α and Cov(β) = Σ̂_β|α + RΣ̂_αRᵀ. See: eq:nuisance_lrvb_est
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ....collapsed.gaussian.block import BlockSum
from ....collapsed.gaussian.functionals import CoefficientResponse, Functionals
from ....collapsed.seam import LocalResponse
from ....engine.response import Response
from ....engine.second_order import Refined, refine
from ....errors import InvalidModel
from ....numerics.algebra import local_covariance
from ....posterior.blocks import RealBlock
from ....posterior.estimate import Estimate, estimate_of
from ....posterior.units import Units, in_units
from ..design.standardised import Standardisation
from .averaged_covariance import averaged_conditional


class JointResponse(NamedTuple):
    """β and the precisions together on the user's scale; the precisions alone; w given them.

    `averaged` tells whether the covariance of w given the precisions is their average.
    """

    estimate: Estimate
    precisions: Response
    coefficients: CoefficientResponse
    averaged: bool


def join(
    block: BlockSum, precisions: Response, standard: Standardisation, *, averaged: bool = False
) -> JointResponse:
    """The estimate of (β, precisions) on the user's scale, β = Tb + t.

    With `averaged` the covariance of w given the precisions is their average, not that at their
    means: see `averaged_covariance`.
    """
    fit = precisions.fit
    coefficients = block.coefficients(fit.m, fit.point.state)
    average = averaged_conditional(block, precisions, coefficients.Sigma) if averaged else None
    if average is not None:
        coefficients = coefficients.with_conditional(average)
    estimate = estimate_of(precisions)
    if block.layout.p:
        a = len(fit.m)
        estimate = in_units(
            _beside(estimate, coefficients.of(Functionals(None, fixed=True))),
            Units(
                scipy.linalg.block_diag(standard.T, np.eye(a)),
                np.concatenate([standard.t, np.zeros(a)]),
            ),
        )
    return JointResponse(estimate, precisions, coefficients, average is not None)


def refine_precisions(joint: JointResponse, asked: Any) -> Refined:
    """Second-order means and variances of the precisions' statistics, dᵀ(β, precisions, derived)."""
    if callable(asked):
        raise InvalidModel(
            "The second order of a mixed model is known of its precisions by name, not of functions."
        )
    size = len(joint.precisions.m)
    start = len(joint.estimate.m) - size
    own = asked[:, start : start + size]
    if np.count_nonzero(asked) != np.count_nonzero(own):
        labels = [name for name in joint.precisions.alpha.names() if name is not None]
        raise InvalidModel(
            "The second order of a mixed model is known of its precisions alone: ask for their names, "
            f'such as {labels[:2]}; factorization="blocked" has everything exactly.'
        )
    return refine(joint.precisions, own)


def _beside(precisions: Estimate, beta: LocalResponse) -> Estimate:
    """β, one vector that was integrated out, beside the precisions."""
    own, cross = local_covariance(beta.Sigma[0], beta.R[0], precisions.Sigma)
    mean = beta.z[0]
    return Estimate.of_blocks(
        {"beta": RealBlock(mean.shape), **precisions.blocks},
        np.concatenate([mean, precisions.m]),
        scipy.linalg.block_diag(beta.V[0], precisions.V),
        np.block([[own, cross], [cross.T, precisions.Sigma]]),
    )
