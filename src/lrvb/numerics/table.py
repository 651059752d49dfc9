"""A smooth function of one number at very many places: polynomials through the knots of a table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_WORTH = 4  # places for each knot, from which on a table saves time
_BEFORE, _AFTER = 2, 3  # knots that a polynomial goes through, before a cell and after its first
_DEGREE = _BEFORE + _AFTER
OFF = (
    5 / 1024
)  # Π (s − knot)/6! in the middle of a cell: what is missed, of step⁶ times the derivative

# of a cell's polynomial Σ c_k s^k the coefficients from the values at its knots, (6, 6)
_POLYNOMIAL = np.linalg.inv(np.vander(np.arange(-_BEFORE, _AFTER + 1.0), increasing=True))


def tabulated(
    x: np.ndarray, curves: Callable[[np.ndarray], tuple[np.ndarray, ...]], steps: np.ndarray
) -> list[np.ndarray] | None:
    """Several sets of n functions at x (n, …): polynomials of degree five through knots `steps` (n,) apart.

    `curves` maps places (n, m) to values of each set. They are off by `OFF` step⁶ times the largest sixth
    derivative. Knots are multiples of a step, so that what is found at a place hangs on no other place. None
    where x has too few places for this to save time, or not only numbers.
    """
    n = len(x)
    low, high = float(x.min(initial=np.inf)), float(x.max(initial=-np.inf))
    if not (high - low) / steps.min() + _DEGREE + 2 < x.size / (_WORTH * n):
        return None
    each = steps.reshape(-1, *(1,) * (x.ndim - 1))
    first = np.floor(low / steps)
    cells = int((np.floor(high / steps) - first).max()) + 1
    numbers = first[:, None] + np.arange(-_BEFORE, cells + _AFTER)
    values = curves(numbers * steps[:, None])
    place = x / each
    whole = np.floor(place)
    place -= whole
    whole -= first.reshape(each.shape)
    cell = whole.astype(np.intp)
    if n > 1:
        cell += (cells * np.arange(n, dtype=np.intp)).reshape(each.shape)
    return [_between(value, cells, cell, place) for value in values]


def _between(value: np.ndarray, cells: int, cell: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The polynomials of values (n, cells + 5) at a place, from 0 to 1, in each of the cells asked for."""
    near = np.stack([value[:, j : j + cells] for j in range(_DEGREE + 1)], axis=-1)
    coefficients = np.ascontiguousarray((near.reshape(-1, _DEGREE + 1) @ _POLYNOMIAL.T).T)
    found = np.take(coefficients[-1], cell)
    for part in coefficients[-2::-1]:
        found *= place
        found += np.take(part, cell)
    return found
