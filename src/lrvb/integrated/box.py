"""The box of a pair of effects outside of which the log integrand has fallen far."""

from __future__ import annotations

import numpy as np

from .row_sums import RowSums

_STEPS = 30


def find_side(
    sums: RowSums,
    precision: np.ndarray,
    z: np.ndarray,
    C: np.ndarray,
    axis: int,
    side: float,
    drop: float,
) -> np.ndarray:
    """e along one axis where the best log integrand with that e has fallen by `drop`, (n, G).

    z (n, G, 2) is the mode, C (n, G, 2, 2) the root of its inverse curvature; side −1 or 1. √(2 · fall)
    is nearly linear along the axis: Newton's method, in a bracket; the other coordinate follows its own
    maximum, so that tails which turn are covered too. A fall between 0.9 and 1.5 times `drop` will do.
    """

    def height(x: np.ndarray) -> np.ndarray:
        return sums.height(x) - quadratic(precision[:, None], x) / 2

    top, other = height(z), 1 - axis
    e = np.zeros_like(z)
    e[..., axis] = side * np.sqrt(2 * drop)
    near, beyond = np.zeros_like(top), np.full_like(top, np.inf)
    for _ in range(_STEPS):
        here = z + np.einsum("ngij,ngj->ngi", C, e)
        gradient, H = sums.slopes(here)
        gradient = gradient - np.einsum("nij,ngj->ngi", precision, here)
        H = H + precision[:, None]
        slope = np.einsum("ngij,ngi->ngj", C, gradient)
        curvature = np.einsum("ngij,ngik,ngkl->ngjl", C, H, C)
        own = np.maximum(curvature[..., other, other], 1e-3)
        follow = slope[..., other] / own
        regained = slope[..., other] * follow / 2
        settled = regained < 0.5
        fall = top - height(here) - np.minimum(regained, 0.5)
        good = settled & (fall > 0.9 * drop) & (fall < 1.5 * drop)
        if good.all():
            break
        distance = np.abs(e[..., axis])
        near = np.where(settled & (fall < drop), distance, near)
        beyond = np.where(settled & (fall >= drop), distance, beyond)
        steep = np.maximum(-side * (slope[..., axis] - curvature[..., 0, 1] * follow), 1e-9)
        reached = np.sqrt(np.maximum(2 * fall, 1e-8))
        new = distance + (np.sqrt(2.2 * drop) - reached) * reached / steep
        inside = (new > near) & (new < beyond) & (new < 2 * distance + 1)
        middle = np.where(np.isfinite(beyond), (near + beyond) / 2, 1.5 * distance + 0.5)
        new = np.where(good | ~settled, distance, np.where(inside, new, middle))
        change = side * new - e[..., axis]
        e[..., axis] += change
        e[..., other] += np.where(good, 0.0, np.clip(follow, -2, 2))
        e[..., other] -= np.clip(curvature[..., 0, 1] / own * change, -2, 2)
    return e[..., axis]


def quadratic(A: np.ndarray, z: np.ndarray) -> np.ndarray:
    """zᵀAz for symmetric 2 × 2 matrices (..., 2, 2) and vectors (..., 2)."""
    x, y = z[..., 0], z[..., 1]
    return A[..., 0, 0] * x**2 + (2 * A[..., 0, 1] * x + A[..., 1, 1] * y) * y
