"""What rows say about their linear predictor η ~ N(η̄, v): ℓ(η̄, v; s) and its derivatives.

ℓ is the expected log likelihood of a row, with s = E τ of a precision that belongs to the rows (the
residual's, or an observation-level effect's). The terms in E log τ are counted by their owner.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from ...likelihoods import Likelihood
from ...likelihoods.base import WeightedRows
from ...likelihoods.given import NOTHING, Given

_NONE = np.zeros(0)


class RowTerms(NamedTuple):
    """Σ_n ℓ, and of every row its derivatives in η̄ (e), v and, for rows that have it, s.

    `noise` is the variance of a row's own effect given its η, where it has one; `start` what a call at
    a point nearby may begin from.
    """

    value: float
    e: np.ndarray
    v: np.ndarray
    ee: np.ndarray
    ev: np.ndarray
    vv: np.ndarray
    s: np.ndarray = _NONE
    es: np.ndarray = _NONE
    vs: np.ndarray = _NONE
    ss: np.ndarray = _NONE
    noise: np.ndarray = _NONE
    start: Any = None


class RowLikelihood(Protocol):
    """A likelihood of all rows."""

    #: whether −∂²ℓ/∂η̄² equals −2∂ℓ/∂v, as it does when ℓ is the mean of log p over a normal η
    gaussian_mean: bool
    #: whether ∂ℓ/∂v depends on η̄ or v
    coupled: bool
    #: whether ℓ has a precision s of its own
    scaled: bool

    def at(self, eta: np.ndarray, v: np.ndarray, s: float, start: Any = None) -> RowTerms:
        """All derivatives at η̄, v and s; `start` is that of terms nearby."""

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """A guess of every row's η and of its weight."""


class Averaged:
    """Rows of a likelihood without an effect of their own: ℓ = E log p(y | η), times any weights (N,)."""

    gaussian_mean, coupled, scaled = True, True, False

    def __init__(
        self,
        likelihood: Likelihood,
        y: np.ndarray,
        given: Given = NOTHING,
        weights: np.ndarray | None = None,
    ):
        self.inner = (
            likelihood.rows(y, given)
            if weights is None
            else WeightedRows(likelihood, y, given, weights)
        )

    def at(self, eta: np.ndarray, v: np.ndarray, s: float = 1.0, start: Any = None) -> RowTerms:
        """What the likelihood says of them."""
        return RowTerms(*self.inner.at(eta, v))

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """What the likelihood guesses."""
        return self.inner.start()


class Joint:
    r"""Rows with an effect e_n ~ N(0, 1/s) of their own, in the same Gaussian factor as the rest.

    With ζ = c_nᵀw ~ N(ζ̄, v), e | ζ is normal with mean a − f(ζ − ζ̄) and variance E, so that η = ζ + e
    has mean ζ̄ + a and variance t = (1 − f)²v + E. The best a, f, E of a row solve ℓ_η = sa,
    f = W/(W + s), E = 1/(W + s) with W = −2ℓ_v at (ζ̄ + a, t), and what is left is a row term in ζ̄
    and v, whose derivatives follow by the implicit function theorem.
    """

    gaussian_mean, coupled, scaled = False, True, True

    def __init__(self, inner: RowLikelihood):
        self.inner = inner

    def solve(
        self,
        zeta: np.ndarray,
        v: np.ndarray,
        s: float,
        start: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, RowTerms]:
        """a, t and the inner terms at (ζ̄ + a, t), by Newton's method on every row at once.

        `start` are an a and t nearby. All a are NaN where it finds no solution.
        """
        if start is None:
            guess, weight = self.inner.start()
            a = (guess - zeta) * weight / (weight + s)
            t = (s / (weight + s)) ** 2 * v + 1 / (weight + s)
        else:
            a, t = start
        for _ in range(100):
            terms = self.inner.at(zeta + a, t, 1.0)
            g1, g2, J = self._system(terms, a, t, v, s)
            det = J[0] * J[3] - J[1] * J[2]
            da = -(J[3] * g1 - J[1] * g2) / det
            dt = -(J[0] * g2 - J[2] * g1) / det
            da = np.clip(da, -2.0, 2.0)
            new_t = np.clip(t + dt, t / 4, 4 * t)
            moved = max(np.abs(da).max(), np.abs(new_t / t - 1).max())
            a, t = a + da, new_t
            if not np.isfinite(moved) or moved < 1e-13:
                break
        if not moved < 1e-8:
            a = np.full_like(a, np.nan)
        return a, t, self.inner.at(zeta + a, t, 1.0)

    @staticmethod
    def _system(terms: RowTerms, a: np.ndarray, t: np.ndarray, v: np.ndarray, s: float) -> tuple:
        """Residuals of ℓ_η = sa and log t = log φ(W), and their Jacobian in (a, t), row-major."""
        W = -2 * terms.v
        W_e, W_t = -2 * terms.ev, -2 * terms.vv
        total = W + s
        phi = (s / total) ** 2 * v + 1 / total
        slope = -2 * s**2 * v / total**3 - 1 / total**2
        J = (terms.ee - s, terms.ev, -slope * W_e / phi, 1 / t - slope * W_t / phi)
        return terms.e - s * a, np.log(t / phi), J

    def at(self, zeta: np.ndarray, v: np.ndarray, s: float, start: Any = None) -> RowTerms:
        """The row term with its own effect maximised out."""
        a, t, terms = self.solve(zeta, v, s, start)
        W = -2 * terms.v
        W_e, W_t = -2 * terms.ev, -2 * terms.vv
        total = W + s
        f, E, ratio = W / total, 1 / total, s / total
        # The system's own derivatives in (ζ̄, v, s), and by them those of a, t and W.
        _, _, J = self._system(terms, a, t, v, s)
        slope = -2 * s**2 * v / total**3 - 1 / total**2
        sides = {
            "e": (terms.ee, -slope * W_e / t),
            "v": (np.zeros_like(v), -(ratio**2) / t),
            "s": (-a, -(2 * s * W * v / total**3 - 1 / total**2) / t),
        }
        det = J[0] * J[3] - J[1] * J[2]
        da, dW = {}, {}
        for name, (g1, g2) in sides.items():
            da[name] = -(J[3] * g1 - J[1] * g2) / det
            dt = -(J[0] * g2 - J[2] * g1) / det
            dW[name] = W_e * (da[name] + (name == "e")) + W_t * dt
        dW_s = dW["s"]
        df, dE = (s * dW_s - W) / total**2, -(dW_s + 1) / total**2
        square = a**2 + f**2 * v + E
        value = terms.value + float(np.sum(0.5 * np.log(E) + 0.5 - 0.5 * s * square))
        return RowTerms(
            value=value,
            e=s * a,
            v=-0.5 * s * f,
            s=-0.5 * square,
            ee=s * da["e"],
            ev=s * da["v"],
            vv=-0.5 * ratio**2 * dW["v"],
            es=s * da["s"] + a,
            vs=-0.5 * (ratio**2 * dW_s + f**2),
            ss=-0.5 * (2 * a * da["s"] + 2 * f * v * df + dE),
            noise=E,
            start=(a, t) if np.isfinite(value) else None,
        )

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """That of the rows without the effect, with half the weight at most."""
        guess, weight = self.inner.start()
        return guess, weight / (1 + weight)
