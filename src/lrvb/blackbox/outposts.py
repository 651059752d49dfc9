"""Starts far out, for a second run: usual points at which one coordinate is several sds from its mean.

Chains from a Gaussian fit begin where it has its mass, and agree with one another as long as none has met the
neck of a funnel, a long tail or another mode. Those from outposts begin beyond all draws so far and come
back: where both runs end alike, neither has stayed where it began.
"""

from __future__ import annotations

import numpy as np

from ..numerics.hmc import ACCEPTANCE, trajectory
from .kernel import Kernel

AWAY = 6.0  # sds of a coordinate from its mean
LOW = (
    25.0  # log density below the mean's, of a normal 18 at six sds: beyond, an outpost comes nearer
)
STEPS = (
    60,
    30,
    30,
)  # of Adam in whitened coordinates, at first and at half and a quarter of the way
RATE = 0.1
STEEPEST = 1e100  # slope beyond which the sign alone counts, as where log p falls like −exp(x)
TYPICAL, PATH = (
    24,
    8,
)  # trajectories, and leapfrog steps of each, from the best point to a usual one
_DECAY = 0.9, 0.99


def outposts(
    kernel: Kernel, mean: np.ndarray, root: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, D), and whether log p is finite and not too low at the best that has their x_d, (n,).

    x = mean + root·u. One coordinate x_d of each is fixed at some sds above or below its mean, and log p is
    raised in the others from their conditional mean under N(mean, root rootᵀ): u = ±r·a/|a| with a = root[d].
    From there the others go to where they usually are, given x_d: in the neck of a funnel the best point is
    on its axis, at which log p rises without end as the neck narrows, and chains from it would fall in.
    Coordinates take turns in random order, above and below; beyond n/2 of them not all have one.
    """
    order = np.concatenate([rng.permutation(kernel.size) for _ in range(-(-n // kernel.size))])[:n]
    a = root[order] / np.linalg.norm(root[order], axis=1, keepdims=True)
    side = np.arange(n) // min(kernel.size, n // 2) % 2
    away = AWAY * np.where(side, -1.0, 1.0)
    u = away[:, None] * a
    center = kernel(mean[None])[0][0]
    for steps in STEPS:
        u = raised(kernel, mean, root, u, a, RATE * (1 - np.arange(steps) / steps))
        good = kernel(mean + u @ root.T)[0] >= center - LOW
        if good.all():
            break
        u = np.where(good[:, None], u, 0.5 * u)
    return mean + _settled(kernel, mean, root, u, a, rng) @ root.T, good


def raised(
    kernel: Kernel,
    mean: np.ndarray,
    root: np.ndarray,
    u: np.ndarray,
    a: np.ndarray,
    rates: np.ndarray,
) -> np.ndarray:
    """u (n, D) where log p is higher, with the same uᵀa, by Adam with a rate for every step."""
    away = (u * a).sum(axis=1)
    slope, square = np.zeros((2, *u.shape))
    for t, rate in enumerate(rates):
        g = np.clip(kernel(mean + u @ root.T)[1], -STEEPEST, STEEPEST) @ root
        g -= (g * a).sum(axis=1, keepdims=True) * a
        slope = _DECAY[0] * slope + (1 - _DECAY[0]) * g
        square = _DECAY[1] * square + (1 - _DECAY[1]) * g**2
        scaled = slope / (1 - _DECAY[0] ** (t + 1))
        scaled /= np.sqrt(square / (1 - _DECAY[1] ** (t + 1))) + 1e-8
        u = u + rate * scaled
        u += (away - (u * a).sum(axis=1))[:, None] * a
    return u


def _settled(
    kernel: Kernel,
    mean: np.ndarray,
    root: np.ndarray,
    u: np.ndarray,
    a: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """u (n, D) after a few trajectories of HMC with uᵀa fixed, each point with a step size of its own.

    Steps grow and shrink towards HMC's acceptance: how wide the others are differs from point to point.
    """

    def at(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, gradient = kernel(mean + u @ root.T)
        return value, across(gradient @ root)

    def across(v: np.ndarray) -> np.ndarray:
        return v - (v * a).sum(axis=1, keepdims=True) * a

    log_step = np.full((len(u), 1), np.log(0.3))
    now = (u, *at(u))
    for t in range(TYPICAL):
        p = across(rng.standard_normal(u.shape))
        now, chance = trajectory(at, now, p, np.exp(log_step), PATH, rng)
        log_step += ((chance - ACCEPTANCE) * 1.5 / np.sqrt(1 + t))[:, None]
    return now[0]
