"""The mode of a log density: Newton's method with bounded steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..errors import LrvbError
from .proposals import Target

Derivatives = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray]]


class NoMode(LrvbError):
    """A log density whose maximum was not found."""


_HALVINGS = 12
_NEAR = 0.1  # sds from the mode within which steps are taken as they are
_CLOSE = 0.5  # sds from the mode from which importance sampling finds the rest of the way
_STEEP = 0.05  # least curvature by which an sd is judged
_FLAT = 1e-2  # least curvature a step assumes, for a coordinate that hardly matters


class Mode(NamedTuple):
    """The maximum: point (d,), value, Hessian (d, d)."""

    x: np.ndarray
    value: float
    hessian: np.ndarray

    def axes(self, least: float = 0.05) -> np.ndarray:
        """Columns of one sd by the curvature, which is taken to be at least `least`, (d, d)."""
        curvature, U = np.linalg.eigh(-self.hessian)
        return U / np.sqrt(np.maximum(curvature, least))


def differenced(target: Target, step: float | np.ndarray = 1e-3) -> Derivatives:
    """Value, gradient and Hessian by central differences, all points in one call of the target.

    step may be one for each coordinate, (d,).
    """

    def derivatives(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        d = len(x)
        E = np.diag(np.broadcast_to(step, d))
        i, j = np.tril_indices(d, -1)
        both = E[i] + E[j]
        v = target(np.concatenate([x[None], x + E, x - E, x + both, x - both]))
        up, down = v[1 : d + 1], v[d + 1 : 2 * d + 1]
        pairs = v[2 * d + 1 : 2 * d + 1 + len(i)] + v[2 * d + 1 + len(i) :]
        with np.errstate(invalid="ignore"):  # next to −∞ there are none, which `climb` says
            H = np.diag(up + down - 2 * v[0])
            H[i, j] = H[j, i] = (pairs - up[i] - down[i] - up[j] - down[j] + 2 * v[0]) / 2
            slope = (up - down) / (2 * step)
        return float(v[0]), slope, H / np.outer(np.diag(E), np.diag(E))

    return derivatives


def steadied(target: Target, mode: Mode, derivatives: Derivatives | None = None) -> Mode:
    """The mode in round numbers, with curvature measured over an eighth of an sd, or by `derivatives`.

    Rounding errors of the target, which depend on the order of its sums, then change nothing that is
    made from it: neither the point, on a grid of 1/64 sd, nor the Hessian, on one of 2⁻¹⁴.
    """
    x, sd = _rounded(mode)
    if derivatives is None:
        value, _, H = differenced(lambda z: target(x + sd * z), 0.125)(np.zeros(len(x)))
    else:
        value, _, H = derivatives(x)
        H = sd[:, None] * H * sd
    if not np.isfinite(H).all():
        return mode
    H = np.rint(2**14 * H) / 2**14
    return Mode(x, value, H / (sd[:, None] * sd))


def rounded(mode: Mode) -> np.ndarray:
    """The point in round numbers, where it is not asked for its curvature. See: steadied."""
    return _rounded(mode)[0]


def _rounded(mode: Mode) -> tuple[np.ndarray, np.ndarray]:
    """The point on a grid of 1/64 sd, and the sds, which are powers of two."""
    curvature = np.maximum(-np.diag(mode.hessian), _STEEP)
    sd = np.exp2(np.rint(-np.log2(curvature) / 2))
    return sd * np.rint(64 * mode.x / sd) / 64, sd


def climb(
    target: Target,
    start: np.ndarray,
    derivatives: Derivatives | None = None,
    longest: np.ndarray | float = 1.0,
    tolerance: float = 1e-3,
    iterations: int = 100,
) -> Mode:
    """Newton's method from `start` until a step is `tolerance` sds; saddles are climbed by |curvature|.

    longest (d,) bounds each coordinate's change in one step (∞ for none). Halvings are tried
    together, in one call of the target. Without `derivatives` they are differences over a twentieth of
    an sd, by the curvature of the step before.
    """
    steps, known = np.full(len(start), 1e-3), derivatives
    x = np.array(start, dtype=np.float64)
    fractions, last = 0.5 ** np.arange(_HALVINGS), np.inf
    for _ in range(iterations):
        value, gradient, H = (known or differenced(target, steps))(x)
        if not (np.isfinite(gradient).all() and np.isfinite(H).all()):
            raise NoMode(
                "The log density has no derivatives at a point on the way to its maximum: it is not "
                "finite there or nearby.",
                point=x,
            )
        steps = np.clip(0.05 / np.sqrt(np.maximum(np.abs(np.diag(H)), _STEEP)), 1e-6, 0.05)
        curvature, U = np.linalg.eigh(-H)
        step = U @ ((U.T @ gradient) / np.maximum(np.abs(curvature), _FLAT))
        gain = float(gradient @ step)
        if gain < tolerance**2 or last <= gain < _NEAR**2:
            return Mode(x, value, H)  # the second where rounding, or few nodes, allow no better
        last = gain
        step *= min(1.0, float(np.min(longest / np.maximum(np.abs(step), 1e-300))))
        if gain < _NEAR**2:
            # what sums over few nodes are off by may hide so small a gain, but not the gradient's zero
            x = x + step
            continue
        found = target((x + step)[None])[0]
        if not found > value:
            points = x + fractions[1:, None] * step
            values = target(points)
            best = int(np.nanargmax(values))
            if not values[best] > value and gain < _CLOSE**2:
                return Mode(x, value, H)  # what few nodes are off by hides the rest of the way
            if not values[best] > value:
                raise NoMode(
                    "No step uphill was found from a point that is not a maximum of the log density "
                    f"(gain expected {gradient @ step:.2g}).",
                    point=x,
                )
            x = points[best]
        else:
            x = x + step
    raise NoMode(
        f"The mode of the hyperparameters was not found in {iterations} Newton steps; the last would "
        f"have gained {gradient @ step:.2g}. A stated prior of the sds usually helps.",
        point=x,
    )
