"""Some of a table's rows as a design of its own: a start for large tables, or what a row leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....data.sample import sample_levels
from .design import Design
from .groups import Factor


def sample_of(design: Design) -> Design | None:
    """The rows of some levels of the factor with most levels; None for a table that is not large."""
    usable = [f for f in range(len(design.factors)) if f != design.observation]
    if not usable:
        return None
    largest = max((design.factors[f] for f in usable), key=lambda factor: len(factor.levels))
    rows = sample_levels(largest.codes, len(largest.levels))
    if rows is None:
        return None
    return take_rows(design, rows)


def take_rows(design: Design, rows: np.ndarray) -> Design:
    """The design of some rows, by their places, with the levels that occur among them."""
    factors = [_recoded(factor, rows) for factor in design.factors]
    return replace(
        design,
        y=design.y[rows],
        weights=None if design.weights is None else design.weights[rows],
        trials=None if design.trials is None else design.trials[rows],
        X=design.X[rows],
        offset=None if design.offset is None else design.offset[rows],
        terms=[term._replace(R=term.R[rows]) for term in design.terms],
        factors=factors,
        rows=design.rows[rows],
    )


def _recoded(factor: Factor, rows: np.ndarray) -> Factor:
    """The factor of some rows, with the levels that occur among them."""
    kept, codes = np.unique(factor.codes[rows], return_inverse=True)
    return factor._replace(codes=codes.astype(np.int32), levels=factor.levels[kept])
