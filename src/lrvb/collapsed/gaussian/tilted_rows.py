"""Rows with an effect of their own that has its own factor: q(u_n) tilted by the row's likelihood.

u_n ~ N(η_n, 1/τ) and y_n | u_n by the family; the best q(u_n) ∝ exp(sη̄u − su²/2 + log p(y | u)) leaves
the row term A(sη̄, −s/2) − ½s(η̄² + v), and A's first and second derivatives are moments of u and u².
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from ...families import Tilted
from ...numerics.double import in_double
from ...numerics.program import Program
from .row_terms import RowTerms

_CHUNK = 2**13  # rows at a time: 64 quadrature nodes each


class TiltedRows:
    """y ~ Poisson(exp u) or Binomial(trials, σ(u)), with u ~ N(η, 1/τ) and s = E τ."""

    gaussian_mean, coupled, scaled = False, False, True

    def __init__(self, family: str, y: np.ndarray, trials: np.ndarray):
        self.family, self.y, self.trials = family, y, trials
        constant = -gammaln(y + 1)
        if family == "binomial":
            constant = constant + gammaln(trials + 1) - gammaln(trials - y + 1)
        self._constant = float(constant.sum()) - 0.5 * len(y) * np.log(2 * np.pi)

    @in_double
    def at(self, eta: np.ndarray, v: np.ndarray, s: float, start: Any = None) -> RowTerms:
        """The row term and its derivatives, from the moments of (u, u²)."""
        n = len(eta)
        length = min(_CHUNK, 1 << max(n - 1, 1).bit_length())
        parts = []
        for start in range(0, n, length):
            here = np.arange(start, start + length).clip(max=n - 1)  # the last row pads
            found = _program(self.family)(eta[here], np.float64(s), self.y[here], self.trials[here])
            parts.append([np.asarray(part)[: n - start] for part in found])
        A, first, second, aa, ab, bb = (np.concatenate(p) for p in zip(*parts, strict=True))
        half = np.full(n, -0.5)
        zero = np.zeros(n)
        return RowTerms(
            value=float(np.sum(A - 0.5 * s * (eta**2 + v))) + self._constant,
            e=s * (first - eta),
            v=s * half,
            ee=s**2 * aa - s,
            ev=zero,
            vv=zero,
            s=eta * first - 0.5 * second - 0.5 * (eta**2 + v),
            es=first - eta + s * (eta * aa - 0.5 * ab),
            vs=half,
            ss=eta**2 * aa - eta * ab + 0.25 * bb,
            noise=aa,
        )

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """A link-scale guess of u, with weight one at most."""
        if self.family == "poisson":
            return np.log(self.y + 0.5), (self.y + 0.5) / (self.y + 1.5)
        share = (self.y + 0.5) / (self.trials + 1)
        weight = (self.trials + 1) * share * (1 - share)
        return np.log(share / (1 - share)), weight / (1 + weight)


def _poisson(u: Any, row: Any) -> Any:
    return row[0] * u - jnp.exp(u)


def _binomial(u: Any, row: Any) -> Any:
    return row[0] * u - row[1] * jax.nn.softplus(u)


@functools.cache
def _program(family: str) -> Program:
    """(η̄, s, y, trials) → A, E u, E u², and the covariance of (u, u²), of every row."""
    likelihood = {"poisson": _poisson, "binomial": _binomial}[family]

    def one(eta: Any, s: Any, y: Any, trials: Any) -> Any:
        q = Tilted(lambda u: likelihood(u, (y, trials)))
        A, m, C, _ = q.evaluate(q.Stats(s * eta, -0.5 * s))
        V = C @ C.T
        return A, m.x, m.xx, V[0, 0], V[0, 1], V[1, 1]

    def rows(eta: Any, s: Any, y: Any, trials: Any) -> Any:
        return jax.vmap(one, (0, None, 0, 0))(eta, s, y, trials)

    return Program(rows)
