"""From a design and its priors to the sums inside: exact given the hyperparameters, or a Gaussian block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ....errors import LrvbError
from ....integrated.block.layout import Layout
from ....integrated.block.model import Block
from ....integrated.choice import choose
from ....integrated.crossed import MOST_DRAWN
from ....integrated.density import Density
from ....integrated.gaussian import Gaussian, dense_work
from ....integrated.inside import Inside
from ....integrated.matrix_free.model import MatrixFree
from ....integrated.normal import Normal
from ....integrated.penalties import Penalty
from ....integrated.regression import Regression
from ....integrated.slopes import Slopes
from ....integrated.smoothed import Smoothed
from ....integrated.terms import Spread, Term, split_by_size
from ....likelihoods.dispersion import Dispersion, values_at
from ....prior import Gamma, Wishart
from ..design.design import Design
from ..design.standardised import Standardisation, fixed_prior
from ..partitions.design import PartitionedDesign
from ..partitions.scattered import ScatteredDesign, scatter, scatter_block
from ..priors.defaults import residual_scale
from ..priors.stated import MixedPriors, SpreadPrior

DRAWN = 2560  # draws of θ at which a dense matrix is factorised
DENSE = 2e7  # evaluations of a row's density that all of them may cost: about half a second
MOST_DENSE = 6e8  # the same, where there is no other way


class NoExactSums(LrvbError):
    """A model with smooths whose coefficients cannot be summed out exactly."""


class Statement(NamedTuple):
    """The sums, the terms as in the design, the order in which θ has them, p coefficients, the rows.

    parameters are the response's own, other than a residual's sd, which is inside.
    """

    inside: Normal | Inside
    terms: tuple[Term, ...]
    order: tuple[int, ...]
    p: int
    rows: Regression
    parameters: tuple[Dispersion, ...] = ()

    def others(self) -> Iterator[Statement]:
        """The same model said otherwise, for where this has no mode.

        A dense matrix at every draw, where that ends in time; and θ in which an intercept's sd of zero is no
        spike or ridge, where it is one.
        """
        inside, terms = self.inside, self.terms
        if any(term.at_zero for term in terms):
            terms = tuple(replace(t, as_they_are=True) if t.at_zero else t for t in terms)
            other = self._replace(terms=terms)
            if isinstance(inside, Block):
                yield other._replace(inside=Block(inside.layout.on(terms), inside.why))
            elif isinstance(inside, Slopes):
                yield other._replace(inside=inside.on(self.rows, terms))
            elif isinstance(inside, Normal) and self._has_rows:
                yield other._replace(inside=type(inside)(self.rows, terms, inside.residual))
        if isinstance(inside, MatrixFree) and self._has_rows:
            dense = Gaussian(self.rows, terms, inside.residual)
            if dense.work * DRAWN <= MOST_DENSE:
                yield self._replace(inside=dense, terms=terms)

    @property
    def _has_rows(self) -> bool:
        """Whether the rows are here, rather than sums of them."""
        return isinstance(self.inside, Normal) and self.inside.n == len(self.rows.X)

    def dispersions(self, theta: np.ndarray) -> list[np.ndarray]:
        """The values of the response's own parameters (n,) each at n points of θ, by their labels."""
        return values_at(self.parameters, self.coordinates(theta))

    def outside(
        self, theta: np.ndarray, beta: np.ndarray, design: Design, standard: Standardisation
    ) -> list[np.ndarray]:
        """The same for predictors as they are: thresholds inside are those at the columns' means.

        beta (n, p) is on the user's scale.
        """
        found = self.dispersions(theta)
        if design.family.intercept:
            return found
        return [part + beta @ standard.center for part in found]

    def coordinates(self, theta: np.ndarray) -> np.ndarray:
        """The part of θ (n, d), at its end, that holds the response's own parameters."""
        k = sum(dispersion.range.size for dispersion in self.parameters)
        return theta[:, theta.shape[1] - k :]

    def smooth_sds(self, theta: np.ndarray) -> np.ndarray:
        """The sd of every smooth (n, k) at n points of θ."""
        if isinstance(self.inside, Normal):
            return np.exp(self.inside.penalised(theta))
        if isinstance(self.inside, Smoothed):
            return np.exp(theta[:, self.inside.own])
        return np.empty((len(theta), 0))

    def spreads(self, theta: np.ndarray) -> list[Spread]:
        """Each term's Σ, in the design's order, at n points of θ."""
        first = 0 if isinstance(self.inside, Normal) else self.inside.p
        ordered = [self.terms[t] for t in self.order]
        parts = dict(zip(self.order, split_by_size(theta[:, first:], ordered), strict=True))
        return [term.spread(parts[t]) for t, term in enumerate(self.terms)]


