"""Ascent of a smooth function: L-BFGS, and Newton's method in a trust region."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .kernel import Kernel

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
Objectives = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

_MEMORY = 20
_ENOUGH = 1e-4  # of the expected gain that a step must bring
_SHORTER = 0.4 ** np.arange(40)  # steps that are tried
_FLAT = 1e-10  # eigenvalue, of a precision scaled to a unit diagonal, that is none


class Climbed(NamedTuple):
    """Where an ascent ended: the point, the value, whether it is a maximum, steps taken."""

    x: np.ndarray
    value: float
    converged: bool
    steps: int
    trace: tuple[float, ...]


def lbfgs(
    objective: Objectives, x: np.ndarray, *, tol: float, most: int = 200, together: int = 1
) -> Climbed:
    """Maximise by L-BFGS with backtracking; points of value −∞ are stepped back from.

    The objective maps points (k, n) to values (k,) and gradients (k, n); so many trial steps are made
    `together`, of which the longest that is good enough is taken. `tol` bounds the gradient's largest
    entry, so that coordinates should have a natural scale.
    """
    (value,), (gradient,) = objective(x[None])
    trace, pairs = [value], list[tuple[np.ndarray, np.ndarray]]()
    for k in range(most):
        if np.abs(gradient).max() <= tol:
            return Climbed(x, value, True, k, tuple(trace))
        d = _direction(gradient, pairs)
        slope, t = float(gradient @ d), 1.0
        if slope <= 0:
            d, slope, pairs = gradient, float(gradient @ gradient), []
        if not pairs:
            t = min(1.0, 1.0 / float(np.linalg.norm(d)))
        for i in range(0, len(_SHORTER), together):
            tried = t * _SHORTER[i : i + together]
            values, gradients = objective(x + tried[:, None] * d)
            good = values >= value + _ENOUGH * tried * slope - 1e-12 * abs(value)
            if good.any():
                break
        else:
            return Climbed(x, value, False, k, tuple(trace))
        first = int(np.argmax(good))
        t, new, new_gradient = float(tried[first]), float(values[first]), gradients[first]
        s, y = t * d, gradient - new_gradient
        if s @ y > 1e-10 * np.linalg.norm(s) * np.linalg.norm(y):
            pairs = [*pairs[1 - _MEMORY :], (s, y)]
        x, value, gradient = x + s, new, new_gradient
        trace.append(value)
    return Climbed(x, value, bool(np.abs(gradient).max() <= tol), most, tuple(trace))


def alone(objective: Objective) -> Objectives:
    """An objective of one point for one point at a time."""

    def several(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = [objective(x) for x in X]
        return np.array([value for value, _ in found]), np.array([slope for _, slope in found])

    return several


def _direction(gradient: np.ndarray, pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The two loops: the inverse of the negative curvature seen so far, times the gradient."""
    d, coefficients = gradient.copy(), []
    for s, y in reversed(pairs):
        a = (s @ d) / (s @ y)
        coefficients.append(a)
        d = d - a * y
    if pairs:
        s, y = pairs[-1]
        d = d * (s @ y) / (y @ y)
    for (s, y), a in zip(pairs, reversed(coefficients), strict=True):
        d = d + s * (a - (y @ d) / (s @ y))
    return d


class Summit(NamedTuple):
    """Where Newton's method ended: a proper maximum has a positive definite precision."""

    x: np.ndarray
    log_density: float
    precision: np.ndarray
    proper: bool


def newton(kernel: Kernel, x: np.ndarray, *, most: int = 60, tol: float = 1e-5) -> Summit:
    """Maximise log p by Newton steps within a trust region, in coordinates scaled by the curvature.

    A step is (P + λI)⁻¹∇ with the least λ ≥ 0 that makes it an ascent shorter than the radius. The end
    is a step that promises less than tol² of log density.
    """
    value, gradient = _single(kernel, x)
    scale, radius = 0.1 * np.maximum(np.abs(x), 1.0), 1.0
    P = _precision(kernel, x, scale)
    for _ in range(most):
        scale = np.clip(1 / np.sqrt(np.maximum(np.abs(np.diag(P)), 1e-12)), 1e-9, 1e6)
        w, U = np.linalg.eigh(P * np.outer(scale, scale))
        g = U.T @ (gradient * scale)
        step, inside = _trusted(w, g, radius)
        gain = float(g @ step - 0.5 * (w * step**2).sum())
        if inside and abs(float(g @ step)) < tol**2:
            return Summit(x, value, P, _proper(P))
        length = float(np.linalg.norm(step))
        new = x + scale * (U @ step)
        new_value, new_gradient = _single(kernel, new)
        quality = (new_value - value) / gain if np.isfinite(new_value) and gain > 0 else -1.0
        rounding = abs(new_value - value) < 1e-9 * (1 + abs(value)) and gain < 1e-6
        if quality > 0.05 or rounding:
            x, value, gradient = new, new_value, new_gradient
            P = _precision(kernel, x, scale)
            if not np.isfinite(P).all():
                break
        if quality < 0.25 and not rounding:
            radius = 0.3 * min(length, radius)
        elif quality > 0.75:
            radius = max(radius, 2.5 * length)
        if radius < 1e-10:
            break
    return Summit(x, value, P, False)


def _proper(P: np.ndarray) -> bool:
    """Whether a precision is positive definite, in units of its own diagonal: the end of a neck is flat."""
    scale = np.sqrt(np.maximum(np.diag(P), 0.0))
    if not (scale > 0).all():
        return False
    return bool(np.linalg.eigvalsh(P / scale[:, None] / scale)[0] > _FLAT)


def _single(kernel: Kernel, x: np.ndarray) -> tuple[float, np.ndarray]:
    value, gradient = kernel(x[None])
    return float(value[0]), gradient[0]


def _precision(kernel: Kernel, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """−∇²log p at x."""
    return -kernel.hessians(x[None], np.diag(scale))[0] / np.outer(scale, scale)


def _trusted(w: np.ndarray, g: np.ndarray, radius: float) -> tuple[np.ndarray, bool]:
    """The step in eigenvector coordinates, and whether it is Newton's own."""
    if w[0] > _FLAT and np.linalg.norm(g / w) <= radius:
        return g / w, True
    low = max(0.0, -w[0] + _FLAT)
    high = low + np.linalg.norm(g) / radius + _FLAT
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.linalg.norm(g / (w + middle)) > radius:
            low = middle
        else:
            high = middle
    return g / (w + high), False
