"""The values of a response in partitions: counts return, of different values or of those below some cuts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ....data.standardise import Measures
from ....likelihoods.values import AtHand, Counts, joined
from .rows import Arrays

if TYPE_CHECKING:
    from ....bridges.dask import DaskPartitions

_CUTS = np.arange(1, 4097, dtype=np.uint64)  # by which what a value is among is cut at a time
_SIGN = np.uint64(2**63)


class ValuesInParts:
    """Those of all rows, of which there are measures. See: Values."""

    def __init__(self, measures: Measures, arrays: DaskPartitions):
        self.measures, self.arrays = measures, arrays

    @property
    def mean(self) -> float:
        """Their mean."""
        return float(self.measures.center[0])

    @property
    def sd(self) -> float:
        """√mean (y − mean)²."""
        return float(self.measures.spread[0])

    @property
    def low(self) -> float:
        """The smallest."""
        return float(self.measures.low[0])

    @property
    def high(self) -> float:
        """The largest."""
        return float(self.measures.high[0])

    def quantiles(self, *probs: float) -> np.ndarray:
        """Those at probabilities, from the two values that each is between."""
        last = self.measures.n - 1
        places = last * np.array(probs)
        first = np.floor(places).astype(np.int64)
        ranks = np.concatenate([first, np.minimum(first + 1, last)])
        low, high = np.split(self._ranked(ranks), 2)
        return low + (high - low) * (places - first)

    def counts(self) -> Counts:
        """How often each value occurs."""
        return self.arrays.folded(_counts, joined)

    def _ranked(self, ranks: np.ndarray) -> np.ndarray:
        """The values (k,) that have so many before them.

        Each is above one double and not above another: cuts between those come nearer, until they are
        neighbours.
        """
        sorted_parts = self.arrays.prepared(_sorted_keys)
        ends = _keys(np.array([self.low, self.high]))
        below, above = (np.full(len(ranks), end) for end in (ends[0] - np.uint64(1), ends[1]))
        while np.any(above - below > 1):
            steps = (above - below) // np.uint64(len(_CUTS)) + np.uint64(1)
            cuts = np.minimum(below[:, None] + steps[:, None] * _CUTS, above[:, None])
            counts = np.sum(sorted_parts.map(partial(_not_above, cuts)), axis=0)
            at = np.argmax(counts > ranks[:, None], axis=1)
            each = np.arange(len(ranks))
            below = np.where(at > 0, cuts[each, at - 1], below)
            above = cuts[each, at]
        return _doubles(above)


def _counts(rows: Arrays) -> Counts:
    return AtHand(rows.y).counts()


def _sorted_keys(rows: Arrays) -> np.ndarray:
    return np.sort(_keys(rows.y))


def _not_above(cuts: np.ndarray, _: int, keys: np.ndarray) -> np.ndarray:
    """How many are not above each of the cuts."""
    return np.searchsorted(keys, cuts, side="right")


def _keys(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of finite doubles, those of neighbours being neighbours."""
    bits = np.ascontiguousarray(values + 0.0).view(np.uint64)  # of one zero only
    return np.where(bits < _SIGN, bits + _SIGN, ~bits)


def _doubles(keys: np.ndarray) -> np.ndarray:
    """Their inverse."""
    return np.where(keys >= _SIGN, keys - _SIGN, ~keys).view(np.float64)
