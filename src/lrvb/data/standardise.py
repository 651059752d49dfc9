"""Centre and spread of columns: the one way in which they are measured.

Rows are visited in chunks, so that nothing of the size of X is made beside it, and measures of parts
can be put together. Nothing cancels, and no square leaves the range of doubles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CHUNK = 2**18  # numbers visited at a time
ROUNDING = 8 * np.finfo(float).eps  # of a column's size: what rounding makes of a constant


class Measures(NamedTuple):
    """Rows, their total weight, and of every column (p,) what standardising needs to know.

    `center` is the mean, `spread` √mean((x − center)²), `size` √mean(x²), `low` and `high` the ends.
    """

    n: int
    total: float
    center: np.ndarray
    spread: np.ndarray
    size: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def largest(self) -> np.ndarray:
        """The largest absolute value."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def about_zero(self, which: np.ndarray | bool = True) -> Measures:
        """The same with some columns left where they are: centre zero, and the size as spread."""
        left = np.broadcast_to(which, self.center.shape)
        return self._replace(
            center=np.where(left, 0.0, self.center), spread=np.where(left, self.size, self.spread)
        )

    def constant(self, tolerance: float = ROUNDING) -> np.ndarray:
        """Which columns do not vary around their centre, beyond a share of their largest value."""
        varies = self.high - self.low > tolerance * self.largest
        centred = self.spread < self.size
        return (self.spread == 0) | (centred & ~varies)

    def unit(self, tolerance: float = ROUNDING) -> np.ndarray:
        """The spread; a constant column is measured by its own size, a column of zeros by 1."""
        unit = np.where(self.constant(tolerance), self.size, self.spread)
        return np.where(unit > 0, unit, 1.0)


def measure(X: np.ndarray, weights: np.ndarray | None = None) -> Measures:
    """The measures of the columns of X (n, p), each row counted `weights[n]` times."""
    rows = max(1, CHUNK // max(1, X.shape[1]))
    whole = _measure(X[:rows], None if weights is None else weights[:rows])
    for start in range(rows, len(X), rows):
        here = slice(start, start + rows)
        whole = merge(whole, _measure(X[here], None if weights is None else weights[here]))
    return whole


def merge(a: Measures, b: Measures) -> Measures:
    """The measures of the rows of both."""
    total = a.total + b.total
    if total == 0:
        return b._replace(n=a.n + b.n)
    one, other = a.total / total, b.total / total
    low, high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)
    unit = _unit(low, high)
    apart = (b.center - a.center) / unit
    inside = one * (a.spread / unit) ** 2 + other * (b.spread / unit) ** 2
    return Measures(
        a.n + b.n,
        total,
        a.center + (b.center - a.center) * other,
        unit * np.sqrt(inside + one * other * apart**2),
        unit * np.sqrt(one * (a.size / unit) ** 2 + other * (b.size / unit) ** 2),
        low,
        high,
    )


def _measure(X: np.ndarray, weights: np.ndarray | None) -> Measures:
    Y = np.array(
        X.T, dtype=np.float64, order="C"
    )  # each column in one piece, which is read fastest
    low, high = Y.min(axis=1), Y.max(axis=1)
    total = float(len(X) if weights is None else weights.sum())
    if total == 0 or not len(Y):  # rows that do not count, or nothing to measure
        zero = np.zeros(len(Y))
        return Measures(len(X), total, zero, zero, zero, low, high)
    unit = _unit(low, high)
    Y /= unit[:, None]
    size = np.sqrt(_total(Y**2, weights) / total)
    center = _total(Y, weights) / total
    Y -= center[:, None]
    rest = _total(Y, weights) / total  # what rounding has left
    Y -= rest[:, None]
    center, spread = center + rest, np.sqrt(_total(Y**2, weights) / total)
    return Measures(len(X), total, center * unit, spread * unit, size * unit, low, high)


def _total(Y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Sums of rows (p, n), without BLAS, which wakes other processors for so little."""
    return (Y if weights is None else Y * weights).sum(axis=1)


def _unit(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A power of two near the largest value, so that dividing by it rounds nothing."""
    _, exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))
    return np.ldexp(1.0, exponent - 1)
