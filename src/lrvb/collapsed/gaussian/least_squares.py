"""A Gaussian response: the rows enter through CᵀC, Cᵀy and yᵀy alone, and nothing is iterated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .arrow import (
    Arrow,
    Blocks,
    NotPositive,
    Prior,
    Separate,
    invert,
    invert_separately,
    posterior_precision,
)
from .best_gaussian import NoOptimum, Tangent
from .incidence import Vector
from .layout import Cross, Layout

LOG_2PI = float(np.log(2 * np.pi))


class Solution(NamedTuple):
    """The factor given the precisions; `away` is Cᵀ(y − Cμ), `square` E|y − Cw|².

    `value` is Σ_n E log p(y_n | w, τ) without the terms in E log τ.
    """

    mu: Vector
    Sigma: Arrow | Separate
    M: Arrow
    away: Vector
    square: float
    value: float

    @property
    def scale(self) -> float:
        """∂/∂s of the value."""
        return -0.5 * self.square


class LeastSquares:
    """y_n ~ N(c_nᵀw, 1/τ) with s = E τ: Q = s CᵀC + P, each row as often as it counts."""

    def __init__(self, layout: Layout, y: np.ndarray, masks: tuple[np.ndarray, np.ndarray] | None):
        self.layout, self.y, self.masks = layout, y, masks
        w = layout.weights
        self.K = layout.cross(w)
        self.Cy, self.yy = layout.adjoint(w * y), float(w @ y**2)

    def solve(
        self, prior: Prior, pull: Vector, s: float, start: Any = None, tol: float | None = None
    ) -> Solution:
        """Means and covariances in closed form, from no start."""
        Q = posterior_precision(self.K.scaled(s), prior)
        try:
            M = invert(Q)
            Sigma = M if self.masks is None else invert_separately(Q, self.masks)
        except NotPositive as error:
            raise NoOptimum from error
        mu = M.solve(self.Cy.times(s) + pull)
        away = self.Cy - times(self.K, mu)
        rss = self.yy - mu.dot(self.Cy) - mu.dot(away)
        if rss < 1e-4 * self.yy:  # the difference has lost digits
            rss = float(self.layout.weights @ (self.y - self.layout.forward(mu)) ** 2)
        square = rss + trace(self.K, Sigma.blocks)
        value = -0.5 * (self.layout.total * LOG_2PI + s * square)
        return Solution(mu, Sigma, M, away, square, value)

    def extrapolate(self, best: Solution, steps: Sequence[tuple[float, Tangent]]) -> Solution:
        """The same: nothing starts from it."""
        return best

    def combined(
        self, parts: Sequence[tuple[float, Solution]], steps: Sequence[tuple[float, Tangent]]
    ) -> Solution:
        """The first of them."""
        return parts[0][1]

    def tangent(
        self,
        best: Solution,
        b: Vector,
        change: Prior | None,
        ds: float,
        guess: np.ndarray | None = None,
    ) -> Tangent:
        """The response to a tilt b, to δP = `change`, and to δs, in closed form."""
        dmu = best.M.solve(b + best.away.times(ds))
        dQ = self.K.scaled(ds)
        dQ = dQ if change is None else posterior_precision(dQ, change)
        blocks = best.Sigma.tangent(dQ)
        scale = dmu.dot(best.away) - 0.5 * trace(self.K, blocks)
        return Tangent(dmu, blocks, scale)

    def conditional(self, best: Solution, prior: Prior) -> Blocks:
        """Σ̂_w|α: the inverse Hessian of the means, which are linear in the data."""
        return best.M.blocks


def times(K: Cross, w: Vector) -> Vector:
    """Kw."""
    cross = (K.B @ w.rest).reshape(w.z.shape)
    z = np.einsum("gij,gj->gi", K.D, w.z) + cross
    return Vector(z, K.B.T @ w.z.reshape(-1) + K.A @ w.rest)


def trace(K: Cross, Z: Blocks) -> float:
    """tr(KZ) from the blocks where K is not zero."""
    product = K.B.multiply(Z.Z1r) if hasattr(K.B, "multiply") else K.B * Z.Z1r
    return float(np.sum(K.D * Z.Z11) + 2 * product.sum() + np.sum(K.A * Z.Zrr))
