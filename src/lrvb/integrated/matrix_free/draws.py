"""Levels with the covariance Q⁻¹: b = Λ^½ e + Σ_n c_n e_n has E bbᵀ = Q, and w = Q⁻¹b.

e are signs where the covariance alone is asked for, and normal for a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from .schur import ROUGHLY, Schur
from .sums import Factor, Sums

Noise = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
# Σ_n c_n e_n of each factor's levels, (Kq, count), from a generator and what noise to take
Perturbed = Callable[[int, np.random.Generator, Noise], list[np.ndarray]]


def normals(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers."""
    return rng.standard_normal(shape)


def draw(
    schur: Schur,
    perturbed: Perturbed,
    count: int,
    rng: np.random.Generator | None = None,
    noise: Noise | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """`count` draws of the first factor's levels (Gq, count) and of the rest (r, count).

    Without a generator they are the same at every call.
    """
    sums, noise = schur.sums, noise or signs
    rng = rng or np.random.default_rng(5)
    first = np.empty((sums.levels[0] * sums.q[0], count))
    rest = np.empty((sums.r, count))
    places = [slice(0, len(first)), *sums.places]
    for f, (place, precision) in enumerate(zip(places, schur.precisions, strict=True)):
        root = np.linalg.cholesky(precision)
        shape = (sums.levels[f], sums.q[f], count)
        made = (root @ noise(rng, shape)).reshape(-1, count)
        (first if f == 0 else rest)[place] = made
    for f, by in enumerate(perturbed(count, rng, noise)):
        (first if f == 0 else rest)[places[f]] += by
    return schur.coefficients(first, rest, ROUGHLY)


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """±1 with even chances."""
    n = int(np.prod(shape))
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-n // 8)), dtype=np.uint8), count=n)
    return (2.0 * bits - 1.0).reshape(shape)


def perturbed(sums: Sums, factors: Sequence[Factor]) -> Perturbed:
    """Of rows that are here: by cells where they say all, else by rows."""
    return partial(from_cells, sums) if by_cells(factors) else partial(from_rows, factors)


def from_cells(sums: Sums, count: int, rng: np.random.Generator, noise: Noise) -> list[np.ndarray]:
    """Of two factors with nothing but intercepts."""
    cells, found = sums.cells[0, 1], [np.empty((K, count)) for K in sums.levels]
    for j in range(count):
        e = noise(rng, cells.first.shape) * np.sqrt(cells.C[:, 0, 0])
        for by, codes in zip(found, (cells.first, cells.second), strict=True):
            by[:, j] = np.bincount(codes, e, len(by))
    return found


def from_rows(
    factors: Sequence[Factor], count: int, rng: np.random.Generator, noise: Noise
) -> list[np.ndarray]:
    """Row by row."""
    found = [np.empty((f.levels, f.q, count)) for f in factors]
    for j in range(count):
        e = noise(rng, factors[0].codes.shape)
        if factors[0].weights is not None:
            e *= np.sqrt(factors[0].weights)
        for by, factor in zip(found, factors, strict=True):
            for i, r in enumerate(factor.R.T):
                by[:, i, j] = np.bincount(factor.codes, e * r, factor.levels)
    return [by.reshape(-1, count) for by in found]


def by_cells(factors: Sequence[Factor]) -> bool:
    """Whether two factors have nothing but intercepts, so that a cell's rows are alike."""
    return len(factors) == 2 and all(f.q == 1 and bool(np.all(f.R == 1)) for f in factors)
