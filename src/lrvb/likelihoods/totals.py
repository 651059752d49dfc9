"""What of all rows tells the level of a response: numbers that add up over rows, wherever those are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .given import NOTHING, Given


class Totals(NamedTuple):
    """Of rows: how many, Σ working(y), Σ trials (one each without any), Σ offset, log Σ exp(offset)."""

    n: int
    y: float
    trials: float
    offset: float
    exposure: float


def total(y: np.ndarray, offset: np.ndarray, given: Given = NOTHING) -> Totals:
    """The totals of rows with responses y (N,) as `working` has them."""
    trials = float(np.sum(np.broadcast_to(given.get("trials", 1.0), y.shape)))
    exposure = _log_sum(offset)
    return Totals(len(y), float(y.sum()), trials, float(offset.sum()), exposure)


def join(parts: Sequence[Totals]) -> Totals:
    """The totals of the rows of all parts."""
    n, y, trials, offset, exposures = zip(*parts, strict=True)
    return Totals(sum(n), sum(y), sum(trials), sum(offset), _log_sum(np.array(exposures)))


def _log_sum(values: np.ndarray) -> float:
    """log Σ exp, −∞ of nothing."""
    largest = float(values.max(initial=-np.inf))
    if np.isneginf(largest):
        return largest
    return float(np.log(np.sum(np.exp(values - largest)))) + largest
