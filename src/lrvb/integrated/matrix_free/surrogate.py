r"""h and M between the points where they were computed: polynomials in shares.

A term's share is R = I − (I + W)⁻¹ with W = NᵀVN, V its covariance relative to σ² and NNᵀ what rows
tell of a typical level: the part of its mean that is believed. It is 0 for an sd of zero and
linear in its square there, and 1 minus something linear in V⁻¹ where sds are large; h has Σ G log |I + W|
taken off, which is all that is not smooth at either end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple

import numpy as np

from ..terms import Term, split_by_size
from .evidence import Point

STEP = 1e-5  # of differences of shares in ζ
SPARE = 1.6  # equations for every unknown
DEGREES = {1: 8, 2: 6, 3: 4}  # at most, of so many variables; of more, 3
BEYOND = 3.0  # times as far from the center as any point, where a polynomial ends


class Values(NamedTuple):
    """h (n,), M (n, p + 1, p + 1) and each probe's noise of h (n, P), at n points."""

    h: np.ndarray
    M: np.ndarray
    noise: np.ndarray


class Shares:
    """ζ → the entries of every term's share, and the part of h that is not smooth."""

    def __init__(self, terms: Sequence[Term], sizes: Sequence[np.ndarray]):
        self.terms = tuple(terms)
        self.roots = [np.linalg.cholesky(size) for size in sizes]  # of a level's information

    def of(self, zeta: np.ndarray) -> np.ndarray:
        """Upper triangles of R − I = −(I + W)⁻¹ at n points (n, D), (n, D).

        Only differences count; those of R itself would be lost in its last digits where it is almost I.
        """
        found = []
        for term, (sizes, U) in zip(self.terms, self._relative(zeta), strict=True):
            left = (U * (1 / (1 + sizes))[:, None, :]) @ U.swapaxes(1, 2)
            i, j = np.triu_indices(term.q)
            found.append(-left[:, i, j])
        return np.concatenate(found, axis=1)

    def log_sizes(self, zeta: np.ndarray) -> np.ndarray:
        """Σ G log |I + W| at n points, (n,)."""
        both = zip(self.terms, self._relative(zeta), strict=True)
        return np.sum([term.levels * np.log1p(sizes).sum(1) for term, (sizes, _) in both], axis=0)

    def _relative(self, zeta: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Eigenvalues (n, q) and vectors (n, q, q) of each term's W: I + W may have no inverse."""
        parts = split_by_size(zeta, self.terms)
        made = []
        for term, part, N in zip(self.terms, parts, self.roots, strict=True):
            sizes, U = np.linalg.eigh(N.T @ term.spread(part).covariance @ N)
            made.append((np.maximum(sizes, 0.0), U))
        return made


class Surrogate:
    """The polynomial of highest degree that points with weights (k,) determine with room to spare.

    Where shares are far beyond those of all points it is what it is at that border.
    """

    def __init__(
        self, shares: Shares, points: Sequence[Point], center: np.ndarray, weights: np.ndarray
    ):
        self.shares = shares
        zeta = np.array([point.zeta for point in points])
        D = zeta.shape[1]
        self.center = shares.of(center[None])[0]
        self.scale = np.maximum(np.abs(shares.of(zeta) - self.center).max(0), 1e-300)
        equations = len(points) * (1 + D)
        degrees = range(2, DEGREES.get(D, 3) + 1)
        allowed = [k for k in degrees if comb(D + k, k) * SPARE <= equations]
        self.degree = max(allowed, default=1)
        self.powers = _powers(D, self.degree)
        p1 = len(points[0].M)
        self.upper = np.triu_indices(p1)
        reach = np.clip(np.abs(zeta - center).max(0), 1e-6, 1.0)  # slopes weigh as values there
        A = np.concatenate([self._basis(zeta), *_scaled(self._slopes(zeta), reach)])
        y = np.concatenate([self._values(points), *_scaled(self._value_slopes(points), reach)])
        best = int(np.argmax(weights))
        self.offset = y[best].copy()
        y[: len(points)] -= self.offset
        by = np.tile(weights, 1 + D)[:, None]
        self.coefficients = np.linalg.lstsq(by * A, by * y, rcond=None)[0]

    def at(self, zeta: np.ndarray) -> Values:
        """Values at n points (n, D)."""
        y = self._basis(zeta) @ self.coefficients + self.offset
        k = len(self.upper[0])
        p1 = int(self.upper[0].max()) + 1
        M = np.empty((len(zeta), p1, p1))
        M[:, self.upper[0], self.upper[1]] = M[:, self.upper[1], self.upper[0]] = y[:, 1 : 1 + k]
        return Values(y[:, 0] + self.shares.log_sizes(zeta), M, y[:, 1 + k :])

    def _values(self, points: Sequence[Point]) -> np.ndarray:
        zeta = np.array([point.zeta for point in points])
        h = np.array([point.h for point in points]) - self.shares.log_sizes(zeta)
        M = np.array([point.M[self.upper] for point in points])
        return np.column_stack([h, M, np.array([point.noise for point in points])])

    def _value_slopes(self, points: Sequence[Point]) -> list[np.ndarray]:
        zeta = np.array([point.zeta for point in points])
        D = zeta.shape[1]
        found = []
        for k in range(D):
            move = STEP * (np.arange(D) == k)
            smooth = self.shares.log_sizes(zeta + move) - self.shares.log_sizes(zeta - move)
            h = np.array([point.h_slope[k] for point in points]) - smooth / (2 * STEP)
            M = np.array([point.M_slope[k][self.upper] for point in points])
            found.append(
                np.column_stack([h, M, np.array([point.noise_slope[:, k] for point in points])])
            )
        return found

    def _basis(self, zeta: np.ndarray) -> np.ndarray:
        u = np.clip((self.shares.of(zeta) - self.center) / self.scale, -BEYOND, BEYOND)
        powers = np.ones((self.degree + 1, *u.shape))
        for k in range(1, self.degree + 1):
            powers[k] = powers[k - 1] * u
        columns = np.ones((len(u), len(self.powers)))
        for j in range(u.shape[1]):
            columns *= powers[self.powers[:, j], :, j].T
        return columns

    def _slopes(self, zeta: np.ndarray) -> list[np.ndarray]:
        D = zeta.shape[1]
        moves = STEP * np.eye(D)
        return [
            (self._basis(zeta + move) - self._basis(zeta - move)) / (2 * STEP) for move in moves
        ]


def _scaled(slopes: list[np.ndarray], reach: np.ndarray) -> list[np.ndarray]:
    return [slope * by for slope, by in zip(slopes, reach, strict=True)]


def _powers(D: int, degree: int) -> np.ndarray:
    """Exponents of all monomials of D variables up to a total degree, (k, D)."""
    found = []
    for total in range(degree + 1):
        for chosen in combinations_with_replacement(range(D), total):
            found.append(np.bincount(np.array(chosen, dtype=int), minlength=D))
    return np.array(found)
