"""The best Gaussian factor of the coefficients w, given the expected precisions.

Means solve Cᵀℓ_η = P(μ − μ₀), Newton's method by the arrow; covariances are Σ = (CᵀWC + P)⁻¹ with
W = −2ℓ_v, a fixed point in the variances v of the rows' linear predictors.
"""

from __future__ import annotations

from typing import NamedTuple

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
from .feedback import feedback
from .incidence import Vector
from .layout import Layout
from .row_terms import Rows, RowTerms

_FAR = 1e-2  # squared length of a Newton step, in sds, from which on it is taken without asking


class Setting(NamedTuple):
    """What stays the same: rows, their layout and offset, and which blocks of w share a factor."""

    layout: Layout
    rows: Rows
    offset: np.ndarray
    masks: tuple[np.ndarray, np.ndarray] | None  # None: one joint factor


class State(NamedTuple):
    """The factor: means, row variances, the rows' terms there, Σ, and the Hessian of the means.

    `value` is Σ_n ℓ at the variances that Σ gives, ℓ + ℓ_v δv: v is near them, not equal.
    """

    mu: Vector
    v: np.ndarray
    terms: RowTerms
    Sigma: Arrow | Separate
    M: Arrow
    value: float


class NoOptimum(Exception):
    """The search for the best Gaussian factor has failed."""


def optimum(
    setting: Setting, prior: Prior, center: Vector, s: float, start: State | None, tol: float
) -> State:
    """The optimum to `tol`: relative in the variances, in sds for the means."""
    layout, rows = setting.layout, setting.rows
    mu, v = (start.mu, start.v) if start is not None else _start(setting, prior, center)
    anderson, best, stalled = Anderson(), np.inf, 0
    terms = rows.at(layout.forward(mu) + setting.offset, v, s)
    for _ in range(200):
        if not np.isfinite(terms.value):
            raise NoOptimum
        Sigma, M = _factors(setting, prior, terms)
        gradient = layout.adjoint(terms.e) - prior.times(mu - center)
        step = M.solve(gradient)
        decrement = step.dot(gradient)
        target = layout.quadratic(*Sigma.blocks)
        change = float(np.abs(np.log(target / v)).max())
        error = max(np.sqrt(max(decrement, 0.0)), change)
        stalled = stalled + 1 if error > 0.5 * best else 0
        best = min(best, error)
        if error < tol or (error < 1e3 * tol and stalled > 4):
            return State(mu, v, terms, Sigma, M, terms.value + float(terms.v @ (target - v)))
        if rows.coupled:
            target = _anticipated(setting, Sigma, terms, v, target, layout.forward(step))
        u = np.log(v)
        v = np.exp(np.clip(anderson.next(u, np.log(target)), u - 2.0, u + 2.0))
        mu, terms = _move(setting, prior, center, s, mu, step, v, careful=decrement > _FAR)
    raise NoOptimum


def _anticipated(
    setting: Setting,
    Sigma: Arrow | Separate,
    terms: RowTerms,
    v: np.ndarray,
    target: np.ndarray,
    step: np.ndarray,
) -> np.ndarray:
    """The variances that the next weights will ask for, level by level; positive like `target`."""
    answer = feedback(setting.layout, level_covariances(Sigma), terms.vv)
    away = target - v
    ahead = target + answer.follow(terms.ev * step + terms.vv * away)
    return np.clip(ahead, target / 4, 4 * target)


def level_covariances(Sigma: Arrow | Separate) -> np.ndarray:
    """Each first level's covariance given the rest, (G, q, q)."""
    return Sigma.E if isinstance(Sigma, Arrow) else Sigma.blocks.Z11


def _start(setting: Setting, prior: Prior, center: Vector) -> tuple[Vector, np.ndarray]:
    """Weighted least squares of the rows' own guesses."""
    guess, weight = setting.rows.start()
    arrow = _invert(setting, prior, weight)
    pull = prior.times(center)
    mu = arrow.solve(setting.layout.adjoint(weight * (guess - setting.offset)) + pull)
    return mu, setting.layout.quadratic(*arrow.blocks)


def _factors(setting: Setting, prior: Prior, terms: RowTerms) -> tuple[Arrow | Separate, Arrow]:
    """Σ from W = −2ℓ_v, and the inverse Hessian of the means from −ℓ_ηη."""
    Q = posterior_precision(setting.layout.cross(-2 * terms.v), prior)
    try:
        if setting.rows.gaussian_mean:
            M = invert(Q)
            return (M if setting.masks is None else invert_separately(Q, setting.masks)), M
        M = _invert(setting, prior, -terms.ee)
        return (invert(Q) if setting.masks is None else invert_separately(Q, setting.masks)), M
    except NotPositive as error:
        raise NoOptimum from error


def _invert(setting: Setting, prior: Prior, weight: np.ndarray) -> Arrow:
    try:
        return invert(posterior_precision(setting.layout.cross(weight), prior))
    except NotPositive as error:
        raise NoOptimum from error


def _move(
    setting: Setting,
    prior: Prior,
    center: Vector,
    s: float,
    mu: Vector,
    step: Vector,
    v: np.ndarray,
    *,
    careful: bool,
) -> tuple[Vector, RowTerms]:
    """μ + step, or part of it while the objective of the means would fall."""

    def value(mu: Vector) -> tuple[float, RowTerms]:
        terms = setting.rows.at(setting.layout.forward(mu) + setting.offset, v, s)
        away = mu - center
        return terms.value - 0.5 * away.dot(prior.times(away)), terms

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
