"""Rows of C by what they touch: c_nᵀw = x_nᵀβ + r_nᵀz_k(n) + the entries of other factors.

Nothing is known here of sums over rows, so the rows may be those of a fit or new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_CHUNK = 2**16  # rows at a time
_FEW = 8  # columns up to which products one by one are faster than a matrix product


class Vector(NamedTuple):
    """A vector over w: of the first factor (G, q), and of the rest (r,)."""

    z: np.ndarray
    rest: np.ndarray

    # a sum of vectors, where a tuple's + would join them
    def __add__(self, other: Vector) -> Vector:  # type: ignore[override]
        return Vector(self.z + other.z, self.rest + other.rest)

    def __sub__(self, other: Vector) -> Vector:
        return Vector(self.z - other.z, self.rest - other.rest)

    def times(self, factor: float) -> Vector:
        """Both parts multiplied."""
        return Vector(self.z * factor, self.rest * factor)

    def dot(self, other: Vector) -> float:
        """The inner product."""
        return float(np.vdot(self.z, other.z) + self.rest @ other.rest)


class Incidence(NamedTuple):
    """X (N, p); the level (N,) and columns (N, q) of the first factor; places and values of others.

    `columns` (N, e) are positions among the rest, after β.
    """

    X: np.ndarray
    codes: np.ndarray
    R: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    def some(self, rows: slice) -> Incidence:
        """Those of some rows."""
        return Incidence(*(part[rows] for part in self))

    def forward(self, w: Vector) -> np.ndarray:
        """Cw, (N,)."""
        eta = self.X @ w.rest[: self.X.shape[1]]
        for i in range(self.R.shape[1]):
            eta += self.R[:, i] * w.z[:, i][self.codes]
        for a in range(self.columns.shape[1]):
            eta += self.values[:, a] * w.rest[self.columns[:, a]]
        return eta

    def quadratic(self, Z11: np.ndarray, Z1r: np.ndarray, Zrr: np.ndarray) -> np.ndarray:
        """c_nᵀZc_n of every row, from the blocks of Z that rows touch."""
        p, q, e = self.X.shape[1], self.R.shape[1], self.columns.shape[1]
        cross = 2 * Z1r.reshape(len(Z11), q, len(Zrr))
        by_x = [[np.ascontiguousarray(cross[:, i, j]) for j in range(p)] for i in range(q)]
        by_r = [[(1.0 + (i != j)) * Z11[:, i, j] for j in range(q)] for i in range(q)]
        beside = 2 * Zrr[:, :p]
        result = np.empty(len(self.X))
        for start in range(0, len(self.X), _CHUNK):
            here = slice(start, start + _CHUNK)
            x, k, r, at, u = (part[here] for part in self)
            total = _square(x, Zrr[:p, :p])
            for i in range(q):
                inner = r[:, i] * by_r[i][i][k]
                for j in range(i + 1, q):
                    inner += r[:, j] * by_r[i][j][k]
                for j in range(p):
                    inner += x[:, j] * by_x[i][j][k]
                for a in range(e):
                    inner += cross[k, i, at[:, a]] * u[:, a]
                total += r[:, i] * inner
            for a in range(e):
                inner = np.zeros(len(x))
                for j in range(p):
                    inner += beside[at[:, a], j] * x[:, j]
                for b in range(e):
                    inner += Zrr[at[:, a], at[:, b]] * u[:, b]
                total += u[:, a] * inner
            result[here] = total
        return result


def _square(x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """x_nᵀZx_n of every row."""
    if len(Z) > _FEW:
        return np.einsum("nj,nj->n", x @ Z, x)
    total = np.zeros(len(x))
    for j in range(len(Z)):
        inner = Z[j, j] * x[:, j]
        for other in range(j + 1, len(Z)):
            inner += (2 * Z[j, other]) * x[:, other]
        total += x[:, j] * inner
    return total


def rest_entries(
    offsets: Sequence[int], codes: Sequence[np.ndarray], R: Sequence[np.ndarray], n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Columns (n, e) among the rest that each row touches beyond β, and the values there.

    `offsets` are where each other factor begins among the rest; `codes` and `R` its rows.
    """
    columns, values = [], []
    for level, part, start in zip(codes, R, offsets, strict=False):
        q = part.shape[1]
        columns += [start + level.astype(np.int64) * q + j for j in range(q)]
        values += list(part.T)
    if not columns:
        return np.zeros((n, 0), dtype=np.int64), np.zeros((n, 0))
    return np.asfortranarray(np.stack(columns, axis=1)), np.asfortranarray(np.stack(values, axis=1))
