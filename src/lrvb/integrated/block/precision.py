r"""Q = CᵀWC + P of all coefficients from sums by rows' weights W: solutions, log |Q|, and variances of rows.

Rows scaled by √W are those of gaussian rows with σ = 1, so levels are eliminated as there; β stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ..matrix_free.covariances import Covariances, covariances
from ..matrix_free.direct import Direct, is_small
from ..matrix_free.draws import draw, normals, signs
from ..matrix_free.schur import Schur
from ..matrix_free.sums import Sums
from .layout import PARTS, Layout
from .rows import Rows

LARGEST, PAIRS = 1500, 3e7  # coefficients, and products, up to which S is a dense matrix


class Precision:
    """From sums of weighted rows and Λ of each factor's levels; the rows are asked where draws need them."""

    def __init__(self, layout: Layout, sums: Sums, precisions: Sequence[np.ndarray], rows: Rows):
        self.layout, self.sums, self.rows = layout, sums, rows
        if layout.direct is None:  # which weights do not change
            layout.direct = is_small(self.sums, LARGEST, PAIRS)
        self.schur: Schur = (
            Direct(self.sums, precisions, LARGEST)
            if layout.direct
            else Schur(self.sums, precisions)
        )
        p = layout.p
        t = [by.reshape(-1, p + 1)[:, :p] for by in self.sums.t]
        self.t = np.concatenate(t)
        self.U = self._levels_only(self.t)
        self.S = self.sums.TT[:p, :p] - self.t.T @ self.U + layout.rows.P
        self.S = (self.S + self.S.T) / 2
        self.C = np.linalg.inv(self.S)

    @property
    def exact(self) -> bool:
        """Whether log |Q| and variances are."""
        return isinstance(self.schur, Direct) or self.sums.nested

    def solve(
        self, beta: np.ndarray, z: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Q⁻¹ of a right side (p,), (K, q) each, in the same parts."""
        flat = self._levels_only(np.concatenate([part.reshape(-1, 1) for part in z]))[:, 0]
        b = self.C @ (beta - self.t.T @ flat)
        return b, self.split(flat - self.U @ b)

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Levels one after another as each factor's (K, q, …)."""
        ends = np.cumsum(self.layout.sizes)[:-1]
        return [
            part.reshape(f.levels, f.q, *flat.shape[1:])
            for f, part in zip(self.layout.factors, np.split(flat, ends), strict=True)
        ]

    def _levels_only(self, b: np.ndarray) -> np.ndarray:
        """Q_zz⁻¹b, (Σ Kq, P)."""
        size = self.layout.sizes[0]
        return np.concatenate(self.schur.coefficients(b[:size], b[size:]))

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """`count` draws of all levels' coefficients given β, (M, count)."""
        return np.concatenate(draw(self.schur, self.rows.noise, count, rng, normals))

    def logdet(self) -> np.ndarray:
        """log |Q| by each of fixed probes, (PARTS,); all the same where it is exact."""
        own = float(np.linalg.slogdet(self.S)[1])
        if isinstance(self.schur, Direct):
            return np.full(PARTS, own + self.schur.logdet_first() + self.schur.logdet_rest())
        Z = signs(np.random.default_rng(0), (1 if self.sums.nested else PARTS, self.sums.r))
        probed = self.schur.probed(np.ascontiguousarray(Z.T))
        return np.full(PARTS, own + self.schur.logdet_blocks()) + probed.logdet

    @cached_property
    def covariances(self) -> Covariances:
        """Of levels given β."""
        return covariances(self.schur, self.rows.noise)

    @cached_property
    def variances(self) -> Variances:
        """What rows' variances hang on."""
        return Variances(self.covariances, self.split(self.U), self.C)

    def blocks(self) -> list[np.ndarray]:
        """Cov(z_k) of every level given β, (K, q, q) each."""
        return self.covariances.blocks()

    def through_beta(self, f: int) -> np.ndarray:
        """What β adds to a factor's levels' covariances, (K, q, q)."""
        U = self.split(self.U)[f]
        return np.einsum("kip,pq,kjq->kij", U, self.C, U, optimize=True)


class Variances:
    """Covariances of levels given β, U (K, q, p) of each factor that β takes off, and β's covariance C."""

    def __init__(self, covariances: Covariances, U: list[np.ndarray], C: np.ndarray):
        self.covariances, self.U, self.C = covariances, U, C

    def left(self, layout: Layout) -> np.ndarray:
        """X less what levels take of it, (N, p): the rows' derivatives in β."""
        X = layout.rows.X
        if not layout.p:
            return X
        taken = [layout.through_levels([u[..., j] for u in self.U]) for j in range(layout.p)]
        return X - np.stack(taken, axis=1)

    def of_rows(self, layout: Layout) -> np.ndarray:
        """Var η of every row, (N,)."""
        factors, left = layout.factors, self.left(layout)
        own = self.covariances.rows([f.codes for f in factors], [f.R for f in factors])
        return own + np.einsum("np,pq,nq->n", left, self.C, left, optimize=True)

    def with_rows(
        self, layout: Layout, f: int, v: np.ndarray, own: np.ndarray, left: np.ndarray
    ) -> np.ndarray:
        """Cov(z_k, η_n) of every row and its level k of a factor, (N, q).

        By polarisation: Cov(a, η) = ½[Var(η + a) − Var η − Var a], with v (N,) and own (K, q, q) those
        of rows and levels.
        """
        factors, factor, U = layout.factors, layout.factors[f], self.U[f]
        found = np.empty((layout.N, factor.q))
        codes = [g.codes for g in factors]
        for i in range(factor.q):
            R = [g.R for g in factors]
            R[f] = R[f] + np.eye(factor.q)[i]
            beyond = left - U[factor.codes, i]
            moved = self.covariances.rows(codes, R)
            moved += np.einsum("np,pq,nq->n", beyond, self.C, beyond, optimize=True)
            found[:, i] = (moved - v - own[factor.codes, i, i]) / 2
        return found
