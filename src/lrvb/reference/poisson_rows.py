"""The one-dimensional integral of a Poisson row over its own z_n.

About its mode z* the integrand of ∫ N(z | μ, 1/τ) Poisson(y | eᶻ) dz is
exp(−τd²/2 − λ(eᵈ − 1 − d)) with d = z − z*, λ = exp z*: two numbers say everything about its shape.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, wrightomega

STEP = 0.5  # of the width 1/√(τ + λ) at the mode
LARGEST_STEP = 0.35  # on the scale of z, where eᶻ sets the pace: relative error below 1e-11
CHUNK = 1024  # integrals at a time: their nodes fit in the processor's cache


class RowMoments(NamedTuple):
    """Of z given (μ, τ, y): log of the integral, mean and variance, each of the inputs' shape."""

    log_integral: np.ndarray
    mean: np.ndarray
    var: np.ndarray


def row_moments(
    mu: np.ndarray, tau: np.ndarray, y: np.ndarray, *, refine: float, depth: float
) -> RowMoments:
    """Integrals of N(z | μ, 1/τ) Poisson(y | eᶻ), and the moments of z under them.

    The arguments broadcast; `refine` divides the step, and the range of z ends `depth` nats below
    the mode.
    """
    shape = np.broadcast_shapes(mu.shape, tau.shape, y.shape)
    flat = [np.broadcast_to(part, shape).ravel() for part in (mu, tau, y)]
    size = flat[0].size
    out = RowMoments(*np.empty((3, size)))
    for first in range(0, size, CHUNK):
        rows = slice(first, first + CHUNK)
        pieces = _row_moments(flat[0][rows], flat[1][rows], flat[2][rows], refine, depth)
        for whole, piece in zip(out, pieces, strict=True):
            whole[rows] = piece
    return RowMoments(*(part.reshape(shape) for part in out))


def _row_moments(
    mu: np.ndarray, tau: np.ndarray, y: np.ndarray, refine: float, depth: float
) -> RowMoments:
    """As `row_moments`, for flat arrays."""
    mode, rate = _mode(mu, tau, y)
    left = _reach(tau, rate, depth, -1.0)
    width = left + _reach(tau, rate, depth, 1.0)
    step = np.minimum(STEP / np.sqrt(tau + rate), LARGEST_STEP) / refine
    t = np.linspace(0, 1, int(np.ceil((width / step).max())) + 1)
    d = width[:, None] * t - left[:, None]
    mass = np.exp(-_drop(d, tau[:, None], rate[:, None]))
    zeroth, first, second = (mass @ np.stack([np.ones_like(t), t, t * t], axis=1)).T
    top = (
        0.5 * np.log(tau / (2 * np.pi))
        - 0.5 * tau * (mode - mu) ** 2
        + (y * mode - rate - gammaln(y + 1))
    )
    mean = first / zeroth
    return RowMoments(
        log_integral=top + np.log(zeroth * width / (len(t) - 1)),
        mean=mode + width * mean - left,
        var=width**2 * (second / zeroth - mean**2),
    )


def _mode(mu: np.ndarray, tau: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The root z* of y − eᶻ − τ(z − μ) = 0, and λ = exp z*: λ/τ is Wright's omega function."""
    c = mu + y / tau
    omega = wrightomega(c - np.log(tau))
    mode = np.where(omega > 1, np.log(tau) + np.log(np.maximum(omega, 1)), c - omega)
    return mode, np.maximum(tau * omega, 1e-290)


def _drop(d: np.ndarray, tau: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """τd²/2 + λ(eᵈ − 1 − d): how far the log integrand has fallen at z* + d."""
    return 0.5 * tau * d * d + rate * (np.expm1(d) - d)


def _reach(tau: np.ndarray, rate: np.ndarray, depth: float, side: float) -> np.ndarray:
    """Distance |d| to the left (side −1) or right (+1) by which the drop is at least `depth`.

    Newton's method on a convex function, from beyond its root, never steps over it.
    """
    fall = depth / rate
    if side > 0:
        bound = np.log1p(fall + np.sqrt(2 * fall))  # there eᵈ − 1 − d exceeds fall
    else:
        bound = np.where(fall < 1 / 3, np.sqrt(3 * fall), 1 + fall)  # and there e⁻ᵈ − 1 + d
    far = np.minimum(np.sqrt(2 * depth / tau), bound)
    for _ in range(4):
        slope = tau * far + rate * side * np.expm1(side * far)
        far = far - (_drop(side * far, tau, rate) - depth) / slope
    return far
