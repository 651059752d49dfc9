"""The best Gaussian factor of the coefficients w, given the expected precisions.

Means solve Cᵀℓ_η = Pμ − pull (pull is Pμ₀ of a prior with means μ₀), Newton's method by the arrow;
covariances are Σ = (CᵀWC + P)⁻¹ with W = −2ℓ_v, a fixed point in the variances v of the rows' linear
predictors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...numerics.anderson import Anderson
from .arrow import (
    Arrow,
    NotPositive,
    Prior,
    Separate,
    invert,
    invert_separately,
    posterior_precision,
)
from .best_gaussian import NoOptimum
from .feedback import feedback
from .incidence import Vector
from .row_terms import RowTerms

if TYPE_CHECKING:
    from .reweighted import Reweighted

_FAR = 1e-2  # squared length of a Newton step, in sds, from which on it is taken without asking


class IteratedOptimum(NamedTuple):
    """The factor: means, row variances, the rows' terms there, Σ, and the Hessian of the means.

    `value` is Σ_n ℓ at the variances that Σ gives, ℓ + ℓ_v δv: v is near them, not equal.
    """

    mu: Vector
    v: np.ndarray
    terms: RowTerms
    Sigma: Arrow | Separate
    M: Arrow
    value: float

    @property
    def scale(self) -> float:
        """Σ_n ∂ℓ/∂s."""
        return float(self.terms.s.sum())


def optimum(
    given: Reweighted,
    prior: Prior,
    pull: Vector,
    s: float,
    start: IteratedOptimum | None,
    tol: float,
) -> IteratedOptimum:
    """The optimum to `tol`: relative in the variances, in sds for the means."""
    layout, rows = given.layout, given.rows
    mu, v = (start.mu, start.v) if start is not None else _start(given, prior, pull)
    anderson, best, stalled = Anderson(), np.inf, 0
    near = None if start is None else start.terms.start
    terms = rows.at(layout.forward(mu) + given.offset, v, s, near)
    for _ in range(200):
        if not np.isfinite(terms.value):
            raise NoOptimum
        Sigma, M = _factors(given, prior, terms)
        gradient = layout.adjoint(terms.e) - prior.times(mu) + pull
        step = M.solve(gradient)
        decrement = step.dot(gradient)
        target = layout.quadratic(*Sigma.blocks)
        change = float(np.abs(np.log(target / v)).max())
        error = max(np.sqrt(max(decrement, 0.0)), change)
        stalled = stalled + 1 if error > 0.5 * best else 0
        best = min(best, error)
        if error < tol or (error < 1e3 * tol and stalled > 4):
            return IteratedOptimum(
                mu, v, terms, Sigma, M, terms.value + float(terms.v @ (target - v))
            )
        if rows.coupled:
            target = _anticipated(given, Sigma, terms, v, target, layout.forward(step))
        u = np.log(v)
        v = np.exp(np.clip(anderson.next(u, np.log(target)), u - 2.0, u + 2.0))
        mu, terms = _move(given, prior, pull, s, mu, step, v, terms.start, careful=decrement > _FAR)
    raise NoOptimum


def _anticipated(
    given: Reweighted,
    Sigma: Arrow | Separate,
    terms: RowTerms,
    v: np.ndarray,
    target: np.ndarray,
    step: np.ndarray,
) -> np.ndarray:
    """The variances that the next weights will ask for, level by level; positive like `target`."""
    answer = feedback(given.layout, level_covariances(Sigma), terms.vv)
    away = target - v
    ahead = target + answer.follow(terms.ev * step + terms.vv * away)
    return np.clip(ahead, target / 4, 4 * target)


def level_covariances(Sigma: Arrow | Separate) -> np.ndarray:
    """Each first level's covariance given the rest, (G, q, q)."""
    return Sigma.E if isinstance(Sigma, Arrow) else Sigma.blocks.Z11


def _start(given: Reweighted, prior: Prior, pull: Vector) -> tuple[Vector, np.ndarray]:
    """Weighted least squares of the rows' own guesses."""
    guess, weight = given.rows.start()
    arrow = _invert(given, prior, weight)
    mu = arrow.solve(given.layout.adjoint(weight * (guess - given.offset)) + pull)
    return mu, given.layout.quadratic(*arrow.blocks)


def _factors(given: Reweighted, prior: Prior, terms: RowTerms) -> tuple[Arrow | Separate, Arrow]:
    """Σ from W = −2ℓ_v, and the inverse Hessian of the means from −ℓ_ηη."""
    Q = posterior_precision(given.layout.cross(-2 * terms.v), prior)
    try:
        if given.rows.gaussian_mean:
            M = invert(Q)
            return (M if given.masks is None else invert_separately(Q, given.masks)), M
        M = _invert(given, prior, -terms.ee)
        return (invert(Q) if given.masks is None else invert_separately(Q, given.masks)), M
    except NotPositive as error:
        raise NoOptimum from error


def _invert(given: Reweighted, prior: Prior, weight: np.ndarray) -> Arrow:
    try:
        return invert(posterior_precision(given.layout.cross(weight), prior))
    except NotPositive as error:
        raise NoOptimum from error


def _move(
    given: Reweighted,
    prior: Prior,
    pull: Vector,
    s: float,
    mu: Vector,
    step: Vector,
    v: np.ndarray,
    start: Any,
    *,
    careful: bool,
) -> tuple[Vector, RowTerms]:
    """μ + step, or part of it while the objective of the means would fall."""

    def value(mu: Vector) -> tuple[float, RowTerms]:
        terms = given.rows.at(given.layout.forward(mu) + given.offset, v, s, start)
        return terms.value - 0.5 * mu.dot(prior.times(mu)) + mu.dot(pull), terms

    if not careful:
        moved = mu + step
        return moved, value(moved)[1]
    here, at_rest = value(mu)
    for damping in (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001):
        moved = mu + step.times(damping)
        there, terms = value(moved)
        if np.isfinite(there) and there >= here - 1e-10 * abs(here):
            return moved, terms
    return mu, at_rest
