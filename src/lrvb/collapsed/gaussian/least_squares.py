"""A Gaussian response: the rows enter through CᵀC, Cᵀy and yᵀy alone, and nothing is iterated."""

from __future__ import annotations

from typing import NamedTuple

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
from .incidence import Vector
from .layout import Cross, Layout
from .optimum import NoOptimum
from .tangents import Tangent

LOG_2PI = float(np.log(2 * np.pi))


class Solution(NamedTuple):
    """The factor given the precisions; `away` is Cᵀ(y − Cμ), `square` E|y − Cw|²."""

    mu: Vector
    Sigma: Arrow | Separate
    M: Arrow
    away: Vector
    square: float


class LeastSquares:
    """y_n ~ N(c_nᵀw, 1/τ) with s = E τ: Q = s CᵀC + P."""

    def __init__(self, layout: Layout, y: np.ndarray, masks: tuple[np.ndarray, np.ndarray] | None):
        self.layout, self.y, self.masks = layout, y, masks
        self.K = layout.cross(np.ones(layout.n))
        self.Cy, self.yy = layout.adjoint(y), float(y @ y)

    def solve(self, prior: Prior, center: Vector, s: float) -> Solution:
        """Means and covariances in closed form."""
        Q = posterior_precision(self.K.scaled(s), prior)
        try:
            M = invert(Q)
            Sigma = M if self.masks is None else invert_separately(Q, self.masks)
        except NotPositive as error:
            raise NoOptimum from error
        mu = M.solve(self.Cy.times(s) + prior.times(center))
        away = self.Cy - times(self.K, mu)
        rss = self.yy - mu.dot(self.Cy) - mu.dot(away)
        if rss < 1e-4 * self.yy:  # the difference has lost digits
            rss = float(np.sum((self.y - self.layout.forward(mu)) ** 2))
        return Solution(mu, Sigma, M, away, rss + trace(self.K, Sigma.blocks))

    def value(self, solution: Solution, s: float) -> float:
        """Σ_n E log p(y_n | w, τ) without the terms in E log τ."""
        return -0.5 * (self.layout.n * LOG_2PI + s * solution.square)

    def tangent(self, solution: Solution, b: Vector, change: Prior | None, ds: float) -> Tangent:
        """The response to a tilt b, to δP = `change`, and to δs."""
        dmu = solution.M.solve(b + solution.away.times(ds))
        dQ = self.K.scaled(ds)
        dQ = dQ if change is None else posterior_precision(dQ, change)
        blocks = solution.Sigma.tangent(dQ)
        scale = dmu.dot(solution.away) - 0.5 * trace(self.K, blocks)
        return Tangent(dmu, blocks, scale)


def times(K: Cross, w: Vector) -> Vector:
    """Kw."""
    cross = (K.B @ w.rest).reshape(w.z.shape)
    z = np.einsum("gij,gj->gi", K.D, w.z) + cross
    return Vector(z, K.B.T @ w.z.reshape(-1) + K.A @ w.rest)


def trace(K: Cross, Z: Blocks) -> float:
    """tr(KZ) from the blocks where K is not zero."""
    product = K.B.multiply(Z.Z1r) if hasattr(K.B, "multiply") else K.B * Z.Z1r
    return float(np.sum(K.D * Z.Z11) + 2 * product.sum() + np.sum(K.A * Z.Zrr))
