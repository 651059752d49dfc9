"""The estimate of β and the precisions together, and the response of the coefficients integrated out.

With the coefficients w collapsed, Σ̂_α is that of the precisions alone, and β joins them as
Cov(β, α) = RΣ̂_α and Cov(β) = Σ̂_β|α + RΣ̂_αRᵀ. See: eq:nuisance_lrvb_est
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg

from ....collapsed.gaussian.block import BlockState, BlockSum
from ....collapsed.gaussian.functionals import CoefficientResponse, Functionals
from ....collapsed.seam import LocalResponse
from ....engine.response import Response
from ....engine.second_order import Refined
from ....errors import InvalidModel
from ....numerics.algebra import local_covariance
from ....posterior.blocks import RealBlock
from ....posterior.correction import warn_large_elsewhere
from ....posterior.estimate import Estimate, estimate_of
from ....posterior.units import Units, in_units
from ..design.design import Design
from ..design.standardised import Standardisation
from .along_lines import AlongLines, Integrated, Moments
from .averaged_covariance import averaged_conditional
from .precision_model import block_name
from .tilted_block import Asked, TiltedBlock

CLOSE = 1e-7  # of a best Gaussian where differences of a fiftieth of an sd are taken


class Gap(Protocol):
    """What the best Gaussian of rows that are not gaussian leaves out."""

    def __call__(self, block: BlockSum, state: BlockState) -> float:
        """At a state of the block."""

    def evidence(self, moments: Moments) -> Callable[[np.ndarray], Integrated]:
        """log ∫ of the coefficients, of any rows, at points of a line of moments of the precisions."""


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


def refine_joint(
    joint: JointResponse,
    standard: Standardisation,
    gap: Gap,
    asked: Any,
) -> Refined:
    """Second-order means and variances of fixed effects and of the precisions' statistics.

    `asked` are rows d of dᵀ(β, precisions, derived), each of one of the first two. Precisions that are
    not well known are answered by their density, which says whether the correction can be believed.
    """
    if callable(asked):
        raise InvalidModel(
            "The second order of a mixed model is known of its coefficients and precisions by name, not "
            "of functions."
        )
    response, size = joint.precisions, len(joint.precisions.m)
    start = len(joint.estimate.m) - size
    beta, own = asked[:, :start], asked[:, start : start + size]
    if np.count_nonzero(asked) != np.count_nonzero(beta) + np.count_nonzero(own):
        known = [name for name in response.alpha.names() if name is not None]
        raise InvalidModel(
            "The second order of a mixed model is known of its fixed effects and precisions: ask for "
            f'their names, such as {known[:2]}; factorization="blocked" has sds exactly.'
        )
    second = tilted(joint, gap)
    logs = [at for at, _ in second.block.precisions.logdets if not own[:, at].any()]
    labels = response.alpha.names()
    sd = np.sqrt(np.diag(response.Sigma))
    warn_large_elsewhere([labels[at] for at in logs], second.shift[logs], sd[logs])
    inward = beta @ standard.T if beta.size else beta
    each = [Asked(second, c, d) for c, d in zip(inward, own, strict=True)]
    lines = AlongLines(response, gap.evidence, second.shift)
    judged = [lines.judged(d, one) for d, one in zip(own, each, strict=True)]
    shift, variance, off = (np.array(part) for part in zip(*judged, strict=True))
    for at in np.flatnonzero(beta.any(1)):
        off[at] = lines.wider(inward[at], each[at])
    if not (variance > 0).all():
        raise InvalidModel(
            "The second-order variance of a quantity is not positive: the posterior is too far from "
            'the variational one for a correction. Use factorization="blocked".'
        )
    first = np.array([one.first for one in each])
    return Refined(shift, first, variance, response.fit.elbo + second.g, off)


def tilted(joint: JointResponse, gap: Gap) -> TiltedBlock:
    """The second order at the optimum; the means of the precisions' statistics are known with it."""
    fit = joint.precisions.fit
    assert isinstance(fit.local_sum, BlockSum)
    block = fit.local_sum.with_gap(gap).within(CLOSE)
    given = joint.coefficients.with_conditional(block.conditional(fit.point.state))
    response = replace(joint.precisions, fit=replace(fit, local_sum=block))
    return TiltedBlock(response, block, given)


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


def coordinate_names(design: Design, joint: JointResponse) -> list[str | None]:
    """Names of all flat coordinates: fixed effects, then precisions with their coefficients' names."""
    labels: list[str | None] = list(design.names)
    matrices = {
        block_name(term.name, len(term.coefficients)): term.coefficients
        for term in design.terms
        if len(term.coefficients) > 1
    }
    for block, family in joint.precisions.alpha.blocks.items():
        coefficients = matrices.get(block)
        if coefficients is None:
            labels += family.names(block)
            continue
        for i, j in family.slots[0].indices():
            labels.append(f"{block}[{coefficients[i]},{coefficients[j]}]")
        labels.append(f"logdet({block})")
    return labels
