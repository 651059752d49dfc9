"""Hamiltonian Monte Carlo with many chains at once, whitened by a given mean and covariance.

Every step asks for values and gradients of all chains together. Leapfrog is reversible and keeps
volume whatever the force, so that a gradient by differences costs acceptance, never correctness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

ValueAndGradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

ACCEPTANCE = 0.8
_LONGEST = 24  # leapfrog steps of one path
MANY = 8  # draws a dimension from which a covariance is estimated
ROUNDING = 1e-12  # relative spread of a constant
FAR = 7.0  # standard errors by which control variates may move a mean: beyond, density has an edge


class Chains(NamedTuple):
    """Draws (keep, chains, d), the mean acceptance of the kept steps, and the step size reached.

    gradient (keep, chains, d) is that of the log density at the draws.
    """

    x: np.ndarray
    acceptance: float
    step: float
    gradient: np.ndarray


def hmc(
    target: ValueAndGradient,
    start: np.ndarray,
    mean: np.ndarray,
    root: np.ndarray,
    rng: np.random.Generator,
    *,
    adapt: int = 12,
    keep: int = 25,
    step: float | None = None,
    path: float = 0.5 * np.pi,
    longest: int = _LONGEST,
    jitter: float = 0.0,
) -> Chains:
    """Chains from start (chains, d); target maps points (n, d) to values (n,) and gradients (n, d).

    x = mean + root·y, and y has unit mass. Path lengths are path·(0.4 + 1.2u), the same for all chains
    of a step and of `longest` leapfrog steps at most; the step size starts at `step`, is adapted to an
    acceptance of 0.8, then kept. With jitter, kept steps are shorter by 1 − jitter·u²: chains that are
    stuck where the density is narrow then move at times.
    """
    y = np.linalg.solve(root, (start - mean).T).T
    chains, d = y.shape

    def at(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = target(mean + y @ root.T)
        return value, gradient @ root

    now = (y, *at(y))
    log_step = np.log(min(0.6, 1.2 * d**-0.25) if step is None else step)
    kept, slopes, accepted = [], [], []
    for t in range(adapt + keep):
        step = float(np.exp(log_step))
        if jitter and t >= adapt:
            step *= 1 - jitter * rng.random() ** 2
        length = path * (0.4 + 1.2 * rng.random())
        steps = int(np.clip(np.ceil(length / step), 1, longest))
        p = rng.standard_normal((chains, d))
        now, chance = trajectory(at, now, p, step, steps, rng)
        if t < adapt:
            log_step += (chance.mean() - ACCEPTANCE) * 1.5 / np.sqrt(1 + t)
        else:
            kept.append(mean + now[0] @ root.T)
            slopes.append(now[2])
            accepted.append(chance.mean())
    plain = np.linalg.solve(root.T, np.stack(slopes).reshape(-1, d).T).T.reshape(keep, chains, d)
    return Chains(np.stack(kept), float(np.mean(accepted)), float(np.exp(log_step)), plain)


Points = tuple[np.ndarray, np.ndarray, np.ndarray]  # (n, d), log density (n,) and gradient (n, d)


def trajectory(
    at: ValueAndGradient,
    now: Points,
    p: np.ndarray,
    step: float | np.ndarray,
    steps: int,
    rng: np.random.Generator,
) -> tuple[Points, np.ndarray]:
    """Where leapfrog leads with momenta p (n, d), or where it began, and the chance of its end (n,).

    `step` is one for all or (n, 1).
    """
    y, value, gradient = now
    energy = value - 0.5 * (p**2).sum(axis=1)
    new, new_value, new_gradient = now
    p = p + 0.5 * step * gradient
    for i in range(steps):
        new = new + step * p
        new_value, new_gradient = at(new)
        p = p + (step if i < steps - 1 else 0.5 * step) * new_gradient
    with np.errstate(invalid="ignore", over="ignore"):
        gain = new_value - 0.5 * (p**2).sum(axis=1) - energy
    chance = np.exp(np.minimum(np.where(np.isnan(gain), -np.inf, gain), 0.0))
    take = rng.random(len(y)) < chance
    y = np.where(take[:, None], new, y)
    value = np.where(take, new_value, value)
    return (y, value, np.where(take[:, None], new_gradient, gradient)), chance


class ControlVariates(NamedTuple):
    """Averages over draws that lean on functions of known mean zero: Stein's, of degree two.

    weights (n,) sum to one, and weights @ F is the constant of a regression of F on those functions;
    Q (n, k) is an orthonormal basis of them and the constant.
    """

    weights: np.ndarray
    Q: np.ndarray

    def residual(self, F: np.ndarray) -> np.ndarray:
        """What the regression leaves of F (n, q), as large as new draws would have it."""
        n, k = self.Q.shape
        return (F - self.Q @ (self.Q.T @ F)) * np.sqrt(n / (n - k))


def no_controls(n: int) -> ControlVariates:
    """Plain averages."""
    return ControlVariates(np.full(n, 1 / n), np.full((n, 1), n**-0.5))


def control_variates(y: np.ndarray, gradient: np.ndarray) -> ControlVariates:
    """From draws y (n, d) in whitened coordinates and ∇log p there (n, d).

    ∇log p and y_i ∂_j log p + y_j ∂_i log p + 2δ_ij have mean zero; where the draws are fewer than four a
    function, those of i = j alone, or ∇log p, or none. Exact for quadratic functions of a normal: its
    gradient is −y.
    """
    n, d = y.shape
    if 4 * d >= n:
        return no_controls(n)
    i, j = np.tril_indices(d) if 4 * (d + d * (d + 1) // 2) < n else (np.arange(d), np.arange(d))
    if 8 * d >= n:
        i = j = i[:0]
    second = y[:, i] * gradient[:, j] + y[:, j] * gradient[:, i] + 2.0 * (i == j)
    X = np.hstack([np.ones((n, 1)), gradient, second])
    X = X / np.sqrt((X**2).mean(axis=0))
    Q, R = np.linalg.qr(X)
    known = np.abs(np.diag(R)) > 1e-8 * np.sqrt(n)
    if not known.all():
        Q, R = np.linalg.qr(X[:, known])
    first = np.linalg.solve(R.T, np.eye(len(R))[:, 0])
    weights = Q @ first
    return ControlVariates(weights / weights.sum(), Q)


class Averages(NamedTuple):
    """Of quantities (q,) over chains: weights of the draws (n,), errors of means and sds, plain errors.

    `sound` tells whether control variates move no mean by more than `FAR` plain errors; otherwise the
    weights are equal: their functions have mean zero only where the density has no edge.
    """

    weights: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    plain_error: np.ndarray
    sound: bool


def average(x: np.ndarray, gradient: np.ndarray, g: np.ndarray) -> Averages:
    """Averages of g (n, q) over draws x (steps, chains, d) with gradients of log p, chain within step.

    Errors come from the spread of the chains' averages, of what control variates leave of g.
    """
    steps, chains, d = x.shape
    x, gradient, by_chain = x.reshape(-1, d), gradient.reshape(-1, d), (steps, chains, -1)
    mean, sd = x.mean(axis=0), x.std(axis=0)
    full = len(x) >= MANY * d
    root = root_of(x) if full else np.diag(np.where(sd > 0, sd, 1.0))
    y = np.linalg.solve(root, (x - mean).T).T if full else (x - mean) / np.diag(root)
    controls = control_variates(y, gradient @ root)
    own = g.mean(axis=0)
    plain = (g - own).reshape(by_chain).mean(axis=0).var(axis=0, ddof=1) / chains
    moved = controls.weights @ g - own
    with np.errstate(over="ignore", invalid="ignore"):
        spread = controls.weights @ (g - own - moved) ** 2
    varies = np.ptp(g, axis=0) > 0  # of a constant all of these are rounding
    sound = bool((moved**2 <= FAR**2 * plain + 1e-18 * g.var(axis=0))[varies].all())
    if not sound or not (spread[varies] > 0).all():
        controls = no_controls(len(g))
    squares = (g - controls.weights @ g) ** 2
    sd = np.sqrt(np.maximum(controls.weights @ squares, 1e-300))
    errors = [
        controls.residual(F).reshape(by_chain).mean(axis=0).std(axis=0, ddof=1) / np.sqrt(chains)
        for F in (g, squares / (2 * sd))
    ]
    errors = [np.where(varies, error, 0.0) for error in (*errors, np.sqrt(plain))]
    return Averages(controls.weights, errors[0], errors[1], errors[2], sound)


def steady(g: np.ndarray) -> np.ndarray:
    """g (n, q), where what varies by rounding alone (the diagonal of a correlation) does not."""
    with np.errstate(invalid="ignore"):
        still = np.ptp(g, axis=0) <= ROUNDING * np.abs(g).max(axis=0)
    return np.where(still, g[0], g)


def root_of(x: np.ndarray) -> np.ndarray:
    """Cholesky's root of the draws' covariance, shrunk a little to its diagonal where draws are few."""
    n, d = x.shape
    S = np.cov(x.T).reshape(d, d)
    sd = np.sqrt(np.maximum(np.diag(S), 1e-300))
    share = min(0.5, d / n) + 1e-9
    correlation = (1 - share) * S / np.outer(sd, sd) + share * np.eye(d)
    return sd[:, None] * np.linalg.cholesky(correlation)


def r_hat(values: np.ndarray) -> np.ndarray:
    """Split R̂ of quantities (draws, chains, q), (q,): one where every half chain has one mean."""
    half = len(values) // 2
    split = np.concatenate([values[:half], values[-half:]], axis=1)
    within = split.var(axis=0, ddof=1).mean(axis=0)
    between = split.mean(axis=0).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (half - 1) / half + between / within
    varies = (within > 0) & (np.ptp(values, axis=(0, 1)) > 0)
    return np.sqrt(np.where(varies, ratio, 1.0))


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Φ⁻¹ of the ranks of values (draws, chains, q) among all of a column: no tail is heavy in them.

    Equal values have their mean rank, so that a constant has no spread.
    """
    columns = np.ascontiguousarray(values.reshape(-1, values.shape[2]).T)
    n = columns.shape[1]
    order, at = columns.argsort(axis=1), np.arange(n)
    ordered = np.take_along_axis(columns, order, axis=1)
    apart = np.pad(ordered[:, 1:] != ordered[:, :-1], ((0, 0), (1, 1)), constant_values=True)
    first = np.maximum.accumulate(np.where(apart[:, :-1], at, 0), axis=1)
    last = np.minimum.accumulate(np.where(apart[:, 1:], at, n)[:, ::-1], axis=1)[:, ::-1]
    scores = np.empty(columns.shape)
    by_rank = ndtri(np.arange(2 * n + 1) / (2 * n))
    np.put_along_axis(scores, order, by_rank[first + last + 1], axis=1)
    return scores.T.reshape(values.shape)


def standard_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of columns (n, q) about zero with squares that sum to one: products are rank correlations."""
    ranks = values.argsort(axis=0).argsort(axis=0) - 0.5 * (len(values) - 1)
    return ranks / np.sqrt((ranks**2).sum(axis=0))
