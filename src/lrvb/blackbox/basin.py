"""Whether all climbers lead to one summit: then there is nothing more to search for."""

from __future__ import annotations

import numpy as np

from .kernel import Kernel

STEPS = 100  # after which a climber that has not arrived counts as one that does not
ARRIVED = 0.1  # squared distance from the summit a dimension, in its own sds
STILL = 1e-6  # the squared gradient, in the same units, of a climber that will not arrive
_MEMORY = 6
_ENOUGH = 1e-4  # of the expected gain that a step must bring


def all_lead_to(kernel: Kernel, summit: np.ndarray, root: np.ndarray, starts: np.ndarray) -> bool:
    """Whether log p rises from every start (n, D) to the summit (D,), in steps scaled by its root (D, D).

    L-BFGS from all starts together, each with a step and a memory of its own. A start without a density
    proves nothing and is left out; one that comes to rest elsewhere, or takes too long, is a "no".
    """
    u = np.linalg.solve(root, (starts - summit).T).T
    value, g = _at(kernel, summit, root, u)
    u, value, g = u[np.isfinite(value)], value[np.isfinite(value)], g[np.isfinite(value)]
    S, Y = np.zeros((2, _MEMORY, *u.shape))
    rho, t = np.zeros((_MEMORY, len(u))), np.ones(len(u))
    d = g * _short(g, u)
    for _ in range(STEPS):
        away = (u**2).sum(axis=1) > ARRIVED * u.shape[1]
        if not away.any():
            return True
        if ((g[away] ** 2).sum(axis=1) < STILL).any():
            return False
        step = t[:, None] * d
        new = u + step * _short(step, u)
        new_value, new_g = _at(kernel, summit, root, new)
        s, y = new - u, g - new_g
        took = away & (new_value >= value + _ENOUGH * (g * s).sum(axis=1))
        sy = (s * y).sum(axis=1)
        good = took & (sy > 1e-10 * np.sqrt((s**2).sum(axis=1) * (y**2).sum(axis=1)))
        S, Y = _remembered(S, s, good), _remembered(Y, y, good)
        rho = _remembered(rho, 1 / np.where(good, sy, 1.0), good)
        u = np.where(took[:, None], new, u)
        value, g = np.where(took, new_value, value), np.where(took[:, None], new_g, g)
        # Where log p is convex there is no curvature to learn, and steps grow.
        t = np.where(good, 1.0, np.where(took, 2.0, 0.3) * t)
        turned = _direction(g, S, Y, rho)
        turned = np.where(((turned * g).sum(axis=1) > 0)[:, None], turned, g)
        d = np.where(took[:, None], turned * _short(turned, u), d)
    return False


def _remembered(known: np.ndarray, new: np.ndarray, where: np.ndarray) -> np.ndarray:
    """The memory (k, n, …) with the newest last, of those climbers that have something new."""
    later = np.concatenate([known[1:], new[None]])
    return np.where(where.reshape(1, -1, *[1] * (known.ndim - 2)), later, known)


def _at(
    kernel: Kernel, summit: np.ndarray, root: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    value, gradient = kernel(summit + u @ root.T)
    return value, gradient @ root


def _short(d: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Factors that keep steps d (n, D) below one sd, or half the way to the summit where that is more."""
    longest = np.maximum(1.0, 0.5 * np.linalg.norm(u, axis=1))
    return np.minimum(1.0, longest / np.maximum(np.linalg.norm(d, axis=1), 1e-300))[:, None]


def _direction(g: np.ndarray, S: np.ndarray, Y: np.ndarray, rho: np.ndarray) -> np.ndarray:
    """The two loops of L-BFGS for all climbers; the curvature at the summit, I, is what they start from."""
    d, coefficients = g, []
    for k in reversed(range(len(S))):
        a = rho[k] * (S[k] * d).sum(axis=1)
        coefficients.append(a)
        d = d - a[:, None] * Y[k]
    scale = np.ones(len(g))
    for k in range(len(S)):
        square = (Y[k] ** 2).sum(axis=1)
        scale = np.where(rho[k] > 0, 1 / np.maximum(rho[k] * square, 1e-300), scale)
    d = d * scale[:, None]
    for k, a in zip(range(len(S)), reversed(coefficients), strict=True):
        d = d + S[k] * (a - rho[k] * (Y[k] * d).sum(axis=1))[:, None]
    return d