def state(
    design: Design, priors: MixedPriors, standard: Standardisation, instead: str = ""
) -> Statement:
    """The sums of a design; a Gaussian block where none are exact, or where `instead` says why not those.

    `NoExactSums` of a model with smooths, which a block does not have.
    """
    terms = []
    for t, (term, prior) in enumerate(zip(design.terms, priors.terms, strict=True)):
        codes, R, columns = design.term_rows(t)
        codes, levels = codes.astype(np.int64), len(design.factors[term.factor].levels)
        if isinstance(prior, Wishart):
            terms.append(Term(codes, R, levels, prior, columns=columns, weights=design.weights))
            continue
        assert isinstance(prior, SpreadPrior)
        stated = prior.sds, prior.correlations, prior.centred
        terms.append(Term(codes, R, levels, *stated, columns=columns, weights=design.weights))
    fixed = fixed_prior(priors, standard)
    y, X, offset, ones = summed_rows(design, standard)
    rows = Regression(
        Density(design.family, tuple(design.given), design.dispersions),
        (y, *(np.ones(len(y)) if len(y) != design.n else v for v in design.given.values())),
        X,
        offset,
        fixed.mean,
        fixed.P0,
        fixed.constant + design.log_volume,
        tuple(prior for _, prior in priors.dispersions),
        ones,
        residual_scale(design) if design.family.link.has_units else 1.0,
        tuple(
            Penalty(part.places, 1 / standard.scale[part.places], prior, part.Q)
            for part, (_, prior) in zip(design.penalised, priors.smooths, strict=True)
        ),
    )
    if design.weights is not None:
        rows = rows.weighted(design.weights)
    order = tuple(range(len(terms)))
    if design.family.quadratic:
        assert priors.residual is not None
        make = Gaussian if _is_dense(design, terms, rows.p) else MatrixFree
        return Statement(make(rows, terms, priors.residual), tuple(terms), order, rows.p, rows)
    if isinstance(design, ScatteredDesign):
        if instead or design.layout.kind == "block":
            why = instead or _why_not(design)
            away = scatter_block(design, rows, terms, standard, why)
            return Statement(away, tuple(terms), order, rows.p, rows, design.dispersions)
        there = scatter(design, rows, terms, standard)
        return Statement(there, tuple(terms), design.layout.order, rows.p, rows, design.dispersions)
    found = None if instead else choose(rows, terms)
    if found is None:
        why = instead or _why_not(design)
        if rows.penalties:
            raise NoExactSums(why)
        block = Block(Layout(rows, terms), why)
        return Statement(block, tuple(terms), order, rows.p, rows, design.dispersions)
    if rows.penalties:
        drawn = sum(penalty.size for penalty in rows.penalties) + found.inside.p - rows.p
        if drawn > MOST_DRAWN:
            raise NoExactSums(
                f"smooths and structures of {drawn} coefficients cannot be drawn with the others "
                f"({MOST_DRAWN} can)"
            )
        size = sum(term.size for term in terms)
        found = found._replace(inside=Smoothed(found.inside, rows.penalties, size))
    return Statement(found.inside, tuple(terms), found.order, rows.p, rows, design.dispersions)


class SummedRows(NamedTuple):
    """y and X of the standardised coefficients, the offset, and what became of a column of ones."""

    y: np.ndarray
    X: np.ndarray
    offset: np.ndarray
    ones: np.ndarray | None


def summed_rows(design: Design, standard: Standardisation) -> SummedRows:
    """The rows, or those that stand for them."""
    if isinstance(design, ScatteredDesign):
        return SummedRows(design.possible, np.zeros((1, len(design.names))), np.zeros(1), None)
    if isinstance(design, PartitionedDesign):
        found = design.reduced
        return SummedRows(found.y, found.X, np.zeros(len(found.y)), found.ones)
    offset = np.zeros(design.n) if design.offset is None else design.offset
    return SummedRows(design.working - standard.shift, standard.inward(design.X), offset, None)


def precision_is_finite(prior: SpreadPrior | Gamma | Wishart) -> bool:
    """Whether a term's precision has a posterior mean: no prior of an sd that is finite at 0 leaves one."""
    if isinstance(prior, SpreadPrior):
        return all(isinstance(part, Gamma) for part in prior.sds)
    return True


def _is_dense(design: Design, terms: list[Term], p: int) -> bool:
    """Whether a dense matrix at every draw is as good as none: for few coefficients."""
    sizes: dict[int, int] = {}
    widths: dict[int, int] = {}
    for term, made in zip(design.terms, terms, strict=True):
        sizes[term.factor] = sizes.get(term.factor, 0) + made.levels * made.q
        widths[term.factor] = widths.get(term.factor, 0) + made.q
    if not sizes:
        return True
    largest = max(sizes, key=lambda f: sizes[f])
    r, q = p + sum(sizes.values()) - sizes[largest], widths[largest]
    return dense_work(sizes[largest] // q, q, r) * DRAWN <= DENSE


def _why_not(design: Design) -> str:
    """Why a response that is not normal has no exact sums."""
    factors = {term.factor for term in design.terms}
    most = max(
        sum(len(term.coefficients) for term in design.terms if term.factor == f) for f in factors
    )
    if len(factors) > 2:
        return f"{len(factors)} grouping factors that are not nested cannot be summed out exactly (two can)"
    if len(factors) == 2 and most > 1:
        return "two grouping factors with slopes cannot be summed out exactly"
    if most > 2:
        return f"{most} effects of a level cannot be summed out exactly (two can)"
    fewest = min(len(design.factors[f].levels) for f in factors)
    return f"crossed factors of {fewest} levels and more cannot be summed out exactly (50 can)"
