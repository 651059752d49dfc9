"""The values of a response, wherever its rows are: what starts and checks ask of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np


class Values(Protocol):
    """Their moments and ends; quantiles and counts are asked of the rows where somebody needs them."""

    @property
    def mean(self) -> float:
        """Their mean."""

    @property
    def sd(self) -> float:
        """√mean (y − mean)²."""

    @property
    def low(self) -> float:
        """The smallest."""

    @property
    def high(self) -> float:
        """The largest."""

    def quantiles(self, *probs: float) -> np.ndarray:
        """Those at probabilities (k,): between two values as far as the probability is between theirs."""

    def counts(self) -> Counts:
        """How often each of few different values occurs."""


class Counts(NamedTuple):
    """Different values, rising, and how many rows have each."""

    values: np.ndarray
    rows: np.ndarray

    @property
    def of_categories(self) -> np.ndarray:
        """Of rows numbered 1, …, K, how many are in each category (K,)."""
        return np.bincount(self.values.astype(np.int64), self.rows)[1:]


class AtHand:
    """Values y (N,) in memory."""

    def __init__(self, y: np.ndarray):
        self.y = y

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.y.mean())

    @property
    def sd(self) -> float:
        """√mean (y − mean)²."""
        return float(self.y.std())

    @property
    def low(self) -> float:
        """The smallest."""
        return float(self.y.min())

    @property
    def high(self) -> float:
        """The largest."""
        return float(self.y.max())

    def quantiles(self, *probs: float) -> np.ndarray:
        """Those at probabilities."""
        return np.quantile(self.y, probs)

    def counts(self) -> Counts:
        """How often each value occurs."""
        return Counts(*np.unique(self.y, return_counts=True))


def joined(parts: Sequence[Counts]) -> Counts:
    """The counts of the rows of all parts."""
    values, place = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
    rows = np.bincount(place.reshape(-1), np.concatenate([part.rows for part in parts]))
    return Counts(values, rows.astype(np.int64))
