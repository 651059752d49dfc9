"""Blocks of rows that are left out together: which rows, and which of a factor's levels they touch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

EDGE = 3e-4  # of a sum over nodes, that may lie at their ends
ROWS = 2**11  # of a run of cells whose nodes are made together


class Blocks(NamedTuple):
    """The rows (m,) that belong to blocks 0, …, n − 1, sorted by block, and the block of each (m,)."""

    rows: np.ndarray
    of: np.ndarray
    n: int

    @property
    def single(self) -> bool:
        """Whether every block is one row."""
        return len(self.rows) == self.n


class Cells(NamedTuple):
    """Rows of one block within one level: the rows (m,) sorted by cell, and each cell's first place.

    block (C,) and level (C,) say whose a cell is; whole (C,) whether it has all rows of its level.
    """

    rows: np.ndarray
    starts: np.ndarray
    block: np.ndarray
    level: np.ndarray
    whole: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each cell, (C,)."""
        return np.diff(np.append(self.starts, len(self.rows)))

    def take(self, cells: np.ndarray) -> Cells:
        """Some of the cells, in their order."""
        sizes = self.sizes[cells]
        starts = (np.cumsum(sizes) - sizes).astype(int)
        within = np.arange(sizes.sum()) - np.repeat(starts, sizes)
        rows = self.rows[np.repeat(self.starts[cells], sizes) + within]
        return Cells(rows, starts, self.block[cells], self.level[cells], self.whole[cells])

    def added(self, values: np.ndarray, n: int) -> np.ndarray:
        """Values of the cells (k, C) summed within the n blocks, (k, n)."""
        result = np.zeros((len(values), n))
        np.add.at(result.T, self.block, values.T)
        return result


def blocks_of(codes: np.ndarray, chosen: np.ndarray) -> Blocks:
    """The blocks `chosen` (n,) of all rows' codes (N,), renumbered in that order."""
    place = np.full(int(codes.max(initial=-1)) + 2, -1)
    place[chosen] = np.arange(len(chosen))
    of = place[codes]
    rows = np.flatnonzero(of >= 0)
    rows = rows[np.argsort(of[rows], kind="stable")]
    return Blocks(rows, of[rows], len(chosen))


def cells_of(blocks: Blocks, codes: np.ndarray, levels: int) -> Cells:
    """The cells of blocks and the levels of one factor, whose codes (N,) are of all rows."""
    level = codes[blocks.rows].astype(np.int64)
    key = blocks.of * np.int64(levels) + level
    order = np.argsort(key, kind="stable")
    found, starts = np.unique(key[order], return_index=True)
    block, of_cell = np.divmod(found, levels)
    sizes = np.diff(np.append(starts, len(key)))
    whole = sizes == np.bincount(codes, minlength=levels)[of_cell]
    return Cells(blocks.rows[order], starts, block, of_cell, whole)
