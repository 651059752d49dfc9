"""Rows of a mixed model, c_nᵀw = x_nᵀβ + Σ_f r_fnᵀ z_f,k(n), without ever writing C down.

The coefficients w fall into z of the first grouping factor, in blocks of q per level, and the rest:
β, then every other factor's z. Rows are sorted by the first factor, so that sums over its levels
are sums over runs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .incidence import Incidence, Vector, rest_entries


class Grouping(NamedTuple):
    """One grouping factor: level of each row (N,), its coefficients' columns (N, q), levels."""

    codes: np.ndarray
    R: np.ndarray
    levels: int


class Cross(NamedTuple):
    """CᵀWC in blocks: D (G, q, q) of each first level, B (Gq, r) with the rest, A (r, r) of the rest.

    B is sparse where other factors make the rest wide.
    """

    D: np.ndarray
    B: Any
    A: np.ndarray

    def scaled(self, factor: float) -> Cross:
        """The same with all weights multiplied."""
        return Cross(self.D * factor, self.B * factor, self.A * factor)


class Layout:
    """Sums and products with C for rows sorted by `first.codes`; every level has a row."""

    def __init__(
        self,
        X: np.ndarray,
        first: Grouping,
        others: Sequence[Grouping] = (),
        weights: np.ndarray | None = None,
    ):
        """`weights` (N,) are how often each row counts, once by default."""
        # columns are what is multiplied and summed, so each lies in one piece
        self.X = np.asfortranarray(X)
        self.first = first._replace(R=np.asfortranarray(first.R))
        self.others = tuple(others)
        self.n, self.p = X.shape
        self.weights = np.ones(self.n) if weights is None else weights
        self.total = float(self.weights.sum())
        self.G, self.q = first.levels, first.R.shape[1]
        self.starts = np.searchsorted(first.codes, np.arange(self.G))
        self.offsets = [self.p]
        for f in self.others:
            self.offsets.append(self.offsets[-1] + f.levels * f.R.shape[1])
        self.r = self.offsets[-1]
        codes = [f.codes for f in self.others]
        self.columns, self.values = rest_entries(
            self.offsets, codes, [f.R for f in self.others], self.n
        )
        self.incidence = Incidence(self.X, first.codes, self.first.R, self.columns, self.values)
        if self.others:
            width = self.columns.shape[1]
            self._indptr = np.arange(0, self.n * width + 1, width)
            self._rows = (first.codes[:, None] * self.q + np.arange(self.q)).astype(np.int64)
            self._U = self._other_columns(np.ones(self.n))

    @functools.cached_property
    def products(self) -> list[np.ndarray]:
        """r_i r_j of the first factor for i ≤ j, those with i < j counted twice, each (N,)."""
        R = self.first.R
        pairs = zip(*np.triu_indices(self.q), strict=True)
        return [R[:, i] * R[:, j] * (1.0 if i == j else 2.0) for i, j in pairs]

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.G * self.q + self.r

    def zeros(self) -> Vector:
        """The zero vector."""
        return Vector(np.zeros((self.G, self.q)), np.zeros(self.r))

    def forward(self, w: Vector) -> np.ndarray:
        """Cw, (N,)."""
        return self.incidence.forward(w)

    def adjoint(self, s: np.ndarray) -> Vector:
        """Cᵀs."""
        z = np.empty((self.G, self.q))
        for i in range(self.q):
            z[:, i] = self.by_level(s * self.first.R[:, i])
        rest = np.zeros(self.r)
        rest[: self.p] = self.X.T @ s
        for a in range(self.columns.shape[1]):
            rest += np.bincount(self.columns[:, a], s * self.values[:, a], self.r)
        return Vector(z, rest)

    def cross(self, W: np.ndarray) -> Cross:
        """CᵀWC for row weights W (N,)."""
        R, X, p, q = self.first.R, self.X, self.p, self.q
        D, B = np.empty((self.G, q, q)), np.empty((self.G, q, p))
        for i in range(q):
            weighted = W * R[:, i]
            for j in range(i, q):
                D[:, i, j] = D[:, j, i] = self.by_level(weighted * R[:, j])
            for j in range(p):
                B[:, i, j] = self.by_level(weighted * X[:, j])
        flat = B.reshape(self.G * q, p)
        A = np.zeros((self.r, self.r))
        A[:p, :p] = X.T @ (W[:, None] * X)
        if not self.others:
            return Cross(D, flat, A)
        U = self._other_columns(W)
        A[p:, :p] = U.T @ X
        A[:p, p:] = A[p:, :p].T
        A[p:, p:] = (self._U.T @ U).toarray()
        entries = (W[:, None, None] * R[:, :, None]) * self.values[:, None, :]
        rows = np.broadcast_to(self._rows[:, :, None], entries.shape)
        columns = np.broadcast_to(self.columns[:, None, :] - p, entries.shape)
        shape = (self.G * q, self.r - p)
        wide = sp.coo_array((entries.ravel(), (rows.ravel(), columns.ravel())), shape).tocsr()
        return Cross(D, sp.hstack([sp.csr_array(flat), wide], format="csr"), A)

    def quadratic(self, Z11: np.ndarray, Z1r: np.ndarray, Zrr: np.ndarray) -> np.ndarray:
        """c_nᵀZc_n of every row, from the blocks of Z that rows touch."""
        return self.incidence.quadratic(Z11, Z1r, Zrr)

    def by_level(self, values: np.ndarray) -> np.ndarray:
        """Sums over the rows of each level of the first factor."""
        return np.add.reduceat(values, self.starts)

    def _other_columns(self, W: np.ndarray) -> Any:
        """The other factors' columns of C, each row multiplied by W, (N, r − p) sparse."""
        data = (W[:, None] * self.values).ravel()
        indices = (self.columns - self.p).ravel()
        return sp.csr_array((data, indices, self._indptr), shape=(self.n, self.r - self.p))
