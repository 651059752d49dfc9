"""Rows, their factors and what θ says of them: the frame that every fit of a block shares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import block_diag

from ..coordinates import FREE, Kind
from ..matrix_free.sums import Factor, factors_of
from ..regression import Regression
from ..terms import Spread, Term, split_by_size
from .rows import Rows, RowsHere

if TYPE_CHECKING:
    from .precision import Variances

MANY, FEWEST = 40_000, 400  # rows, and levels, of which sums are made for all
PARTS = 16  # of the levels that stand for all, and probes: what differs between them tells what that is worth


class Layout:
    """η = Xβ + offset + Σ_f R_f z_f, terms by their levels; θ = (β, u), u terms' and dispersions'.

    direct tells, once it is known, whether precisions of levels are factorised.
    """

    direct: bool | None = None

    def __init__(
        self, rows: Regression, terms: Sequence[Term], factors: Sequence[Factor] | None = None
    ):
        self.rows, self.terms = rows, tuple(terms)
        self.factors: list[Factor] = factors_of(terms) if factors is None else list(factors)
        self.N, self.p = len(rows.X), rows.p
        self.constant = rows.likelihood.constant(rows.columns)
        self.hyper = sum(term.size for term in terms)

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        own = [kind for term in self.terms for kind in term.kinds]
        return FREE * self.p + own + self.rows.likelihood.kinds

    def on(self, terms: Sequence[Term]) -> Layout:
        """The same rows with other coordinates of the terms."""
        return Layout(self.rows, terms)

    @cached_property
    def sizes(self) -> list[int]:
        """Coefficients of each factor."""
        return [factor.levels * factor.q for factor in self.factors]

    @cached_property
    def cells(self) -> np.ndarray:
        """Which rows have all their levels, with the same columns, in common, (N,)."""
        key = np.zeros(self.N, dtype=np.int64)
        for factor in self.factors:
            key = np.unique(key * factor.levels + factor.codes, return_inverse=True)[1]
            for column in factor.R.T:
                if np.any(column != column[0]):
                    values, place = np.unique(column, return_inverse=True)
                    key = np.unique(key * len(values) + place, return_inverse=True)[1]
        return key

    @cached_property
    def own(self) -> list[np.ndarray]:
        """Levels of each factor that have rows."""
        return [np.unique(factor.codes) for factor in self.factors]

    @cached_property
    def one_of_cells(self) -> np.ndarray:
        """One row of each cell."""
        return np.unique(self.cells, return_index=True)[1]

    @cached_property
    def _marks(self) -> np.ndarray:
        """64 bits of each cell that hang on its levels and columns alone, as if thrown."""
        at = self.one_of_cells
        mark = np.zeros(len(at), dtype=np.uint64)
        for factor in self.factors:
            mark = mixed(mark + factor.codes[at].astype(np.uint64))
            for column in factor.R[at].T:
                mark = mixed(mark + np.ascontiguousarray(column + 0.0).view(np.uint64))
        return mark

    def signs_of_cells(self, j: int) -> np.ndarray:
        """±1 of each cell for the j-th draw."""
        marks, bit = self._marks, np.uint64(j % 64)
        for _ in range(j // 64):
            marks = mixed(marks)
        return 2.0 * ((marks >> bit) & np.uint64(1)) - 1.0

    @cached_property
    def by_cell(self) -> np.ndarray:
        """Rows in the order of their cells, (N,)."""
        return np.argsort(self.cells, kind="stable")

    @cached_property
    def chosen(self) -> list[np.ndarray]:
        """Levels of each factor, (K,), whose sums stand for all: every one, or fewer of many rows."""
        rng = np.random.default_rng(0)
        few = [max(FEWEST, int(np.ceil(f.levels * MANY / self.N))) for f in self.factors]
        return [
            rng.permutation(factor.levels) < count
            for factor, count in zip(self.factors, few, strict=True)
        ]

    @property
    def complete(self) -> bool:
        """Whether all levels have sums of their own everywhere."""
        return all(chosen.all() for chosen in self.chosen)

    def spreads(self, u: np.ndarray) -> list[Spread]:
        """Each term's Σ at n points of u."""
        parts = split_by_size(u[:, : self.hyper], self.terms)
        return [term.spread(part) for term, part in zip(self.terms, parts, strict=True)]

    def precisions(self, u: np.ndarray) -> list[np.ndarray]:
        """Λ of each factor's levels at one u, (q, q)."""
        Lambda = [spread.precision[0] for spread in self.spreads(u[None])]
        return [block_diag(*(Lambda[t] for t in factor.terms)) for factor in self.factors]

    def phi(self, u: np.ndarray) -> list[float]:
        """The dispersions at one u."""
        return [float(value[0]) for value in self.rows.phi(u[None, self.hyper :])]

    def log_prior(self, u: np.ndarray) -> np.ndarray:
        """log p(u) at n points, (n,)."""
        parts = split_by_size(u[:, : self.hyper], self.terms)
        total = self.rows.log_prior_dispersion(u[:, self.hyper :])
        for term, part, spread in zip(self.terms, parts, self.spreads(u), strict=True):
            total = total + term.log_prior(part, spread)
        return total

    def begin(
        self, beta: np.ndarray, z: Sequence[np.ndarray], variances: np.ndarray | Variances | None
    ) -> Rows:
        """The rows at means of all coefficients."""
        return self.begin_here(beta, z, variances)

    def begin_here(
        self, beta: np.ndarray, z: Sequence[np.ndarray], variances: np.ndarray | Variances | None
    ) -> RowsHere:
        """The same of rows that are here."""
        if variances is None:
            variances = np.zeros(self.N)
        v = variances if isinstance(variances, np.ndarray) else variances.of_rows(self)
        return RowsHere(self, self.predictor(beta, z), v)

    def predictor(self, beta: np.ndarray, z: Sequence[np.ndarray]) -> np.ndarray:
        """η of the rows from β (p,) and each factor's levels (K, q)."""
        eta = self.rows.X @ beta + self.rows.offset
        return eta + self.through_levels(z)

    def through_levels(self, z: Sequence[np.ndarray]) -> np.ndarray:
        """Σ_f R_f z_f, (N,)."""
        total = np.zeros(self.N)
        for factor, levels in zip(self.factors, z, strict=True):
            total += np.einsum("ni,ni->n", factor.R, levels[factor.codes])
        return total

    def by_level(self, g: np.ndarray) -> list[np.ndarray]:
        """Σ_n g_n R_n over the rows of each level, (K, q) each."""
        return [
            np.stack([np.bincount(f.codes, g * f.R[:, i], f.levels) for i in range(f.q)], axis=1)
            for f in self.factors
        ]


def mixed(x: np.ndarray) -> np.ndarray:
    """Whole numbers of 64 bits turned into others that look thrown: SplitMix64's (Steele et al. 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
