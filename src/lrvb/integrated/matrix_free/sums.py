"""Sums of gaussian rows over levels and over pairs of levels: all that a fit reads of them.

With T = [X, columns of small factors' levels, y], of a factor f with columns R_f and levels k:
D_fk = Σ R_nᵀR_n, t_fk = Σ R_nᵀT_n, and of two factors C_(g,k) = Σ R_nᵀR'_n over the rows of each pair of
levels that occurs (a cell). Sums of parts of the rows add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..terms import Term


class Factor(NamedTuple):
    """Terms that share their levels: of each row the level (N,) and all columns (N, q).

    weights (N,) are how often rows count, once where there are none.
    """

    terms: tuple[int, ...]
    codes: np.ndarray
    R: np.ndarray
    levels: int
    weights: np.ndarray | None = None

    @property
    def q(self) -> int:
        """Coefficients a level."""
        return self.R.shape[1]

    @property
    def counted(self) -> np.ndarray:
        """Columns times weights, (N, q)."""
        return self.R if self.weights is None else self.weights[:, None] * self.R


class Cells(NamedTuple):
    """Pairs of levels that occur, sorted: of the first factor, of the second, (c,), and C (c, q, q′)."""

    first: np.ndarray
    second: np.ndarray
    C: np.ndarray


@dataclass(frozen=True, eq=False)
class Sums:
    """Of n rows and factors with `levels`: TT (p + 1, p + 1), D and t of each factor, cells of each pair.

    The factor with most coefficients is the first.
    """

    n: float
    TT: np.ndarray
    levels: tuple[int, ...]
    D: tuple[np.ndarray, ...]
    t: tuple[np.ndarray, ...]
    cells: dict[tuple[int, int], Cells]

    @property
    def p(self) -> int:
        """Columns of T but for y."""
        return len(self.TT) - 1

    @property
    def q(self) -> tuple[int, ...]:
        """Coefficients a level of each factor."""
        return tuple(D.shape[1] for D in self.D)

    @cached_property
    def places(self) -> list[slice]:
        """Where each factor but the first stands among the rest of the coefficients."""
        sizes = [K * q for K, q in zip(self.levels[1:], self.q[1:], strict=True)]
        ends = np.cumsum(sizes).astype(int)
        return [slice(int(end) - size, int(end)) for end, size in zip(ends, sizes, strict=True)]

    @property
    def r(self) -> int:
        """Coefficients of all factors but the first."""
        return self.places[-1].stop if self.places else 0

    @cached_property
    def B(self) -> Any:
        """The first factor's coefficients by the rest's, sparse (Gq, r)."""
        parts = [self._matrix(0, f) for f in range(1, len(self.levels))]
        if not parts:
            return sp.csr_array((self.levels[0] * self.q[0], 0))
        return parts[0] if len(parts) == 1 else sp.hstack(parts, format="csr")

    @cached_property
    def Bt(self) -> Any:
        """Bᵀ, by rows."""
        return self.B.T.tocsr()

    @cached_property
    def across(self) -> Any | None:
        """Between the factors of the rest, sparse (r, r); None if there are not two."""
        if len(self.levels) <= 2:
            return None
        blocks: list[list[Any]] = [[None] * len(self.places) for _ in self.places]
        for i, place in enumerate(self.places):
            size = place.stop - place.start
            blocks[i][i] = sp.csr_array((size, size))
        for a, b in combinations(range(1, len(self.levels)), 2):
            blocks[a - 1][b - 1] = self._matrix(a, b)
            blocks[b - 1][a - 1] = blocks[a - 1][b - 1].T
        return sp.block_array(blocks, format="csr")

    @property
    def nested(self) -> bool:
        """Whether every level of the first factor lies within one level of the only other, if any."""
        if len(self.levels) == 1:
            return True
        return len(self.levels) == 2 and len(self.cells[0, 1].first) == self.levels[0]

    def _matrix(self, a: int, b: int) -> Any:
        """Cells of two factors as a sparse matrix."""
        first, second, C = self.cells[a, b]
        qa, qb = self.q[a], self.q[b]
        shape = (self.levels[a] * qa, self.levels[b] * qb)
        if qa == qb == 1:
            starts = np.searchsorted(first, np.arange(self.levels[a] + 1))
            return sp.csr_array((C[:, 0, 0], second, starts.astype(np.int32)), shape)
        rows = np.broadcast_to((first * qa)[:, None, None] + np.arange(qa)[:, None], C.shape)
        columns = np.broadcast_to((second * qb)[:, None, None] + np.arange(qb), C.shape)
        return sp.coo_array((C.ravel(), (rows.ravel(), columns.ravel())), shape).tocsr()


def factors_of(terms: Sequence[Term]) -> list[Factor]:
    """Terms gathered by their levels, the factor with most coefficients first."""
    groups: list[list[int]] = []
    for t, term in enumerate(terms):
        for group in groups:
            other = terms[group[0]].codes
            if other is term.codes or np.array_equal(other, term.codes):
                group.append(t)
                break
        else:
            groups.append([t])
    found = [
        Factor(
            tuple(group),
            terms[group[0]].codes,
            terms[group[0]].R
            if len(group) == 1
            else np.concatenate([terms[t].R for t in group], axis=1),
            terms[group[0]].levels,
            terms[group[0]].weights,
        )
        for group in groups
    ]
    return sorted(found, key=lambda factor: -factor.levels * factor.q)


def sum_rows(
    factors: Sequence[Factor],
    X: np.ndarray,
    y: np.ndarray,
    small: Sequence[Factor] = (),
    n: float | None = None,
) -> Sums:
    """The sums of rows with fixed effects X (N, p) and response y (N,), which stand for n rows."""
    weights = factors[0].weights
    TT = _between_columns(X, y, small, weights)
    D, t = [], []
    for factor in factors:
        K, q = factor.levels, factor.q
        block = np.empty((K, q, q))
        for i in range(q):
            for j in range(i, q):
                product = factor.counted[:, i] * factor.R[:, j]
                block[:, i, j] = block[:, j, i] = np.bincount(factor.codes, product, K)
        D.append(block)
        parts = [_by_level(factor, X), *(_with_small(factor, other) for other in small)]
        t.append(np.concatenate([*parts, _by_level(factor, y[:, None])], axis=2))
    cells = {
        (a, b): _cells(factors[a], factors[b]) for a, b in combinations(range(len(factors)), 2)
    }
    levels = tuple(factor.levels for factor in factors)
    if n is None:
        n = float(len(y) if weights is None else weights.sum())
    return Sums(n, TT, levels, tuple(D), tuple(t), cells)


def _by_level(factor: Factor, columns: np.ndarray) -> np.ndarray:
    """Σ RᵀT over the rows of each level, (K, q, columns)."""
    found = np.empty((factor.levels, factor.q, columns.shape[1]))
    for i in range(factor.q):
        for j in range(columns.shape[1]):
            found[:, i, j] = np.bincount(
                factor.codes, factor.counted[:, i] * columns[:, j], factor.levels
            )
    return found


def _with_small(factor: Factor, small: Factor) -> np.ndarray:
    """Σ RᵀR′ over the rows of each level, with all levels of a small factor, (K, q, K′q′)."""
    cells = _cells(factor, small)
    found = np.zeros((factor.levels, factor.q, small.levels, small.q))
    found[cells.first, :, cells.second] = cells.C
    return found.reshape(factor.levels, factor.q, -1)


def _between_columns(
    X: np.ndarray, y: np.ndarray, small: Sequence[Factor], weights: np.ndarray | None
) -> np.ndarray:
    """TᵀT of T = [X, small factors' levels, y], each row counted by its weight."""
    counted, wy = (X, y) if weights is None else (weights[:, None] * X, weights * y)
    rows: list[list[Any]] = [[X.T @ counted, *([None] * len(small)), (X.T @ wy)[:, None]]]
    for i, factor in enumerate(small):
        flat = factor.levels * factor.q
        row: list[Any] = [_by_level(factor, X).reshape(flat, -1)]
        row += [None] * i
        row.append(_with_small(factor, factor).reshape(flat, flat))
        row += [_with_small(factor, other).reshape(flat, -1) for other in small[i + 1 :]]
        row.append(_by_level(factor, y[:, None]).reshape(flat, 1))
        rows.append(row)
    rows.append([None] * (1 + len(small)) + [np.array([[float(wy @ y)]])])
    size = len(rows)
    for i in range(size):
        for j in range(size):
            if rows[i][j] is None:
                rows[i][j] = rows[j][i].T
    return np.block(rows)


def _cells(a: Factor, b: Factor) -> Cells:
    """Sums over the rows of each pair of levels."""
    shape = (a.levels, b.levels)
    index = np.int32 if max(len(a.codes), *shape) < 2**31 else np.int64
    rows, columns = a.codes.astype(index), b.codes.astype(index)
    C = None
    for i in range(a.q):
        for j in range(b.q):
            made = sp.coo_array((a.counted[:, i] * b.R[:, j], (rows, columns)), shape).tocsr()
            made.sum_duplicates()
            if C is None:
                C = np.empty((made.nnz, a.q, b.q))
                first = np.repeat(np.arange(a.levels, dtype=index), np.diff(made.indptr))
                second = made.indices
            C[:, i, j] = made.data
    assert C is not None
    return Cells(first, second, C)
