r"""The evidence at one u by joint draws of the coefficients, where a Gaussian block has few.

One factor's levels are independent given all others: each is summed by nodes around its mean under q. Of the
others c, draws c_s ~ q have the weights w_s = p(y, c_s | u)/q(c_s), whose mean is p(y | u). Draws come in
pairs ±e, the same standardised ones at every u, so that what differs between points is known best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import block_diag, solve_triangular

from .fitting import Fitted
from .layout import PARTS, Layout
from .level_sums import level_nodes
from .rows import RowsHere

DRAWS = 256
MOST = 600  # coefficients that are drawn
WORK = 3e6  # evaluations of a row's density that a point may cost


class Weighed(NamedTuple):
    """log p(y, u) by weighted draws, what each part of them alone would add to it (P,), and ess / draws."""

    value: float
    noise: np.ndarray
    efficiency: float


class Joint:
    """Draws for a layout; factor f's levels are summed."""

    def __init__(self, layout: Layout, f: int, seed: int = 0):
        self.layout, self.f = layout, f
        self.drawn = [g for g in range(len(layout.factors)) if g != f]
        r = layout.p + sum(layout.sizes[g] for g in self.drawn)
        half = np.random.default_rng(seed).standard_normal((DRAWS // 2, r))
        self.e = np.concatenate([half, -half])
        self.C = np.concatenate([layout.rows.X, *(_columns(layout, g) for g in self.drawn)], axis=1)
        codes = layout.factors[f].codes
        shape = (layout.factors[f].levels, layout.N)
        self.levels = sp.csr_array((np.ones(layout.N), (codes, np.arange(layout.N))), shape)

    def __call__(self, fitted: Fitted) -> Weighed:
        """At a fit of the block."""
        log_w = self.log_weights(fitted)
        top = log_w.max()
        w = np.exp(log_w - top)
        pairs = w.reshape(2, -1).mean(0)
        part = np.bincount(np.arange(len(pairs)) % PARTS, pairs, PARTS) * PARTS / len(pairs)
        value = float(np.log(w.mean()) + top)
        return Weighed(value, part / w.mean() - 1, float(w.sum() ** 2 / (w**2).sum() / len(w)))

    def log_weights(self, fitted: Fitted) -> np.ndarray:
        """log p(y, c_s, u) − log q(c_s) of every draw, (S,)."""
        layout, rows, u = self.layout, self.layout.rows, fitted.u
        assert isinstance(fitted.rows, RowsHere)  # of so many as are elsewhere there are no draws
        precisions, w = layout.precisions(u), fitted.rows.w
        prior = block_diag(
            rows.P, *(np.kron(np.eye(layout.factors[g].levels), precisions[g]) for g in self.drawn)
        )
        R, Lambda = layout.factors[self.f].R, precisions[self.f]
        q = R.shape[1]
        own = self.levels @ (w[:, None, None] * R[:, :, None] * R[:, None, :]).reshape(-1, q * q)
        own = own.reshape(-1, q, q) + Lambda
        inverse = np.linalg.inv(own)
        across = np.stack([self.levels @ ((w * r)[:, None] * self.C) for r in R.T], axis=1)
        follows = -inverse @ across  # of the summed levels' means with the drawn, (K, q, r)
        flat = across.reshape(-1, across.shape[2])
        S = self.C.T @ (w[:, None] * self.C) + prior + flat.T @ follows.reshape(flat.shape)
        L = np.linalg.cholesky((S + S.T) / 2)
        away = solve_triangular(L, self.e.T, lower=True, trans="T").T
        mean = np.concatenate([fitted.beta, *(fitted.z[g].ravel() for g in self.drawn)])
        c = mean + away
        value = (
            (self.e**2).sum(1) / 2 - np.log(np.diag(L)).sum() + len(mean) * np.log(2 * np.pi) / 2
        )
        less = c - np.concatenate([rows.mean, np.zeros(len(mean) - layout.p)])
        value = value - np.einsum("si,ij,sj->s", less, prior, less) / 2
        for g in self.drawn:
            K, size = layout.factors[g].levels, layout.factors[g].q
            value += K * (np.linalg.slogdet(precisions[g])[1] - size * np.log(2 * np.pi)) / 2
        value += rows.constant + layout.constant + float(layout.log_prior(u[None])[0])
        middle = fitted.z[self.f] + np.einsum("kiq,sq->ski", follows, away)
        return value + self._summed(fitted, c @ self.C.T + rows.offset, middle, inverse, Lambda)

    def _summed(
        self,
        fitted: Fitted,
        eta: np.ndarray,
        middle: np.ndarray,
        covariance: np.ndarray,
        Lambda: np.ndarray,
    ) -> np.ndarray:
        """Σ_k log ∫ p(y_k | η, z) N(z; 0, Λ⁻¹) dz of every draw, by nodes around `middle` (S, K, q)."""
        rows, factor = self.layout.rows, self.layout.factors[self.f]
        root = np.linalg.cholesky(covariance)
        T, log_w = level_nodes(factor.q)
        sizes = (
            np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1) + np.linalg.slogdet(Lambda)[1] / 2
        )
        table = np.empty((len(T), *middle.shape[:2]))
        for j, t in enumerate(T):
            z = middle + root @ t
            lines = eta + np.einsum("ni,sni->sn", factor.R, z[:, factor.codes])
            log_p = rows.likelihood.log_p(rows.columns, lines, fitted.phi)
            table[j] = (self.levels @ log_p.T).T - np.einsum("ski,ij,skj->sk", z, Lambda, z) / 2
            table[j] += log_w[j] + t @ t / 2
        top = table.max(0)
        return (np.log(np.exp(table - top).sum(0)) + top + sizes).sum(1)


def joint(layout: Layout) -> Joint | None:
    """Draws where they are cheap: of all but the largest factor whose sums are."""
    total = layout.p + sum(layout.sizes)
    can = [
        f
        for f, factor in enumerate(layout.factors)
        if factor.q <= 2
        and total - layout.sizes[f] <= MOST
        and DRAWS * layout.N * len(level_nodes(factor.q)[0]) <= WORK
    ]
    return Joint(layout, max(can, key=lambda f: layout.sizes[f])) if can else None


def _columns(layout: Layout, g: int) -> np.ndarray:
    """A factor's columns of all coefficients, (N, Kq)."""
    factor = layout.factors[g]
    found = np.zeros((layout.N, factor.levels, factor.q))
    found[np.arange(layout.N), factor.codes] = factor.R
    return found.reshape(layout.N, -1)
