"""Precisions of a mixed model as flat coordinates: where each matrix sits in m and in the prior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...statement.meanfield import MeanField
from .arrow import Blocks, Prior
from .incidence import Incidence, Vector
from .layout import Layout


class PriorTerm(NamedTuple):
    """One random-effects term: its block in m, its factor (0 is the first), its columns there."""

    block: str
    factor: int
    columns: tuple[int, ...]


class Direction(NamedTuple):
    """A flat coordinate of m and the symmetric matrix (q, q) by which it enters E Λ of a term."""

    at: int
    term: int
    basis: np.ndarray


class Precisions:
    """The map from m to the prior precision P of all coefficients, and to s of the rows."""

    def __init__(
        self,
        layout: Layout,
        alpha: MeanField,
        terms: Sequence[PriorTerm],
        P0: np.ndarray,
        rows: str | None,
        count: float | None = None,
    ):
        """P0 (p, p) is the prior precision of β; `rows` names the block of the rows' own precision.

        `count` is how many variables that is the precision of: one a row, unless rows count more.
        """
        self.layout, self.terms, self.P0 = layout, tuple(terms), P0
        self.directions: list[Direction] = []
        self.logdets: list[
            tuple[int, float]
        ] = []  # flat coordinate of E log|Λ|, and its multiplier
        for t, term in enumerate(self.terms):
            start, q = alpha.slices[term.block].start, len(term.columns)
            symmetric = alpha.blocks[term.block].slots[0].indices() if q > 1 else [(0, 0)]
            for k, (i, j) in enumerate(symmetric):
                basis = np.zeros((q, q))
                basis[i, j] = basis[j, i] = 1.0
                self.directions.append(Direction(start + k, t, basis))
            self.logdets.append((start + len(symmetric), 0.5 * self._levels(term.factor)))
        self.scale: int | None = None
        if rows is not None:
            self.scale = alpha.slices[rows].start
            self.logdets.append((self.scale + 1, 0.5 * (layout.n if count is None else count)))

    @property
    def moving(self) -> list[int]:
        """The flat coordinates on which the factor depends; the value is linear in the others."""
        return [d.at for d in self.directions] + ([] if self.scale is None else [self.scale])

    def prior(self, m: np.ndarray) -> Prior:
        """P at m."""
        return self._assemble([self.matrix(t, m) for t in range(len(self.terms))], self.P0)

    def matrix(self, t: int, m: np.ndarray) -> np.ndarray:
        """E Λ of a term, (q, q)."""
        q = len(self.terms[t].columns)
        return sum((m[d.at] * d.basis for d in self.directions if d.term == t), np.zeros((q, q)))

    def change(self, direction: Direction) -> Prior:
        """∂P/∂m in one direction."""
        matrices = [
            direction.basis if t == direction.term else None for t in range(len(self.terms))
        ]
        return self._assemble(matrices, np.zeros_like(self.P0))

    def s(self, m: np.ndarray) -> float:
        """E τ of the rows' own precision, 1 without one."""
        return 1.0 if self.scale is None else float(m[self.scale])

    def _levels(self, factor: int) -> int:
        return self.layout.G if factor == 0 else self.layout.others[factor - 1].levels

    def _assemble(self, matrices: Sequence[np.ndarray | None], P0: np.ndarray) -> Prior:
        layout = self.layout
        first, rest = np.zeros((layout.q, layout.q)), np.zeros((layout.r, layout.r))
        rest[: layout.p, : layout.p] = P0
        for term, matrix in zip(self.terms, matrices, strict=True):
            if matrix is None:
                continue
            if term.factor == 0:
                first[np.ix_(term.columns, term.columns)] = matrix
                continue
            at = self._places(term)
            for i in range(len(term.columns)):
                for j in range(len(term.columns)):
                    rest[at[:, i], at[:, j]] = matrix[i, j]
        return Prior(first, rest)

    def _places(self, term: PriorTerm) -> np.ndarray:
        """Positions of a term's coefficients among the rest, (levels, q)."""
        f = self.layout.others[term.factor - 1]
        start, q = self.layout.offsets[term.factor - 1], f.R.shape[1]
        return start + np.arange(f.levels)[:, None] * q + np.array(term.columns)

    def means(self, t: int, w: Vector) -> np.ndarray:
        """A term's part of w, (levels, q)."""
        term = self.terms[t]
        return w.z[:, list(term.columns)] if term.factor == 0 else w.rest[self._places(term)]

    def covariances(self, t: int, blocks: Blocks) -> np.ndarray:
        """A term's diagonal blocks of a matrix over w, (levels, q, q)."""
        term = self.terms[t]
        if term.factor == 0:
            columns = np.array(term.columns)
            return blocks.Z11[:, columns[:, None], columns]
        at = self._places(term)
        return blocks.Zrr[at[:, :, None], at[:, None, :]]

    def coefficient(self, t: int, j: int, levels: np.ndarray) -> Incidence:
        """Coefficient j of a term at some levels, as functionals of w."""
        term, layout, n = self.terms[t], self.layout, len(levels)
        X, R = np.zeros((n, layout.p)), np.zeros((n, layout.q))
        if term.factor == 0:
            R[:, term.columns[j]] = 1.0
            nothing = np.zeros((n, 0))
            return Incidence(X, levels, R, nothing.astype(np.int64), nothing)
        at = self._places(term)[levels, j : j + 1]
        return Incidence(X, np.zeros(n, dtype=np.int64), R, at, np.ones((n, 1)))

    def masks(self) -> tuple[np.ndarray, np.ndarray]:
        """Which entries of each first level (q, q) and of the rest (r, r) a product family keeps."""
        layout = self.layout
        first, rest = np.zeros((layout.q, layout.q), bool), np.zeros((layout.r, layout.r), bool)
        rest[: layout.p, : layout.p] = True
        for term in self.terms:
            if term.factor == 0:
                first[np.ix_(term.columns, term.columns)] = True
                continue
            at = self._places(term)
            rest[at[:, :, None], at[:, None, :]] = True
        return first, rest
