"""Named statistics ↔ flat vectors; the only home of triangle packing.

A statistic is a scalar, a vector or a symmetric matrix. Flat mean coordinates hold each entry of a
symmetric matrix once (row ≤ column). Flat natural coordinates are dual to them, so an off-diagonal
natural entry appears with both of its mirror images: the paper's ½-on-the-diagonal factors
(app:mvn_details) live here and nowhere else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .lazy import jnp


class Slot(NamedTuple):
    """Shape of one statistic of one copy of a variable, and how its entries are named.

    `label` is a template around the variable's name (`"log({})"`), or None for statistics that
    are not reported by name (second moments). `support` is "real", "positive" or "negative"; of a
    symmetric matrix it speaks of the diagonal.
    """

    shape: tuple[int, ...] = ()
    label: str | None = "{}"
    symmetric: bool = False
    support: str = "real"

    @property
    def size(self) -> int:
        """Number of flat coordinates."""
        if self.symmetric:
            P = self.shape[0]
            return P * (P + 1) // 2
        return math.prod(self.shape)

    def indices(self) -> list[tuple[int, ...]]:
        """Each flat coordinate's index in the statistic: `()`, `(i,)` or `(i, j)` with i ≤ j."""
        if self.symmetric:
            return list(zip(*(t.tolist() for t in np.triu_indices(self.shape[0])), strict=True))
        return list(np.ndindex(*self.shape))


def size(slots: Sequence[Slot]) -> int:
    """Number of flat coordinates of one copy."""
    return sum(slot.size for slot in slots)


@functools.cache
def _triangle(P: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows and columns of the packed entries, the mirror index, and the count of each entry."""
    rows, columns = np.triu_indices(P)
    mirror = np.zeros((P, P), dtype=np.int32)
    mirror[rows, columns] = mirror[columns, rows] = np.arange(rows.size)
    return rows, columns, mirror, np.where(rows == columns, 1.0, 2.0)


def pack_symmetric(S: Any) -> Any:
    """Entries with row ≤ column of symmetric matrices, (..., P, P) → (..., P(P+1)/2)."""
    rows, columns, _, _ = _triangle(S.shape[-1])
    return S[..., rows, columns]


def unpack_symmetric(s: Any, P: int) -> Any:
    """Symmetric matrices from their packed entries, (..., P(P+1)/2) → (..., P, P)."""
    return s[..., _triangle(P)[2]]


def multiplicity(P: int) -> np.ndarray:
    """How often each packed entry occurs in the full matrix: 1 on the diagonal, 2 off it."""
    return _triangle(P)[3]


def packed_index(P: int) -> np.ndarray:
    """Position of entry (i, j) among the packed entries, shape (P, P)."""
    return _triangle(P)[2]


def congruence(B: Any) -> Any:
    """The matrix of S ↦ BSBᵀ on packed symmetric matrices, square of size P(P+1)/2."""
    rows, columns, _, count = _triangle(B.shape[-1])
    top, bottom = B[rows], B[columns]
    return (top[:, rows] * bottom[:, columns] + bottom[:, rows] * top[:, columns]) * (count / 2)


def symmetric_root(L: Any) -> Any:
    """Packed b_iⱼ(L) = l_i l_jᵀ + l_j l_iᵀ (i < j) and √2 l_i l_iᵀ as columns, l_i those of L.

    It is a square root of Cov(xxᵀ) for x ~ N(0, LLᵀ), and of Cov(Λ)/ν for Λ ~ Wishart(ν, LLᵀ).
    """
    return congruence(L) * np.sqrt(2 / multiplicity(L.shape[-1]))


def pack(slots: Sequence[Slot], stats: Sequence[Any], *, natural: bool = False) -> Any:
    """Statistics of the slots' shapes (behind any batch axes) → flat (..., size).

    With `natural=True` they are natural parameters, paired with means by full contraction.
    """
    parts = []
    for slot, stat in zip(slots, stats, strict=True):
        if slot.symmetric:
            packed = pack_symmetric(stat)
            parts.append(packed * multiplicity(slot.shape[0]) if natural else packed)
        else:
            lead = stat.shape[: stat.ndim - len(slot.shape)]
            parts.append(stat.reshape((*lead, slot.size)))
    on_host = all(isinstance(part, np.ndarray) for part in parts)
    return (np if on_host else jnp).concatenate(parts, axis=-1)


def unpack(slots: Sequence[Slot], flat: Any, *, natural: bool = False) -> list[Any]:
    """Inverse of `pack`: flat (..., size) → statistics, symmetric ones mirrored."""
    stats, start, lead = [], 0, flat.shape[:-1]
    for slot in slots:
        part = flat[..., start : start + slot.size]
        start += slot.size
        if slot.symmetric:
            P = slot.shape[0]
            stats.append(unpack_symmetric(part / multiplicity(P) if natural else part, P))
        else:
            stats.append(part.reshape((*lead, *slot.shape)))
    return stats
