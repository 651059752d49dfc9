"""Levels with the covariance Q⁻¹, from fixed signs: b = Λ^½ e + Σ_n c_n e_n has E bbᵀ = Q, and w = Q⁻¹b."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .schur import ROUGHLY, Schur
from .sums import Factor


def draw(
    schur: Schur, factors: Sequence[Factor], count: int, seed: int = 5
) -> tuple[np.ndarray, np.ndarray]:
    """`count` draws of the first factor's levels (Gq, count) and of the rest (r, count)."""
    sums = schur.sums
    rng = np.random.default_rng(seed)
    first = np.empty((sums.levels[0] * sums.q[0], count))
    rest = np.empty((sums.r, count))
    places = [slice(0, len(first)), *sums.places]
    for f, (place, precision) in enumerate(zip(places, schur.precisions, strict=True)):
        root = np.linalg.cholesky(precision)
        shape = (sums.levels[f], sums.q[f], count)
        made = (root @ signs(rng, shape)).reshape(-1, count)
        (first if f == 0 else rest)[place] = made
    for j in range(count):
        for f, by in enumerate(_rows(schur, factors, rng)):
            target = first if f == 0 else rest
            target[places[f], j] += by
    return schur.coefficients(first, rest, ROUGHLY)


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """±1 with even chances."""
    n = int(np.prod(shape))
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-n // 8)), dtype=np.uint8), count=n)
    return (2.0 * bits - 1.0).reshape(shape)


def _rows(schur: Schur, factors: Sequence[Factor], rng: np.random.Generator) -> list[np.ndarray]:
    """Σ_n c_n e_n of each factor's levels: by cells where they say all, else by rows."""
    sums = schur.sums
    if by_cells(factors):
        cells = sums.cells[0, 1]
        e = signs(rng, cells.first.shape) * np.sqrt(cells.C[:, 0, 0])
        return [
            np.bincount(cells.first, e, sums.levels[0]),
            np.bincount(cells.second, e, sums.levels[1]),
        ]
    e = signs(rng, factors[0].codes.shape)
    if factors[0].weights is not None:
        e *= np.sqrt(factors[0].weights)
    found = []
    for factor in factors:
        by = [np.bincount(factor.codes, e * r, factor.levels) for r in factor.R.T]
        found.append(np.stack(by, axis=1).reshape(-1))
    return found


def by_cells(factors: Sequence[Factor]) -> bool:
    """Whether two factors have nothing but intercepts, so that a cell's rows are alike."""
    return len(factors) == 2 and all(f.q == 1 and bool(np.all(f.R == 1)) for f in factors)
