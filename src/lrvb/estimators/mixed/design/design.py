"""A formula and a table become arrays: response, fixed effects, random-effects terms, offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....data.standardise import Measures, measure
from ....likelihoods import Dispersion, Given, Likelihood, likelihood_of
from ....likelihoods.given import take
from ....likelihoods.totals import total
from ....likelihoods.values import AtHand
from ..text.allowed import own_functions
from ..text.formula import Formula
from .columns import Table, column_names, read_table
from .groups import Coder, Factor
from .model_matrix import (
    ColumnBlock,
    Number,
    build_block,
    build_number,
    named_columns,
)
from .naming import columns_of, read_formula
from .rank import CONSTANT, check_rank
from .response_column import read_categories, read_response, read_trials
from .smooths import Smooth, new_columns, read_smooths
from .structures import Structured, check_structures, split_structured
from .terms import Columns, Term, observation_factor, read_terms
from .weights import split_weights, written_out

FILL_THEM = (
    "Fill them in, or leave those rows out."  # of rows to predict, whose number is the user's
)


class Response(NamedTuple):
    """Of y − offset: mean, sd, √mean(y²), and the same of what least squares on X leaves (or sd)."""

    mean: float
    sd: float
    size: float
    left: float


class TermRows(NamedTuple):
    """Codes (N,) and R (N, q) of a term; measures of R where these rows stand for others."""

    codes: np.ndarray
    R: np.ndarray
    columns: Measures | None = None


class NewRows(NamedTuple):
    """The design of other rows: X (n, p); R of each term; codes of each factor, −1 if unseen, and labels.

    trials are None unless the family has them and the table has their column.
    """

    X: np.ndarray
    offset: np.ndarray | None
    R: list[np.ndarray]
    codes: list[np.ndarray]
    labels: list[np.ndarray]
    trials: np.ndarray | None
    rows: pd.Index


@dataclass(frozen=True, eq=False)
class Design:
    """η = Xβ + Σ_t R_t,n · z_{t, codes_n} + offset, with the response y.

    X (N, p) has one named column per fixed effect. rows are the labels of the N rows that were
    used, dropped counts those left out for missing values; weights (N,) are how often rows count, once
    where there are none. observation is the factor of (1|obs), one row per level. frame has the columns
    that the formula names.
    categories are the labels of an ordinal response.
    """

    formula: Formula
    family: Likelihood
    y: np.ndarray
    trials: np.ndarray | None
    X: np.ndarray
    names: list[str]
    offset: np.ndarray | None
    terms: list[Term]
    factors: list[Factor]
    rows: pd.Index
    dropped: int
    observation: int | None
    fixed: ColumnBlock = field(repr=False)
    offsets: list[Number] = field(repr=False)
    sources: list[Columns] = field(repr=False)
    coders: list[Coder] = field(repr=False)
    functions: Mapping[str, Callable[..., Any]] = field(repr=False, default_factory=dict)
    weights: np.ndarray | None = field(repr=False, default=None)
    smooths: list[Smooth] = field(repr=False, default_factory=list)
    structured: list[Structured] = field(repr=False, default_factory=list)
    frame: pd.DataFrame = field(repr=False, default_factory=pd.DataFrame)
    categories: tuple[str, ...] = ()

    @cached_property
    def measures(self) -> Measures:
        """Centre, spread and size of every column of X."""
        return measure(self.X, self.weights)

    @cached_property
    def bent(self) -> np.ndarray:
        """Which columns of X are the bends of smooths or levels with a structure, (p,)."""
        found = np.zeros(len(self.names), dtype=bool)
        for part in self.penalised:
            found[part.places] = True
        return found

    @property
    def penalised(self) -> list[Smooth | Structured]:
        """Columns of X with a common sd: those of smooths, then levels with a structure."""
        return [*self.smooths, *self.structured]

    @property
    def effects(self) -> list[str]:
        """Names of the fixed effects: all columns of X but those with a common sd."""
        return [name for name, bent in zip(self.names, self.bent, strict=True) if not bent]

    @property
    def total(self) -> float:
        """How many rows these count for."""
        return float(self.n if self.weights is None else self.weights.sum())

    def mean(self, values: np.ndarray) -> float:
        """The mean over rows, each as often as it counts."""
        return float(np.average(values, weights=self.weights))

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.y)

    @cached_property
    def response(self) -> Response:
        """What is known of the response − offset, where its noise is normal."""
        y = self.working if self.offset is None else self.working - self.offset
        mean, size = self.mean(y), float(np.sqrt(self.mean(y**2)))
        sd = float(np.sqrt(self.mean((y - mean) ** 2)))
        if not self.X.shape[1]:
            return Response(mean, sd, size, sd)
        A = (self.X / self.measures.unit(CONSTANT))[:, ~self.bent]
        wA = A if self.weights is None else self.weights[:, None] * A
        coefficients = np.linalg.lstsq(A.T @ wA, wA.T @ y, rcond=None)[0]
        return Response(mean, sd, size, float(np.sqrt(self.mean((y - A @ coefficients) ** 2))))

    @property
    def level(self) -> float:
        """The link of the mean response; half a count is added where the mean is 0 (or everything)."""
        y, given = self.working, self.given
        offset = np.zeros_like(y) if self.offset is None else self.offset
        if self.weights is not None:
            rows = written_out(self.weights)
            y, offset, given = y[rows], offset[rows], take(given, rows)
        return self.family.level(total(y, offset, given))

    def term_rows(self, t: int) -> TermRows:
        """The rows of a term as they are summed."""
        term = self.terms[t]
        return TermRows(self.factors[term.factor].codes, term.R)

    def columns(self, term: Term) -> Measures:
        """Centre, spread and size of every column of a term's R."""
        return measure(term.R, self.weights)

    @property
    def observed(self) -> dict[str, np.ndarray]:
        """The response by its name, for those who compare it with predictions."""
        return {self.formula.response: self.y}

    @cached_property
    def dispersions(self) -> tuple[Dispersion, ...]:
        """The parameters of the response beside η."""
        return self.family.dispersions_of(AtHand(self.y))

    @cached_property
    def working(self) -> np.ndarray:
        """The response on the scale where a quadratic likelihood has its normal noise, (N,)."""
        return self.family.working(self.y)

    @property
    def log_volume(self) -> float:
        """Σ log |∂ working/∂y|: what a density of the response has beyond that of `working`."""
        if not self.family.quadratic:
            return 0.0
        each = self.family.constant(self.y)
        return float(np.sum(each if self.weights is None else self.weights * each))

    @property
    def given(self) -> Given:
        """What the family's density needs besides y and η."""
        return {} if self.trials is None else {"trials": self.trials}

    def apply(self, data: Any, spare: Iterable[int] = ()) -> NewRows:
        """The same columns for new rows, with the categories and transforms of these rows.

        A category that was not here is an error; a group's level that was not here gets code −1. The
        column of an effect of each row, (1|obs), may be left out: every row is then a new level. So may
        those of the factors `spare`, whose effects nobody asks for.
        """
        known, own = column_names(data), self.functions
        gone = self._without(known, spare)
        formula = self._spared(gone)
        named = columns_of(formula, known, response=False, own=own)
        table = read_table(data, named, remedy=FILL_THEM)._replace(functions=own)
        there = [term.factor not in gone or term.factor == self.observation for term in self.terms]
        made = {id(s.block): s.block for s, here in zip(self.sources, there, strict=True) if here}
        blocks = {key: block.apply(table) for key, block in made.items()}
        structured = [
            np.zeros((table.n, len(part.levels)))
            if self.place(part.group) in gone
            else part.columns(table, _varying(part.source, table))
            for part in self.structured
        ]
        return NewRows(
            X=np.column_stack(
                [
                    self.fixed.apply(table),
                    *new_columns(self.smooths, table),
                    *structured,
                ]
            ),
            offset=total_of([number.apply(table) for number in self.offsets]),
            R=[
                np.ascontiguousarray(blocks[id(source.block)][:, list(source.chosen)])
                if here
                else np.zeros((table.n, len(source.chosen)))
                for source, here in zip(self.sources, there, strict=True)
            ],
            codes=[
                np.full(table.n, -1, np.int32) if f in gone else coder.codes(table)
                for f, coder in enumerate(self.coders)
            ],
            labels=[coder.written(table) for coder in self.coders],
            trials=_new_trials(formula, data, own),
            rows=table.rows,
        )

    def place(self, group: str) -> int:
        """The number of the factor with this name."""
        return next(f for f, factor in enumerate(self.factors) if factor.name == group)

    def needed(self, known: list[str], spare: Iterable[int] = ()) -> list[str]:
        """The columns that `apply` reads of a table with these, and trials where it has them."""
        formula, own = self._spared(self._without(known, spare)), self.functions
        trials = named_columns(formula.trials, known, own=own) if formula.trials else []
        extra = trials if set(trials) <= set(known) else []
        return list(dict.fromkeys([*columns_of(formula, known, response=False, own=own), *extra]))

    def _without(self, known: list[str], spare: Iterable[int]) -> set[int]:
        """The factors that are not read: `spare`, and rows' own where the table has no column for it."""
        own = self.observation
        lacks = own is not None and not set(self.coders[own].columns) <= set(known)
        return {*spare, *([own] if own is not None and lacks else [])}

    def _spared(self, gone: set[int]) -> Formula:
        """The formula without the bars of these factors."""
        columns = [set(self.coders[f].columns) for f in gone]
        bars = tuple(bar for bar in self.formula.bars if set(bar.columns) not in columns)
        return self.formula._replace(bars=bars)


