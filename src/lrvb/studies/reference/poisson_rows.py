"""The one-dimensional integral of a Poisson row over its own z_n.

About its mode z* the integrand of ∫ N(z | μ, 1/τ) Poisson(y | eᶻ) dz is
exp(−τd²/2 − λ(eᵈ − 1 − d)) with d = z − z*, λ = exp z*: two numbers say everything about its shape.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import wrightomega

from ...likelihoods import POISSON

STEP = 0.5  # of the width 1/√(τ + λ) at the mode
LARGEST_STEP = 0.35  # on the scale of z, where eᶻ sets the pace: relative error below 1e-11
SIZE = 2**15  # nodes at a time: they fit in the cache of the processor


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
    mode, rate = _mode(mu, tau, y)
    tau = np.broadcast_to(tau, mode.shape)
    left = _reach(tau, rate, depth, -1.0)
    width = left + _reach(tau, rate, depth, 1.0)
    step = np.minimum(STEP / np.sqrt(tau + rate), LARGEST_STEP) / refine
    integral, mean, var = _shape_moments(tau, rate, left, width, np.ceil(width / step).astype(int))
    top = 0.5 * np.log(tau / (2 * np.pi)) - 0.5 * tau * (mode - mu) ** 2 + POISSON.log_p(y, mode)
    return RowMoments(top + np.log(integral), mode + mean, var)


def _shape_moments(
    tau: np.ndarray, rate: np.ndarray, left: np.ndarray, width: np.ndarray, intervals: np.ndarray
) -> np.ndarray:
    """Integral, mean and variance (3, ...) of exp(−drop(d)), d from −left to width − left.

    Integrals that need about equally many intervals are done together.
    """
    shape = tau.shape
    tau, rate, left, width = (part.ravel() for part in (tau, rate, left, width))
    out = np.empty((3, tau.size))
    order = np.argsort(-intervals, axis=None, kind="stable")
    while len(order):
        n = int(intervals.flat[order[0]])
        rows, order = np.split(order, [max(SIZE // n, 1)])
        t = np.arange(n + 1) / n
        d = width[rows, None] * t - left[rows, None]
        mass = np.exp(-_drop(d, tau[rows, None], rate[rows, None]))
        total, first, second = (mass @ np.stack([t**0, t, t * t], axis=1)).T
        center = first / total
        out[0, rows] = total * width[rows] / n
        out[1, rows] = center * width[rows] - left[rows]
        out[2, rows] = (second / total - center**2) * width[rows] ** 2
    return out.reshape(3, *shape)


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
