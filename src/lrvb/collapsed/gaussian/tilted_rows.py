"""Rows with an effect of their own that has its own factor: q(u_n) tilted by the row's likelihood.

u_n ~ N(η_n, 1/τ) and y_n | u_n by a likelihood; the best q(u_n) ∝ exp(sη̄u − su²/2 + log p(y | u)) leaves
the row term A(sη̄, −s/2) − ½s(η̄² + v), and A's first and second derivatives are moments of u and u².
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...families import Tilted
from ...likelihoods import Likelihood
from ...likelihoods.given import NOTHING, Given, take
from ...numerics.double import in_double
from ...numerics.lazy import jax
from ...numerics.program import Program
from ...numerics.special import JAX
from .row_terms import RowTerms

_CHUNK = 2**13  # rows at a time: 64 quadrature nodes each


class TiltedRows:
    """y by a likelihood given u in the place of η, with u ~ N(η, 1/τ) and s = E τ."""

    gaussian_mean, coupled, scaled = False, False, True

    def __init__(self, likelihood: Likelihood, y: np.ndarray, given: Given = NOTHING):
        self.likelihood, self.y, self.given = likelihood, y, given

    @in_double
    def at(self, eta: np.ndarray, v: np.ndarray, s: float, start: Any = None) -> RowTerms:
        """The row term and its derivatives, from the moments of (u, u²)."""
        n = len(eta)
        length = min(_CHUNK, 1 << max(n - 1, 1).bit_length())
        parts = []
        program = _program(self.likelihood)
        for start in range(0, n, length):
            here = np.arange(start, start + length).clip(max=n - 1)  # the last row pads
            found = program(eta[here], np.float64(s), self.y[here], take(self.given, here))
            parts.append([np.asarray(part)[: n - start] for part in found])
        A, first, second, aa, ab, bb = (np.concatenate(p) for p in zip(*parts, strict=True))
        half = np.full(n, -0.5)
        zero = np.zeros(n)
        constant = 0.5 * n * np.log(2 * np.pi)
        return RowTerms(
            value=float(np.sum(A - 0.5 * s * (eta**2 + v))) - constant,
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
        """The likelihood's guess of u, with weight one at most."""
        guess, weight = self.likelihood.start(self.y, self.given)
        return guess, weight / (1 + weight)


@functools.cache
def _program(likelihood: Likelihood) -> Program:
    """(η̄, s, y, given) → A, E u, E u², and the covariance of (u, u²), of every row."""

    def one(eta: Any, s: Any, y: Any, given: Any) -> Any:
        q = Tilted(lambda u: likelihood.log_p(y, u, given, JAX))
        A, m, C, _ = q.evaluate(q.Stats(s * eta, -0.5 * s))
        V = C @ C.T
        return A, m.x, m.xx, V[0, 0], V[0, 1], V[1, 1]

    def rows(eta: Any, s: Any, y: Any, given: Any) -> Any:
        return jax.vmap(one, (0, None, 0, 0))(eta, s, y, given)

    return Program(rows)
