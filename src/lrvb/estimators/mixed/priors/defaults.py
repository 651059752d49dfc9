"""Default priors: weakly informative and scaled to the data, so that a change of units changes nothing.

Everything is said about standardised columns and, where η has the response's units, in its standard
deviations; otherwise the link (log, logit) sets the scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....likelihoods import Dispersion
from ....prior import LKJ, Gamma, HalfStudentT, Wishart
from ..design.design import Design
from ..design.rank import CONSTANT
from ..design.terms import Term

# One sd of a column may move the response by WIDTH of its sds (of the link's units): far more than
# data show, near enough to keep separated or empty categories finite.
WIDTH = 10.0

# λ ~ Gamma(1, (0.2·s)²) with s the response's scale: the sd λ^-½ of a random effect has median 0.24 s, and
# 0.10 s to 1.26 s hold 95 %; P(sd > 3 s) = 0.4 % with a tail ∝ sd⁻², which data overrule at once.
# It weighs as much as two levels with effects ±0.2 s. Near zero the density vanishes, so that neither
# a mode nor a variational fit ends at sd = 0. (A Gamma(1, ε) with tiny ε is no vaguer: it puts nearly all
# of its mass on sds near √ε and pulls small groupings there. A larger shape is narrower: no Gamma
# with shape 2 reaches from 0.1 s to 1 s.)
EFFECT_SHAPE = 1.0
EFFECT_SIZE = 0.2


def default_fixed(design: Design) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds of the fixed effects.

    A slope is N(0, (10 s/sd(x))²) with s = sd(y) where η has y's units and 1 otherwise. The intercept's
    mean is the link of the mean response, and its sd, 10 s √(1 + Σ(x̄/sd(x))²), is what the slopes' priors
    make of an intercept at the centre of the data. Without an intercept the columns together
    carry the level of the response, so s is its size around zero.
    """
    level = design.level
    columns = design.measures
    center, spread = columns.center, columns.unit(CONSTANT)
    mean = np.zeros(len(design.names))
    if "Intercept" not in design.names:
        scale = _response_size(design, level)
        return mean, WIDTH * scale / spread
    scale = _response_sd(design) if design.family.link.has_units else 1.0
    sd = WIDTH * scale / spread
    j = design.names.index("Intercept")
    varying = (np.arange(len(mean)) != j) & ~design.bent
    mean[j] = level
    sd[j] = WIDTH * scale * np.sqrt(1 + np.sum((center[varying] / spread[varying]) ** 2))
    return mean, sd


# sd ~ half-t(3, 2.5 s): finite at zero, so that small sds are not forbidden, with its median at 1.9 s and 5 %
# beyond 8 s.
SD_DF = 3.0
SD_WIDTH = 2.5


def default_sds(design: Design, term: Term, centred: bool = False) -> tuple[HalfStudentT, ...]:
    """HalfStudentT(3, 2.5 s/size) of each coefficient's sd, size the typical size of its column.

    Of an intercept beside correlated slopes it is √(1 + Σ(x̄/sd(x))²) times as wide, unless it is that at the
    centre of the data: what those priors make of it.
    """
    scale, size = _term_scale(design, term)
    width = SD_WIDTH * scale / size
    if "1" in term.coefficients and len(size) > 1 and not centred:
        j, columns = term.coefficients.index("1"), design.columns(term)
        others = np.arange(len(size)) != j
        width[j] *= np.sqrt(1 + np.sum((columns.center[others] / size[others]) ** 2))
    return tuple(HalfStudentT(SD_DF, float(w)) for w in width)


def default_smooth(design: Design, size: float) -> HalfStudentT:
    """HalfStudentT(3, 2.5 s/size), size what an sd of 1 makes of a curve, √mean f², or of a level."""
    scale = residual_scale(design) if design.family.link.has_units else 1.0
    return HalfStudentT(SD_DF, SD_WIDTH * scale / size)


def default_correlations() -> LKJ:
    """Uniform."""
    return LKJ(1.0)


def default_residual(design: Design) -> HalfStudentT:
    """HalfStudentT(3, 2.5 s) of the residual's sd."""
    scale = residual_scale(design) if design.family.link.has_units else 1.0
    return HalfStudentT(SD_DF, SD_WIDTH * scale)


def default_term(design: Design, term: Term) -> Gamma | Wishart:
    """Gamma(1, (0.2 s/size)²) of one coefficient's precision, size the typical size of its column.

    For q correlated coefficients Wishart(q + 1, W₀): uniform correlations, and each coefficient's variance
    distributed as above at the centre of the columns, W₀⁻¹ = 2 A D Aᵀ with D those rates and A the shift
    from the centre to zero.
    """
    scale, size = _term_scale(design, term)
    rate = (EFFECT_SIZE * scale / size) ** 2
    q = len(term.coefficients)
    if q == 1:
        return Gamma(EFFECT_SHAPE, float(rate[0]))
    shift, columns = np.eye(q), design.columns(term)
    if "1" in term.coefficients:
        j = term.coefficients.index("1")
        shift[j] = np.where(np.arange(q) == j, 1.0, -columns.center)
    inverse = np.linalg.inv(shift)
    W = inverse.T @ np.diag(1 / (2 * rate)) @ inverse
    return Wishart(q + 2 * EFFECT_SHAPE - 1, (W + W.T) / 2)


def _term_scale(design: Design, term: Term) -> tuple[float, np.ndarray]:
    """s, and the size of each column: its sd where the factor has an intercept, otherwise its size."""
    names = {
        name for other in design.terms if other.factor == term.factor for name in other.coefficients
    }
    columns = design.columns(term)
    size = columns.unit(CONSTANT) if "1" in names else columns.size
    return residual_scale(design) if design.family.link.has_units else 1.0, size


def default_dispersion(design: Design, dispersion: Dispersion) -> Any:
    """What the likelihood says at the scale of the residuals."""
    return dispersion.prior(residual_scale(design) if design.family.link.has_units else 1.0)


def residual_scale(design: Design) -> float:
    """The sd of what least squares on the fixed effects leaves of a response.

    Random effects and residuals share it, so it is their scale; sd(y) would be too large where the
    fixed effects explain most. A perfect fit falls back on sd(y).
    """
    response = design.response
    return response.left if response.left > 1e-7 * response.size else (response.sd or 1.0)


def _response_sd(design: Design) -> float:
    return design.response.sd or 1.0


def _response_size(design: Design, level: float) -> float:
    """The response's size around zero on the scale of the link."""
    if not design.family.link.has_units:
        return max(1.0, abs(level))
    return design.response.size or 1.0
