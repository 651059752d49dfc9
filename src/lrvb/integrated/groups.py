"""Rows gathered by the levels of a factor; identical levels are one level with a count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_CELLS = 2.0**14  # cells of a block of groups: what fits a processor's cache
_SAMPLE = 1000  # rows that are compared before all are
_ALIKE = 1.25  # sizes of groups in one block, largest to smallest


class Block(NamedTuple):
    """Groups of nearly one size: their numbers, their rows (groups, size), and which are there."""

    groups: slice | np.ndarray
    rows: np.ndarray
    there: np.ndarray


class Groups(NamedTuple):
    """Rows to keep, sorted by group, (n,); each group's first place among them, its count of levels.

    of (n,) is the group of each kept row; group (levels,) that of each level, −1 for one without rows.
    """

    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    of: np.ndarray
    group: np.ndarray

    def sum(self, values: np.ndarray, axis: int = 1) -> np.ndarray:
        """Sums over the rows of each group."""
        return np.add.reduceat(values, self.starts, axis=axis)

    def each(self, every: int) -> np.ndarray:
        """Places of every so many-th row of each group."""
        place = np.arange(len(self.of)) - self.starts[self.of]
        return np.flatnonzero(place % every == 0)

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each group, (G,)."""
        return np.diff(np.append(self.starts, len(self.of)))

    def blocks(self, cells: int) -> list[Block]:
        """Groups of nearly one size at a time, larger ones first, with so many cells a group."""
        sizes, starts = self.sizes, self.starts
        falling = bool((np.diff(sizes) <= 0).all())
        order = np.arange(len(sizes)) if falling else np.argsort(-sizes, kind="stable")
        sizes, starts = sizes[order], starts[order]
        found, start, most = [], 0, max(1, int(_CELLS / cells))
        while start < len(sizes):
            alike = int(np.searchsorted(-sizes, -sizes[start] / _ALIKE, side="right"))
            end = max(start + 1, min(start + most, alike))
            place = np.arange(sizes[start])
            there = place < sizes[start:end, None]
            rows = starts[start:end, None] + np.where(there, place, 0)
            found.append(Block(slice(start, end) if falling else order[start:end], rows, there))
            start = end
        return found


def repeat(values: np.ndarray) -> bool:
    """Whether rows (N, k) look as if some were alike: not where a sample of them are all different."""
    sample = values[:: max(1, len(values) // _SAMPLE)]
    return len(np.unique(sample, axis=0)) < len(sample)


def gather(
    codes: np.ndarray, levels: int, values: np.ndarray | None = None, by_size: bool = False
) -> Groups:
    """Groups of the levels 0, …, levels − 1; those whose rows of `values` (N, k) agree are merged.

    Rows may be in any order within a level. Without `values` nothing is merged. Groups are in the order
    of their levels, or with more rows first.
    """
    order = np.argsort(codes, kind="stable")
    if values is not None:
        _, identity = np.unique(values, axis=0, return_inverse=True)
        order = np.lexsort((identity.reshape(-1), codes))
    sizes = np.bincount(codes, minlength=levels)
    present = np.flatnonzero(sizes)
    begins = np.concatenate([[0], np.cumsum(sizes[present])[:-1]]).astype(int)
    sizes = sizes[present]
    representative = np.arange(len(present))
    if values is not None:
        sorted_identity = identity.reshape(-1)[order]
        for size in np.unique(sizes):
            those = np.flatnonzero(sizes == size)
            table = sorted_identity[begins[those][:, None] + np.arange(size)]
            _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
            representative[those] = those[first][inverse.reshape(-1)]
    kept, merged = np.unique(representative, return_inverse=True)
    if by_size:
        falling = np.argsort(-sizes[kept], kind="stable")
        rank = np.empty_like(falling)
        rank[falling] = np.arange(len(falling))
        kept, merged = kept[falling], rank[merged]
    counts = np.bincount(merged).astype(float)
    lengths = sizes[kept]
    of = np.repeat(np.arange(len(kept)), lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(int)
    within = np.arange(len(of)) - starts[of]
    rows = order[begins[kept][of] + within]
    group = np.full(levels, -1)
    group[present] = merged
    return Groups(rows, starts, counts, of, group)
