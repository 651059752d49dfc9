"""A sample that stands for large data: some rows, or all rows of some levels."""

from __future__ import annotations

import numpy as np

from .tables import Rows

ROWS = 20_000  # of a preliminary fit, whose optimum is the start of a fit to all rows
LARGE = 4 * ROWS  # fewer rows are fitted at once
FEWEST_LEVELS = 50  # below, a sample of levels would not know their spread


def sample_rows(rows: Rows, most: int = ROWS, seed: int = 0) -> Rows:
    """At most `most` of the N rows, in their order, each of the n taken counted N/n times."""
    taken = min(rows.n, most)
    chosen = np.sort(np.random.default_rng(seed).choice(rows.n, taken, replace=False))
    weights = np.ones(taken) if rows.weights is None else np.asarray(rows.weights)[chosen]
    columns = {name: column[chosen] for name, column in rows.columns.items()}
    return Rows(columns, weights=weights * (rows.n / taken))


def sample_levels(codes: np.ndarray, levels: int, seed: int = 0) -> np.ndarray | None:
    """The places of about `ROWS` rows: all those of some levels, whose codes (N,) are 0..levels − 1.

    None where the rows are not many, or so few levels hold them that all are needed.
    """
    n = len(codes)
    taken = int(np.ceil(levels * ROWS / n)) if n else 0
    if n <= LARGE or taken < FEWEST_LEVELS:
        return None
    inside = np.zeros(levels, dtype=bool)
    inside[np.random.default_rng(seed).permutation(levels)[:taken]] = True
    return np.flatnonzero(inside[codes])
