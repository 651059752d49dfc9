"""Polynomials through a few points around a center: degree four along each axis, two in pairs.

Where coordinates are few, all products of degree three are among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb

import numpy as np

STEP = 1.75  # sds between the points through which a polynomial goes: two of them on each side
_WHOLE = 4  # coordinates up to which all products of degree three are among the polynomials

#: (axis, power), … of a product of coordinates
Monomial = tuple[tuple[int, int], ...]


def passes(axes: int) -> int:
    """Points, with the center, that the polynomials of so many coordinates ask for."""
    if axes > _WHOLE:
        return 1 + 4 * axes + 2 * comb(axes, 2)
    return 1 + 4 * axes + 4 * comb(axes, 2) + 2 * comb(axes, 3)


def products(t: np.ndarray, monomials: Sequence[Monomial]) -> np.ndarray:
    """The monomials at n points (n, axes), (n, monomials)."""
    found = [np.prod([t[:, axis] ** power for axis, power in one], axis=0) for one in monomials]
    return np.stack(found, axis=1) if found else np.empty((len(t), 0))


def polynomials(
    change: Callable[[np.ndarray], np.ndarray], axes: int, rough: bool = False
) -> dict[Monomial, np.ndarray]:
    """Coefficients, as arrays, of functions' change from the center over moves (axes,) in steps.

    Rough ones are of degree two.
    """

    def at(*moves: tuple[int, float]) -> np.ndarray:
        t = np.zeros(axes)
        for axis, move in moves:
            t[axis] = move
        return change(t)

    found: dict[Monomial, np.ndarray] = {}
    odd: dict[int, np.ndarray] = {}
    even: dict[int, np.ndarray] = {}
    whole = axes <= _WHOLE and not rough
    for i in range(axes):
        up, down = at((i, 1.0)), at((i, -1.0))
        odd[i], even[i] = up - down, up + down
        if rough:
            found[((i, 1),)], found[((i, 2),)] = odd[i] / 2, even[i] / 2
            continue
        high, low = at((i, 2.0)), at((i, -2.0))
        far_odd, far_even = high - low, high + low
        found[((i, 1),)] = (8 * odd[i] - far_odd) / 12
        found[((i, 2),)] = (16 * even[i] - far_even) / 24
        found[((i, 3),)] = (far_odd - 2 * odd[i]) / 12
        found[((i, 4),)] = (far_even - 4 * even[i]) / 24
    for i, j in combinations(range(axes), 2):
        if rough:  # from one corner: what it has of degree three is left out
            corner = at((i, 1.0), (j, 1.0))
            found[(i, 1), (j, 1)] = corner - (odd[i] + even[i] + odd[j] + even[j]) / 2
            continue
        up, down = at((i, 1.0), (j, 1.0)), at((i, -1.0), (j, -1.0))
        if not whole:
            found[(i, 1), (j, 1)] = (up + down - even[i] - even[j]) / 2
            continue
        right, left = at((i, 1.0), (j, -1.0)), at((i, -1.0), (j, 1.0))
        found[(i, 1), (j, 1)] = (up + down - right - left) / 4
        found[(i, 2), (j, 1)] = (up - down - right + left) / 4 - odd[j] / 2
        found[(i, 1), (j, 2)] = (up - down + right - left) / 4 - odd[i] / 2
        found[(i, 2), (j, 2)] = (up + down + right + left) / 4 - (even[i] + even[j]) / 2
    for some in combinations(range(axes), 3) if whole else ():
        rest = (at(*((i, 1.0) for i in some)) - at(*((i, -1.0) for i in some))) / 2
        rest -= sum(odd[i] for i in some) / 2
        for i, j in combinations(some, 2):
            rest -= found[(i, 2), (j, 1)] + found[(i, 1), (j, 2)]
        found[tuple((i, 1) for i in some)] = rest
    return found
