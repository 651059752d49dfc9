r"""The linear predictor η = x'β + Σ_t r_t'z_t + offset of any rows: its mean and its variance.

With c the row of C that belongs to all coefficients w, η̄ = c'μ and Var η = c'Σ̂_w|α c + (c'R)Σ̂_α(c'R)ᵀ.
A level that the fit has not seen has z ~ N(0, Λ⁻¹), so that its mean is 0 and r'E[Λ⁻¹]r is added to
the variance. See: eq:nuisance_lrvb_est
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....collapsed.gaussian.functionals import Functionals
from ....collapsed.gaussian.incidence import Incidence, rest_entries
from ....collapsed.seam import LocalResponse
from ....errors import InvalidModel
from ....numerics.algebra import local_covariance
from ..design.design import Design, NewRows
from ..design.standardised import Coordinates
from ..fit.arrangement import Arrangement
from ..fit.joint_response import JointResponse
from ..fit.precision_model import block_name
from .levels import row_effects
from .standard_deviations import inverse_mean


class Predictor(NamedTuple):
    """η of some rows: mean and variance (n,), and the variance `own` of an unknown effect of the row.

    `own` is that of (1|obs) on new rows, which is noise rather than uncertainty; zero otherwise.
    """

    mean: np.ndarray
    variance: np.ndarray
    own: np.ndarray


def of_new_rows(
    design: Design,
    where: Coordinates,
    arrangement: Arrangement,
    joint: JointResponse,
    new: NewRows,
) -> Predictor:
    """η of other rows."""
    rows = _touched(design, where, arrangement, new)
    mean, variance = _moments(joint.coefficients.of(Functionals(rows)), joint)
    mean = mean + where.shift
    if new.offset is not None:
        mean = mean + new.offset
    own = np.zeros(len(mean))
    for t, (term, place) in enumerate(zip(design.terms, arrangement.places, strict=True)):
        unseen = new.codes[term.factor] < 0
        if place.factor < 0:
            own += _prior_variance(design, joint, t, new.R[t])
        elif unseen.any():
            variance[unseen] += _prior_variance(design, joint, t, new.R[t][unseen])
    return Predictor(mean, variance, own)


def of_fitted_rows(
    design: Design, where: Coordinates, arrangement: Arrangement, joint: JointResponse
) -> Predictor:
    """η of the rows of the fit, in their own order, with each row's own effect where there is one."""
    block = arrangement.block
    zeta = joint.coefficients.of(Functionals(block.layout.incidence))
    if any(place.factor < 0 for place in arrangement.places):
        assert block.precisions.scale is not None
        zeta = row_effects(arrangement, joint).predictor(zeta, block.precisions.scale)
    mean, variance = _moments(zeta, joint)
    back = np.empty(len(mean), dtype=int)
    back[arrangement.order] = np.arange(len(mean))
    mean, variance = mean[back] + where.shift, variance[back]
    mean = mean if design.offset is None else mean + design.offset
    return Predictor(mean, variance, np.zeros(len(mean)))


def _moments(rows: LocalResponse, joint: JointResponse) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of every row."""
    cov, _ = local_covariance(rows.Sigma, rows.R, joint.precisions.Sigma)
    return rows.z[:, 0], cov[:, 0, 0]


def _touched(
    design: Design, where: Coordinates, arrangement: Arrangement, new: NewRows
) -> Incidence:
    """Where new rows touch the coefficients; levels that are not among them touch nothing."""
    layout, n = arrangement.block.layout, len(new.X)
    levels, columns = [], []
    for f, factor in enumerate(arrangement.factors):
        known = new.codes[factor] >= 0
        parts = [new.R[t] for t, place in enumerate(arrangement.places) if place.factor == f]
        levels.append(np.where(known, new.codes[factor], 0).astype(np.int64))
        columns.append(np.hstack(parts) * known[:, None])
    if not arrangement.factors:
        levels, columns = [np.zeros(n, dtype=np.int64)], [np.zeros((n, 0))]
    places, values = rest_entries(layout.offsets, levels[1:], columns[1:], n)
    return Incidence(where.inward(new.X), levels[0], columns[0], places, values)


def _prior_variance(design: Design, joint: JointResponse, t: int, R: np.ndarray) -> np.ndarray:
    """r'E[Λ⁻¹]r of every row, with the expectation under q."""
    term = design.terms[t]
    S = inverse_mean(joint.precisions, block_name(term.name, len(term.coefficients)))
    if not np.isfinite(S).all():
        raise InvalidModel(
            f"The variance of a new level of '{term.group}' has no finite expectation: the posterior "
            f"of the precision of '{term.name}' has too few levels behind it. Give it a prior with a "
            "larger shape or dof, or predict for known levels only.",
            term=term.name,
        )
    return np.einsum("ni,ij,nj->n", R, S, R)
