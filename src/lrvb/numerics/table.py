"""A smooth function of one number at very many places: cubics between the knots of a table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_WORTH = 4  # places for each knot, from which on a table saves time


def tabulated(
    x: np.ndarray, curves: Callable[[np.ndarray], tuple[np.ndarray, ...]], step: float
) -> list[np.ndarray] | None:
    """Several sets of n functions at x (n, …), which are Hermite's cubics through knots a `step` apart.

    `curves` maps places (n, m) to values of each set. They are off by step⁴/384 times the largest fourth
    derivative; slopes are differences of six values, off by step⁶/140 of the seventh. None where x has too
    few places for this to save time, or not only numbers.
    """
    n = len(x)
    low, high = float(x.min(initial=np.inf)), float(x.max(initial=-np.inf))
    if not (high - low) / step + 8 < x.size / (_WORTH * n):
        return None
    cells = int((high - low) / step) + 1
    knots = low + step * np.arange(-3, cells + 4)
    values = curves(np.broadcast_to(knots, (n, len(knots))))
    place = x - low
    place *= 1 / step
    whole = np.floor(place)
    place -= whole
    cell = whole.astype(np.intp)
    if n > 1:
        cell += (cells * np.arange(n, dtype=np.intp)).reshape(-1, *(1,) * (x.ndim - 1))
    return [_between(value, cell, place) for value in values]


def _between(value: np.ndarray, cell: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The cubics of values (n, cells + 7) at a place, from 0 to 1, in each of the cells asked for."""
    slope = sum(
        c * (value[:, 3 + j : value.shape[1] - 3 + j] - value[:, 3 - j : value.shape[1] - 3 - j])
        for j, c in enumerate((45 / 60, -9 / 60, 1 / 60), start=1)
    )
    value = value[:, 3:-3]
    rise, before, after = np.diff(value), slope[:, :-1], slope[:, 1:]
    found = np.take(before + after - 2 * rise, cell)
    for part in (3 * rise - 2 * before - after, before, value[:, :-1]):
        found *= place
        found += np.take(part, cell)
    return found
