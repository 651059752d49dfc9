r"""A zero or one whose log odds scatter: ℓ(η, σ) = log ∫ e^{η + σu}/(1 + e^{η + σu}) N(u; 0, 1) du.

With κ² = 1 + c²σ², c = 16√3/15π, ℓ is nearly a function of x = η/κ alone, between log odds at σ = 0 and
log Φ(cx) at σ = ∞. At knots of x, ℓ and its derivatives are Chebyshev series of τ = 1 − 1/κ², which lies
between 0 and 1; between knots they are Taylor's series.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy.special import log_expit

_C = 16 * np.sqrt(3) / (15 * np.pi)
_FAR = 8.0  # of x, up to which a series of τ converges fast; beyond, the integral itself
_KNOT = 1 / 32  # spacing of x: what Taylor's series of degree three leaves is below 1e-9
_DEGREE = 32  # of τ: what is left out is below 1e-7
_ENDS = 10.0  # of u
_CELLS = 2**17


def shrinkage(sd: np.ndarray) -> np.ndarray:
    """κ of scatter with this sd."""
    return np.sqrt(1 + (_C * sd) ** 2)


class LogisticNormal:
    """ℓ and its derivatives in η at sds σ (n,), or one: η is (n, …), a part for each of several."""

    def __init__(self, sd: np.ndarray | float):
        self.sd = np.atleast_1d(np.asarray(sd, dtype=np.float64))
        self.kappa = shrinkage(self.sd)
        angle = np.arccos(np.clip(1 - 2 / self.kappa**2, -1.0, 1.0))
        #: of x, each times a power of the spacing, over its factorial, (4, n · knots)
        series = np.cos(angle[:, None] * np.arange(_DEGREE)) @ _series()
        self.knots = series.shape[2]
        self.taylor = series.reshape(4, -1)

    def log_p(self, eta: np.ndarray) -> np.ndarray:
        """ℓ at η of any shape."""
        at, d, beyond = self._places(eta)
        found = self.taylor[3].take(at)
        for part in self.taylor[2::-1]:
            found *= d
            found += part.take(at)
        self._beyond([found], eta, beyond)
        return found.reshape(eta.shape)

    def slopes(self, eta: np.ndarray, order: int = 2) -> list[np.ndarray]:
        """ℓ, ℓ′, … up to ℓ‴ at η."""
        at, d, beyond = self._places(eta)
        t0, t1, t2, t3 = (part.take(at) for part in self.taylor)
        found = [t0 + d * (t1 + d * (t2 + d * t3)), t1 + d * (2 * t2 + 3 * d * t3)]
        found += [2 * t2 + 6 * d * t3, 6 * t3]
        for k in range(1, order + 1):
            found[k] *= ((_KNOT * self.kappa) ** -k)[:, None]
        self._beyond(found, eta, beyond)
        return [part.reshape(eta.shape) for part in found[: order + 1]]

    def _places(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The nearest knot to each η (n, m), how far it is from there in knots, and where there is none."""
        u = eta.reshape(len(self.sd), -1) * (1 / (_KNOT * self.kappa))[:, None]
        u += _FAR / _KNOT
        nearest = np.rint(u)
        u -= nearest
        last = self.knots - 1
        beyond = None
        if nearest.min(initial=0.0) < 0 or nearest.max(initial=0.0) > last:
            beyond = (nearest < 0) | (nearest > last)
            np.clip(nearest, 0, last, out=nearest)
        nearest += (self.knots * np.arange(len(u)))[:, None]
        return nearest.astype(np.intp), u, beyond

    def _beyond(
        self, found: Sequence[np.ndarray], eta: np.ndarray, beyond: np.ndarray | None
    ) -> None:
        """The integral itself, and its derivatives, where there is no knot."""
        if beyond is None:
            return
        eta = eta.reshape(beyond.shape)
        for i in np.flatnonzero(beyond.any(1)):
            there = beyond[i]
            exact = _integrals(eta[i, there], float(self.sd[i]))
            for part, value in zip(found, exact, strict=False):
                part[i, there] = value


def _integrals(eta: np.ndarray, sd: float) -> list[np.ndarray]:
    """ℓ to ℓ‴ at η (m,), by trapezoid sums over u."""
    far = float(np.abs(eta).max(initial=0.0)) / max(sd, 1e-300)
    step = min(0.5, 1 / max(sd, 1e-300))
    u = np.arange(-_ENDS, _ENDS + min(sd, far) + step, step)
    few, result = max(1, _CELLS // len(u)), np.empty((4, len(eta)))
    for start in range(0, len(eta), few):
        t = eta[start : start + few, None] + sd * u
        f = log_expit(t)
        q = -np.expm1(f)
        f -= u**2 / 2
        top = f.max(1, keepdims=True)
        P = np.exp(f - top, out=f)
        total = P.sum(1)
        # means of p′/p, p″/p and p‴/p of the odds' own p
        m1, m2, m3 = (
            np.einsum("nu,nu->n", P, r) / total
            for r in (q, q * (2 * q - 1), q * (1 - 6 * q * (1 - q)))
        )
        value = top[:, 0] + np.log(total * (step / np.sqrt(2 * np.pi)))
        result[:, start : start + few] = value, m1, m2 - m1**2, m3 - 3 * m1 * m2 + 2 * m1**3
    return list(result)


@cache
def _series() -> np.ndarray:
    """Chebyshev coefficients in τ of Taylor's at all knots, (4, degree, knots)."""
    angles = (np.arange(_DEGREE) + 0.5) / _DEGREE * np.pi
    below = np.arange(-_FAR, _KNOT / 2, _KNOT)
    values = []
    for tau in (1 + np.cos(angles)) / 2:
        kappa = 1 / np.sqrt(1 - tau)
        low = np.array(_integrals(below * kappa, float(np.sqrt(kappa**2 - 1) / _C)))
        found = np.concatenate([low, _mirrored(low)[:, -2::-1]], axis=1)
        values.append(found * ((_KNOT * kappa) ** np.arange(4) / [1.0, 1.0, 2.0, 6.0])[:, None])
    transform = np.cos(np.outer(np.arange(_DEGREE), angles)) * (2 / _DEGREE)
    transform[0] /= 2
    return np.ascontiguousarray(np.tensordot(transform, np.array(values), axes=1).swapaxes(0, 1))


def _mirrored(low: np.ndarray) -> np.ndarray:
    """ℓ to ℓ‴ at −η from those at η (4, m): the probabilities of a one and of a zero add up to one."""
    value, first, second, third = low
    p = np.exp(value)
    m1, m2 = first, second + first**2
    m3 = third + 3 * first * m2 - 2 * first**3
    odds = p / (1 - p)
    m1, m2, m3 = odds * m1, -odds * m2, odds * m3
    return np.array([np.log1p(-p), m1, m2 - m1**2, m3 - 3 * m1 * m2 + 2 * m1**3])
