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
    """Draws (keep, chains, d), the mean acceptance of the kept steps, and the step size reached."""

    x: np.ndarray
    acceptance: float
    step: float


def hmc(
    target: ValueAndGradient,
    start: np.ndarray,
    mean: np.ndarray,
    root: np.ndarray,
    rng: np.random.Generator,
    *,
    adapt: int = 12,
    keep: int = 25,
) -> Chains:
    """Chains from start (chains, d); target maps points (n, d) to values (n,) and gradients (n, d).

    x = mean + root·y, and y has unit mass. Path lengths are (π/2)(0.4 + 1.2u), the same for all chains
    of a step; the step size is adapted to an acceptance of 0.8, then kept.
    """
    y = np.linalg.solve(root, (start - mean).T).T
    chains, d = y.shape

    def at(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = target(mean + y @ root.T)
        return value, gradient @ root

    value, gradient = at(y)
    log_step = np.log(min(0.6, 1.2 * d**-0.25))
    kept, accepted = [], []
    for t in range(adapt + keep):
        step = float(np.exp(log_step))
        path = 0.5 * np.pi * (0.4 + 1.2 * rng.random())
        steps = int(np.clip(np.ceil(path / step), 1, _LONGEST))
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
            accepted.append(chance.mean())
    return Chains(np.stack(kept), float(np.mean(accepted)), float(np.exp(log_step)))


def r_hat(values: np.ndarray) -> np.ndarray:
    """Split R̂ of quantities (draws, chains, q), (q,): one where every half chain has one mean."""
    half = len(values) // 2
    split = np.concatenate([values[:half], values[-half:]], axis=1)
    within = split.var(axis=0, ddof=1).mean(axis=0)
    between = split.mean(axis=0).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (half - 1) / half + between / within
    return np.sqrt(np.where(within > 0, ratio, 1.0))
