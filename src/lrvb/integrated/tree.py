"""Factors nested in each other: rows in an order in which the levels of all of them are runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np


class Depth(NamedTuple):
    """The levels with rows of one factor: their numbers, and where each begins among those below it.

    parent (G,) is the place of the level around each, among the depth above. Below the last depth are rows.
    """

    level: np.ndarray
    parent: np.ndarray
    starts: np.ndarray

    def sum(self, below: np.ndarray) -> np.ndarray:
        """Sums over what lies within each level (m, …), (G, …)."""
        if len(below) == len(self.starts):
            return below
        return np.add.reduceat(below, self.starts, axis=0)


class Tree(NamedTuple):
    """Rows in their order (N,), the depths from the outermost in, and each row's level of the last (N,)."""

    rows: np.ndarray
    depths: tuple[Depth, ...]
    of: np.ndarray


def grow(codes: Sequence[np.ndarray]) -> Tree:
    """The tree of factors whose levels (N,) each lie within one level of the factor before."""
    rows = np.lexsort(codes[::-1])
    firsts, depths, above = [], [], np.zeros(len(rows), dtype=np.int64)
    for code in codes:
        first = np.flatnonzero(np.diff(code[rows], prepend=-1))
        firsts.append(first)
        of = np.cumsum(np.bincount(first, minlength=len(rows))) - 1
        depths.append((code[rows][first], above[first], first))
        above = of
    found = []
    for f, (level, parent, first) in enumerate(depths):
        below = firsts[f + 1] if f + 1 < len(firsts) else np.arange(len(rows))
        found.append(Depth(level, parent, np.searchsorted(below, first)))
    return Tree(rows, tuple(found), above)


def is_chain(codes: Sequence[np.ndarray]) -> bool:
    """Whether every factor's levels (N,) lie within one level of the factor before it."""
    return all(
        len(np.unique(np.column_stack(pair), axis=0)) == len(np.unique(pair[1]))
        for pair in pairwise(codes)
    )


def every_level(codes: np.ndarray, every: int) -> np.ndarray:
    """Rows (N,) of every so many-th of the levels that have any."""
    there = np.unique(codes)[::every]
    return np.flatnonzero(np.isin(codes, there))
