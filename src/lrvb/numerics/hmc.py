"""Hamiltonian Monte Carlo with many chains at once, whitened by a given mean and covariance.

Every step asks for values and gradients of all chains together. Leapfrog is reversible and keeps
volume whatever the force, so that a gradient by differences costs acceptance, never correctness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

ValueAndGradient = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

_ACCEPTANCE = 0.8
_LONGEST = 24  # leapfrog steps of one path


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

    value, gradient = at(y)
    log_step = np.log(min(0.6, 1.2 * d**-0.25) if step is None else step)
    kept, slopes, accepted = [], [], []
    for t in range(adapt + keep):
        step = float(np.exp(log_step))
        if jitter and t >= adapt:
            step *= 1 - jitter * rng.random() ** 2
        length = path * (0.4 + 1.2 * rng.random())
        steps = int(np.clip(np.ceil(length / step), 1, longest))
        p = rng.standard_normal((chains, d))
        energy = value - 0.5 * (p**2).sum(axis=1)
        new, new_value, new_gradient = y, value, gradient
        p = p + 0.5 * step * gradient
        for i in range(steps):
            new = new + step * p
            new_value, new_gradient = at(new)
            p = p + (step if i < steps - 1 else 0.5 * step) * new_gradient
        with np.errstate(invalid="ignore", over="ignore"):
            gain = new_value - 0.5 * (p**2).sum(axis=1) - energy
        chance = np.exp(np.minimum(np.where(np.isnan(gain), -np.inf, gain), 0.0))
        take = rng.random(chains) < chance
        y = np.where(take[:, None], new, y)
        value = np.where(take, new_value, value)
        gradient = np.where(take[:, None], new_gradient, gradient)
        if t < adapt:
            log_step += (chance.mean() - _ACCEPTANCE) * 1.5 / np.sqrt(1 + t)
        else:
            kept.append(mean + y @ root.T)
            slopes.append(gradient)
            accepted.append(chance.mean())
    plain = np.linalg.solve(root.T, np.stack(slopes).reshape(-1, d).T).T.reshape(keep, chains, d)
    return Chains(np.stack(kept), float(np.mean(accepted)), float(np.exp(log_step)), plain)


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


def r_hat(values: np.ndarray) -> np.ndarray:
    """Split R̂ of quantities (draws, chains, q), (q,): one where every half chain has one mean."""
    half = len(values) // 2
    split = np.concatenate([values[:half], values[-half:]], axis=1)
    within = split.var(axis=0, ddof=1).mean(axis=0)
    between = split.mean(axis=0).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (half - 1) / half + between / within
    return np.sqrt(np.where(within > 0, ratio, 1.0))
