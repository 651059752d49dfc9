"""Rows gathered by the levels of a factor; identical levels are one level with a count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Groups(NamedTuple):
    """Rows to keep, sorted by group, (n,); each group's first place among them, its count of levels.

    Groups with more rows come first.

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


def gather(codes: np.ndarray, levels: int, values: np.ndarray | None = None) -> Groups:
    """Groups of the levels 0, …, levels − 1; those whose rows of `values` (N, k) agree are merged.

    Rows may be in any order within a level. Without `values` nothing is merged.
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
