r"""What mean field would say: q(θ_t) ∝ p(θ_t) exp E log p(z | θ_t), and coefficients given E θ.

Of a term with G levels and S = Σ_k E zₖzₖᵀ under the posterior,
log q(θ_t) = log p(θ_t) − ½G log |Σ| − ½ tr(Σ⁻¹S): each sd as certain as its own levels would make it.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ....integrated.direct import integrate_density
from ....integrated.effort import EASY
from ....integrated.importance import Budget, resampled
from ....integrated.inside import Evaluable, Inside
from ....integrated.laplace import conditional_mode
from ....integrated.mode import Mode, differenced
from ....integrated.normal import Normal
from ....integrated.terms import Spread, Term
from ....likelihoods.dispersion import Dispersion, split_coordinates
from ....numerics.sobol import sobol
from ..priors.stated import SdPrior
from .statement import Statement

REACH, POINTS = 14.0, 2801  # of a log sd around its centre, where it is summed: densest there
NORMALS, FEW = 64, 8  # draws of β given the hyperparameters, for the levels' own sds
AT_DRAWS = 256  # at which residuals are squared
STEP, SMALL = (
    0.05,
    1e-5,
)  # of second differences in a dispersion's coordinates, of first ones of its values
BUDGET = Budget(final=1024, explore=256, rounds=1, most=2)


def one_sd(prior: SdPrior, count: float, square: float) -> tuple[float, float, float]:
    """Sds under q of an sd, of its precision and of the log precision.

    q(sd) ∝ p(sd) sd^−count exp(−square/(2 sd²)).
    """
    center = np.log(square / max(count, 1.0)) / 2
    u = np.linspace(-10.0, 10.0, POINTS)
    log_sd = center + REACH * np.sinh(u) / np.sinh(10.0)
    with np.errstate(over="ignore", under="ignore"):
        log_q = prior.log_density(np.exp(log_sd)) + (1 - count) * log_sd
        log_q = log_q - square / 2 * np.exp(-2 * log_sd)
        q = np.exp(log_q - log_q.max()) * np.cosh(u)
    q /= q.sum()

    def sd(values: np.ndarray) -> float:
        return float(np.sqrt(q @ (values - q @ values) ** 2))

    return sd(np.exp(log_sd)), sd(np.exp(-2 * log_sd)), sd(-2 * log_sd)


def correlated(term: Term, square: np.ndarray) -> tuple[np.ndarray, Spread]:
    """Weights and Σ at draws of q(θ_t) of a term with several effects."""

    def log_q(theta: np.ndarray) -> np.ndarray:
        spread = term.spread(theta)
        trace = np.einsum("nij,ji->n", spread.precision, square)
        value = term.log_prior(theta, spread) - term.levels * spread.logdet / 2 - trace / 2
        return np.where(np.isfinite(value), value, -np.inf)

    found = integrate_density(log_q, term.kinds, term.start(1.0), BUDGET)
    theta, weights = found.heavy
    return weights, term.spread(theta)


def residual_square(inside: Normal, theta: np.ndarray, weights: np.ndarray) -> float:
    """E‖y − η‖², from σ²(N + ∂ log p(y | θ)/∂ log σ) at each draw."""
    at, h = resampled(weights, AT_DRAWS), 1e-3
    points = theta[at]
    move = h * (np.arange(theta.shape[1]) == theta.shape[1] - 1)

    def evidence(t: np.ndarray) -> np.ndarray:
        prior = inside.residual.log_density(np.exp(t[:, -1])) + t[:, -1]
        return inside.log_density(t) - prior

    slope = (evidence(points + move) - evidence(points - move)) / (2 * h)
    N = inside.n
    return float(np.mean(np.exp(2 * points[:, -1]) * np.maximum(N + slope, 0.0)))


def given_hyperparameters(
    statement: Statement, theta: np.ndarray, near: Evaluable | None = None
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Covariance (p, p) of β and every level's sd (levels, q), terms in θ's order, at one θ (d,).

    `near` answers in place of the statement's sums.
    """
    inside = statement.inside
    if isinstance(inside, Normal):
        found = inside.moments(theta[None], np.ones(1))
        return inside.beta(theta[None])[1][0], found.levels_sd
    near = near or inside
    mode = conditional_mode(near, theta[inside.p :], theta[: inside.p])
    covariance = np.linalg.inv(-mode.hessian)
    sds = _levels(inside, near, mode, covariance, theta[inside.p :])
    return covariance[: statement.p, : statement.p], sds


def _levels(
    inside: Inside, near: Evaluable, mode: Mode, covariance: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Sds of the levels with β normal around its conditional mode."""
    beta = mode.x[None]
    if inside.p:
        normal = _normals(inside.p, NORMALS if inside.work * NORMALS < EASY / 4 else FEW)
        beta = mode.x + normal @ np.linalg.cholesky(covariance).T
    points = np.column_stack([beta, np.tile(u, (len(beta), 1))])
    value, first, second = near.evaluate(points)
    w = np.isfinite(value) / np.isfinite(value).sum()
    return tuple(effect.sd for effect in inside.unfold(points, w, w @ first, w @ second))


def _normals(d: int, n: int) -> np.ndarray:
    u = np.clip(sobol(n // 2, d, 0), 1e-9, 1 - 1e-9)
    x = ndtri(u)
    return np.concatenate([x, -x])


def dispersion_sds(
    statement: Statement, theta: np.ndarray, near: Evaluable | None = None
) -> dict[str, float]:
    """Sds of each of the response's own parameters φ(u) given all else at θ, by their labels.

    The diagonal of J C Jᵀ, with J = ∂φ/∂u and C⁻¹ = −∂²log p/∂u² in its coordinates u.
    """
    found: dict[str, float] = {}
    inside = statement.inside
    if isinstance(inside, Normal):
        return found
    first = len(theta) - sum(own.range.size for own in statement.parameters)
    for own, u in split_coordinates(statement.parameters, statement.coordinates(theta[None])):
        k = own.range.size
        place = slice(first, first + k)

        def log_p(points: np.ndarray, place: slice = place) -> np.ndarray:
            moved = np.tile(theta, (len(points), 1))
            moved[:, place] = points
            return (near or inside).log_density(moved)

        def values(points: np.ndarray, own: Dispersion = own) -> np.ndarray:
            return own.range.natural(points)

        _, _, H = differenced(log_p, STEP)(u[0])
        E = SMALL * np.eye(k)
        J = (values(u + E) - values(u - E)).T / (2 * SMALL)
        axes = Mode(u[0], 0.0, H).axes(least=1.0)
        for label, part in zip(own.labels, J @ axes, strict=True):
            found[label] = float(np.sqrt(part @ part))
        first += k
    return found