def build(
    formula: Formula | str,
    data: Any,
    family: str | Likelihood,
    missing: str = "error",
    functions: Mapping[str, Callable[..., Any]] | None = None,
    weights: str | None = None,
    structures: Mapping[str, Any] | None = None,
) -> Design:
    """The design of a formula on a table; every complaint comes before any fitting.

    data is a pandas or polars DataFrame or a mapping of columns. missing="drop" leaves out rows
    with missing values in a column of the formula and counts them in `dropped`. `functions` are
    the user's own, by the names that the formula has for them. `weights` names a column of how often each
    row counts; `structures` maps groups to the precision matrices of their levels.
    """
    design = read_design(formula, data, family, missing, functions, weights, structures)
    if design.penalised:
        fixed = design.X[:, ~design.bent]
        columns = measure(fixed, design.weights)
        check_rank(fixed, design.effects, columns, design.family.intercept)
    else:
        check_rank(design.X, design.names, design.measures, design.family.intercept)
    return design


def read_design(
    formula: Formula | str,
    data: Any,
    family: str | Likelihood,
    missing: str = "error",
    functions: Mapping[str, Callable[..., Any]] | None = None,
    weights: str | None = None,
    structures: Mapping[str, Any] | None = None,
    few: bool = False,
) -> Design:
    """The design, whether or not its columns can be told apart; `few` rows stand for many."""
    likelihood = likelihood_of(family)
    own = own_functions(functions)
    formula, named = read_formula(formula, column_names(data), own, weights)
    table = read_table(data, named, missing)._replace(functions=own)
    counts, table = split_weights(weights, table)
    y, trials = read_response(formula, table, likelihood, few)
    X, fixed = build_block(formula.fixed, table)
    if not likelihood.intercept:
        fixed = fixed.without_intercept()
        X = np.delete(X, fixed.left_out, axis=1)
    smooths, bends = read_smooths(formula.text, formula.smooths, table, X.shape[1])
    if smooths:
        X = np.column_stack([X, *bends])
    terms, sources, factors, coders = read_terms(formula.text, formula.bars, table)
    known = check_structures(structures)
    structured, terms, sources = split_structured(known, terms, sources, factors, X.shape[1])
    if structured:
        made = [part.columns(table, _varying(part.source, table)) for part in structured]
        X = np.column_stack([X, *made])
    offsets = [build_number(text, table) for text in formula.offsets]
    return Design(
        formula=formula,
        family=likelihood,
        y=y,
        trials=trials,
        X=X,
        names=[
            *fixed.names,
            *(name for smooth in smooths for name in smooth.names),
            *(name for part in structured for name in part.names),
        ],
        offset=total_of([values for values, _ in offsets]),
        terms=terms,
        factors=factors,
        rows=table.rows,
        dropped=table.dropped,
        observation=observation_factor(terms, factors, likelihood),
        fixed=fixed,
        offsets=[number for _, number in offsets],
        sources=sources,
        coders=coders,
        functions=own,
        categories=read_categories(formula, table.frame, likelihood, float(y.max())),
        weights=counts,
        smooths=smooths,
        structured=structured,
        frame=table.frame,
    )


def _varying(source: Columns, table: Table) -> np.ndarray:
    """The one column that varies by level."""
    return source.block.apply(table)[:, source.chosen[0]]


def total_of(values: list[np.ndarray]) -> np.ndarray | None:
    """The sum of the offsets, None when there are none."""
    return np.sum(values, axis=0) if values else None


def _new_trials(
    formula: Formula, data: Any, own: Mapping[str, Callable[..., Any]]
) -> np.ndarray | None:
    """The trials of new rows when the table has their column."""
    known = column_names(data)
    if formula.trials is None:
        return None
    trials = named_columns(formula.trials, known, own=own)
    if not set(trials) <= set(known):
        return None
    names = [*trials, *columns_of(formula, known, response=False, own=own)]
    return read_trials(formula, read_table(data, names, remedy=FILL_THEM)._replace(functions=own))
