"""Rows, their factors and what θ says of them: the frame that every fit of a block shares."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from ..coordinates import FREE, Kind
from ..matrix_free.sums import Factor, factors_of
from ..regression import Regression
from ..terms import Spread, Term, split_by_size

MANY, FEWEST = 40_000, 400  # rows, and levels, of which sums are made for all
PARTS = 16  # of the levels that stand for all, and probes: what differs between them tells what that is worth


class Layout:
    """η = Xβ + offset + Σ_f R_f z_f, terms by their levels; θ = (β, u), u terms' and dispersions'.

    direct tells, once it is known, whether precisions of levels are factorised.
    """

    direct: bool | None = None

    def __init__(self, rows: Regression, terms: Sequence[Term]):
        self.rows, self.terms = rows, tuple(terms)
        self.factors: list[Factor] = factors_of(terms)
        self.N, self.p = len(rows.X), rows.p
        self.constant = rows.likelihood.constant(rows.columns)
        self.hyper = sum(term.size for term in terms)

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        own = [kind for term in self.terms for kind in term.kinds]
        return FREE * self.p + own + self.rows.likelihood.kinds

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
