"""Random-effects terms: the bars of a formula as columns over grouping factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....data.standardise import measure
from ....errors import InvalidModel
from ....likelihoods import Likelihood
from ..text.bars import Bar
from ..text.scanning import formula_error
from .columns import Table
from .groups import Coder, Factor, read_factor
from .model_matrix import ColumnBlock, build_block
from .rank import SLOPES_FAR, refuse_far


class Term(NamedTuple):
    """One random-effects term: row n adds R_n · z_k with k = codes_n of its factor.

    name is "1|g" or "x|g" for a single coefficient and the group's name "g" for a correlated term
    (when one group has several correlated terms, "x + w|g"). coefficients name the columns of R
    (N, q): "1" for the intercept. factor is an index into the design's factors.
    """

    name: str
    group: str
    coefficients: tuple[str, ...]
    R: np.ndarray
    factor: int


class Columns(NamedTuple):
    """Where a term's R comes from on new rows: columns `chosen` of a block."""

    block: ColumnBlock
    chosen: tuple[int, ...]


def read_terms(
    text: str, bars: Sequence[Bar], table: Table
) -> tuple[list[Term], list[Columns], list[Factor], list[Coder]]:
    """The terms of the bars with their sources, and the factors they share with their coders."""
    factors: list[Factor] = []
    coders: list[Coder] = []
    terms: list[Term] = []
    sources: list[Columns] = []
    where: dict[frozenset[str], int] = {}
    places: dict[tuple[str, int], int] = {}
    blocks: dict[str, tuple[np.ndarray, ColumnBlock]] = {}
    for bar in bars:
        key = frozenset(bar.columns)
        if key not in where:
            factor, coder = read_factor(bar.group, bar.columns, table)
            where[key] = len(factors)
            factors.append(factor)
            coders.append(coder)
        index = where[key]
        group = factors[index].name
        if bar.lhs not in blocks:
            blocks[bar.lhs] = build_block(bar.lhs, table)
        R, block = blocks[bar.lhs]
        names = tuple("1" if name == "Intercept" else name for name in block.names)
        if not names:
            raise formula_error(
                text, bar.at, f"Something that varies was expected: '{bar.lhs}' has no columns."
            )
        for name in names:
            if (name, index) in places:
                raise formula_error(
                    text,
                    bar.at,
                    f"'{name}' varies by '{group}' in two terms, which cannot be told apart; "
                    "leave it out of one, as (0 + x|g) does with the intercept.",
                )
            places[name, index] = bar.at
        if "1" in names:
            measures = measure(R).about_zero(np.array([name == "1" for name in names]))
            refuse_far(names, measures, SLOPES_FAR, f"levels' intercepts by '{group}'")
        together = (
            [tuple(range(len(names)))] if bar.correlated else [(j,) for j in range(len(names))]
        )
        for chosen in together:
            coefficients = tuple(names[j] for j in chosen)
            name = f"{coefficients[0]}|{group}" if len(chosen) == 1 else group
            part = np.ascontiguousarray(R[:, list(chosen)])
            terms.append(Term(name, group, coefficients, part, index))
            sources.append(Columns(block, chosen))
    refuse_same_groups(text, factors, places)
    return _distinct(terms), sources, factors, coders


def _distinct(terms: list[Term]) -> list[Term]:
    """Names that occur once: several correlated terms of one group are named by their columns."""
    names = [term.name for term in terms]
    return [
        term._replace(name=f"{' + '.join(term.coefficients)}|{term.group}")
        if names.count(term.name) > 1
        else term
        for term in terms
    ]


def refuse_same_groups(
    text: str, factors: list[Factor], places: dict[tuple[str, int], int]
) -> None:
    """Two factors that put the same rows together cannot carry the same coefficient."""
    for (name, b), at in places.items():
        for a in range(b):
            if (name, a) in places and _same(factors[a], factors[b]):
                raise formula_error(
                    text,
                    at,
                    f"'{factors[a].name}' and '{factors[b].name}' group the rows in the same way, so "
                    "that their terms cannot be told apart; leave one out.",
                )


def _same(a: Factor, b: Factor) -> bool:
    """Whether two factors are one up to the names of their levels."""
    if len(a.levels) != len(b.levels):
        return False
    image = np.zeros(len(a.levels), dtype=np.int32)
    image[a.codes] = b.codes
    return bool((image[a.codes] == b.codes).all())


def observation_factor(terms: list[Term], factors: list[Factor], family: Likelihood) -> int | None:
    """The factor with one row for each level and an intercept, (1|obs), if there is one.

    Where the rows have a normal residual its standard deviation is the residual's: an error.
    """
    for term in terms:
        levels = len(factors[term.factor].levels)
        if term.coefficients == ("1",) and levels == len(term.R):
            if family.quadratic:
                raise InvalidModel(
                    f"The group '{term.group}' has one row for each level, so that its standard "
                    "deviation cannot be told from the residual's; leave its term out.",
                    term=term.name,
                )
            return term.factor
    return None
