"""β given the hyperparameters u: its conditional mode, and log ∫ p(y, β, u) dβ by Laplace's method."""

from __future__ import annotations

import numpy as np

from .chain import Chain
from .inside import Summed
from .mode import Mode, NoMode

Derived = tuple[float, np.ndarray, np.ndarray]

_CLOSE = 1e-4
_MOST = 50
_SMALL = 1e-2  # a gain that what sums over few nodes are off by may hide
_FLAT = 1e-6
_LEAST = 1e-6  # of a step, of which less leads nowhere


@np.errstate(divide="ignore", over="ignore", invalid="ignore")  # steps too far are halved
def conditional_mode(
    inside: Summed, u: np.ndarray, beta: np.ndarray, close: float = _CLOSE
) -> Mode:
    """β's mode given u, from a start, with the Hessian there: Newton's method, halved where it falls.

    close is the squared length in sds of the step that is the last. `NoMode` where there are no derivatives.
    """
    p = inside.p
    derivatives = inside.of_beta if isinstance(inside, Chain) else inside.derivatives
    found = derivatives(np.r_[beta, u])
    for _ in range(_MOST):
        value, gradient, H = _required(found, beta)
        step = np.linalg.solve(curved(-H[:p, :p]), gradient[:p])
        gain = float(gradient[:p] @ step)
        if gain < close:
            break
        fraction, found = 1.0, derivatives(np.r_[beta + step, u])
        while fraction > _LEAST:
            small = gain < _SMALL or fraction < 1e-3
            if (found[0] > value or small) and _is_finite(found):
                break
            fraction /= 2
            found = derivatives(np.r_[beta + fraction * step, u])
        beta = beta + fraction * step
    else:
        value, _, H = _required(found, beta)
    return Mode(beta + step, value + gain / 2, -curved(-H[:p, :p]))


def _is_finite(found: Derived) -> bool:
    return all(bool(np.isfinite(part).all()) for part in found)


def _required(found: Derived, beta: np.ndarray) -> Derived:
    """Value, gradient and Hessian at β, which are numbers."""
    if not _is_finite(found):
        raise NoMode("The log density of the fixed effects has no derivatives.", point=beta)
    return found


def curved(H: np.ndarray) -> np.ndarray:
    """H (p, p) with curvatures of at least a millionth of the largest, where sums leave rounding only."""
    if not len(H):
        return H
    values, U = np.linalg.eigh((H + H.T) / 2)
    if values[0] > _FLAT * values[-1]:
        return H
    return (U * np.maximum(np.abs(values), _FLAT * np.abs(values).max())) @ U.T


class Marginal:
    """log ∫ p(y, β, u) dβ ≈ log p(y, b(u), u) + ½ log |2π(−H)⁻¹|, for finding u's mode.

    The last conditional mode is where the next search starts.
    """

    def __init__(self, inside: Summed, beta: np.ndarray):
        self.inside, self.beta = inside, beta

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """At n points (n, k), (n,)."""
        values = np.empty(len(u))
        for i, point in enumerate(u):
            mode = conditional_mode(self.inside, point, self.beta)
            self.beta = mode.x
            logdet = np.linalg.slogdet(-mode.hessian)[1]
            values[i] = mode.value - logdet / 2 + len(mode.x) * np.log(2 * np.pi) / 2
        return values
