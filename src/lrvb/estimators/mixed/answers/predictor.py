r"""The linear predictor η = x'β + Σ_t r_t'z_t + offset of any rows: its mean and its variance.

With c the row of C that belongs to all coefficients w, η̄ = c'μ and Var η = c'Σ̂_w|α c + (c'R)Σ̂_α(c'R)ᵀ.
A level that the fit has not seen has z ~ N(0, Λ⁻¹), so that its mean is 0 and r'E[Λ⁻¹]r is added to
the variance. See: eq:nuisance_lrvb_est
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....collapsed.gaussian.incidence import Entries, Vector, rest_entries
from ....errors import InvalidModel
from ..design.design import Design, NewRows
from ..design.standardised import Coordinates
from ..fit.assembly import Joined
from ..fit.precision_model import block_name
from ..fit.working import Working
from .levels import Effects
from .standard_deviations import inverse_mean


class Predictor(NamedTuple):
    """η of some rows: mean and variance (n,), and the variance `own` of an unknown effect of the row.

    `own` is that of (1|obs) on new rows, which is noise rather than uncertainty; zero otherwise.
    """

    mean: np.ndarray
    variance: np.ndarray
    own: np.ndarray


def of_new_rows(
    design: Design, where: Coordinates, work: Working, joined: Joined, new: NewRows
) -> Predictor:
    """η of other rows."""
    rows = _touched(design, where, work, new)
    found = work.block.collapse(joined.inner.fit.m)
    mean = rows.forward(found.mu) + where.shift
    if new.offset is not None:
        mean = mean + new.offset
    variance = rows.quadratic(*joined.given)
    for w in _moved(joined):
        variance += rows.forward(w) ** 2
    own = np.zeros(len(mean))
    for t, (term, place) in enumerate(zip(design.terms, work.places, strict=True)):
        unseen = new.codes[term.factor] < 0
        if place.factor < 0:
            own += _prior_variance(design, joined, t, new.R[t])
        elif unseen.any():
            variance[unseen] += _prior_variance(design, joined, t, new.R[t][unseen])
    return Predictor(mean, variance, own)


def of_fitted_rows(
    design: Design, where: Coordinates, work: Working, joined: Joined, effects: Effects
) -> Predictor:
    """η of the rows of the fit, in their own order, with each row's own effect where there is one."""
    block = work.block
    layout, found = block.layout, block.collapse(joined.inner.fit.m)
    mean = layout.forward(found.mu) + where.shift
    moves = [layout.forward(w) for w in _moved(joined)]
    variance = layout.quadratic(*joined.given)
    if any(place.factor < 0 for place in work.places):
        own = effects.row_effects()
        L = _root(joined)
        mean = mean + own.mean
        variance = (1 + own.follow) ** 2 * variance + own.noise
        at = block.precisions.scale
        moves = [(1 + own.follow) * m + L[at, k] * own.scale for k, m in enumerate(moves)]
    for moved in moves:
        variance += moved**2
    back = np.empty(len(mean), dtype=int)
    back[work.order] = np.arange(len(mean))
    mean, variance = mean[back], variance[back]
    mean = mean if design.offset is None else mean + design.offset
    return Predictor(mean, variance, np.zeros(len(mean)))


def _root(joined: Joined) -> np.ndarray:
    """L with Σ̂_α = LLᵀ."""
    return np.linalg.cholesky(joined.inner.Sigma)


def _moved(joined: Joined) -> list[Vector]:
    """The columns of RL, so that (c'R)Σ̂_α(c'R)ᵀ is the sum of their squared products with c."""
    L = _root(joined)
    columns = []
    for k in range(len(L)):
        z = sum(L[a, k] * r.z for a, r in enumerate(joined.R))
        rest = sum(L[a, k] * r.rest for a, r in enumerate(joined.R))
        columns.append(Vector(np.asarray(z), np.asarray(rest)))
    return columns


def _touched(design: Design, where: Coordinates, work: Working, new: NewRows) -> Entries:
    """Where new rows touch the coefficients; levels that are not among them touch nothing."""
    layout, n = work.block.layout, len(new.X)
    levels, columns = [], []
    for f, factor in enumerate(work.factors):
        known = new.codes[factor] >= 0
        parts = [new.R[t] for t, place in enumerate(work.places) if place.factor == f]
        levels.append(np.where(known, new.codes[factor], 0).astype(np.int64))
        columns.append(np.hstack(parts) * known[:, None])
    if not work.factors:
        levels, columns = [np.zeros(n, dtype=np.int64)], [np.zeros((n, 0))]
    places, values = rest_entries(layout.offsets, levels[1:], columns[1:], n)
    return Entries(where.inward(new.X), levels[0], columns[0], places, values)


def _prior_variance(design: Design, joined: Joined, t: int, R: np.ndarray) -> np.ndarray:
    """r'E[Λ⁻¹]r of every row, with the expectation under q."""
    term = design.terms[t]
    S = inverse_mean(joined.inner, block_name(term.name, len(term.coefficients)))
    if not np.isfinite(S).all():
        raise InvalidModel(
            f"The variance of a new level of '{term.group}' has no finite expectation: the posterior "
            f"of the precision of '{term.name}' has too few levels behind it. Give it a prior with a "
            "larger shape or dof, or predict for known levels only.",
            term=term.name,
        )
    return np.einsum("ni,ij,nj->n", R, S, R)
