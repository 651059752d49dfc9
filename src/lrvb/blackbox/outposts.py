"""Starts far out, for a second run: the best points at which one coordinate is several sds from its mean.

Chains from a Gaussian fit begin where it has its mass, and agree with one another as long as none has met the
neck of a funnel, a long tail or another mode. Those from outposts begin beyond all draws so far and come
back: where both runs end alike, neither has stayed where it began.
"""

from __future__ import annotations

import numpy as np

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
_DECAY = 0.9, 0.99


def outposts(
    kernel: Kernel, mean: np.ndarray, root: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, D), and whether log p is finite and not too low there (n,).

    x = mean + root·u. One coordinate x_d of each is fixed at some sds above or below its mean, and log p is
    raised in the others from their conditional mean under N(mean, root rootᵀ): u = ±r·a/|a| with a = root[d].
    Coordinates take turns in random order, above and below; beyond n/2 of them not all have one.
    """
    order = np.concatenate([rng.permutation(kernel.size) for _ in range(-(-n // kernel.size))])[:n]
    a = root[order] / np.linalg.norm(root[order], axis=1, keepdims=True)
    side = np.arange(n) // min(kernel.size, n // 2) % 2
    away = AWAY * np.where(side, -1.0, 1.0)
    u = away[:, None] * a
    center = kernel(mean[None])[0][0]
    for steps in STEPS:
        u = _raised(kernel, mean, root, u, a, steps)
        good = kernel(mean + u @ root.T)[0] >= center - LOW
        if good.all():
            break
        u = np.where(good[:, None], u, 0.5 * u)
    return mean + u @ root.T, good


def _raised(
    kernel: Kernel, mean: np.ndarray, root: np.ndarray, u: np.ndarray, a: np.ndarray, steps: int
) -> np.ndarray:
    """u (n, D) where log p is higher, with the same uᵀa."""
    away = (u * a).sum(axis=1)
    slope, square = np.zeros((2, *u.shape))
    for t in range(steps):
        g = kernel(mean + u @ root.T)[1] @ root
        g -= (g * a).sum(axis=1, keepdims=True) * a
        slope = _DECAY[0] * slope + (1 - _DECAY[0]) * g
        square = _DECAY[1] * square + (1 - _DECAY[1]) * g**2
        scaled = slope / (1 - _DECAY[0] ** (t + 1))
        scaled /= np.sqrt(square / (1 - _DECAY[1] ** (t + 1))) + 1e-8
        u = u + RATE * (1 - t / steps) * scaled
        u += (away - (u * a).sum(axis=1))[:, None] * a
    return u
