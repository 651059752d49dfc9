"""Whether factors in partitions lie within one another, from the pairs of levels that rows have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....integrated.crossed import MOST_DRAWN
from ....integrated.density import Density
from ..design.design import Design
from ..design.groups import Factor
from ..design.terms import refuse_same_groups

if TYPE_CHECKING:
    from ....bridges.dask import DaskPartitions


class Layout(NamedTuple):
    """How terms lie to each other, their order in θ, and the term whose levels' rows are kept together.

    kind is "factor", "nested" or "crossed".
    """

    kind: str
    order: tuple[int, ...]
    kept: int


def layout_of(design: Design, codes: Callable[[], DaskPartitions], n: int) -> Layout | None:
    """The layout of terms whose sums of n rows stay where those are; None of others.

    codes() are all parts', (F, n). One factor with one effect a level or two; two factors with an intercept
    each, one within the other, or crossed with one mode a level and at most 50 levels of the smaller.
    """
    terms = design.terms
    if len(design.factors) == 1:
        every = tuple(range(len(terms)))
        return Layout("factor", every, 0) if sum(len(t.coefficients) for t in terms) < 3 else None
    if len(terms) != 2 or any(term.coefficients != ("1",) for term in terms):
        return None
    levels = [len(design.factors[term.factor].levels) for term in terms]
    first, second = sorted(range(len(terms)), key=lambda t: levels[t])
    outer, inner = terms[first].factor, terms[second].factor
    parent = _parents(codes(), outer, inner, max(levels))
    if parent is not None:
        _refuse_same(design, outer, inner, parent)
        odds = design.family.binary and Density(design.family).exponential == "odds"
        single = odds and max(levels) == n  # whose sums ask for all rows. See: SingleRows
        return None if single else Layout("nested", (first, second), first)
    crossed = design.family.concave and min(levels) <= MOST_DRAWN
    return Layout("crossed", (first, second), second) if crossed else None


def _parents(codes: DaskPartitions, outer: int, inner: int, levels: int) -> np.ndarray | None:
    """The outer level of each inner one, −1 of those without rows; None where some have several."""
    result = np.full(levels, -1)
    for found in codes.map(functools.partial(_pairs, outer, inner)):
        if found is None:
            return None
        around, within = found
        known = result[within]
        if np.any((known >= 0) & (known != around)):
            return None
        result[within] = around
    return result


def _pairs(outer: int, inner: int, _: int, codes: np.ndarray) -> np.ndarray | None:
    """Pairs of levels (2, k) that a part's rows have; None where an inner level has several outer ones."""
    pairs = np.unique(codes[[inner, outer]], axis=1)[::-1]
    return None if np.any(np.diff(pairs[1]) == 0) else pairs


def _refuse_same(design: Design, outer: int, inner: int, parent: np.ndarray) -> None:
    """Two factors that are one are refused as in memory."""
    there = np.flatnonzero(parent >= 0)
    own = {outer: parent[there], inner: there}
    factors = [
        Factor(factor.name, own[f].astype(np.int32), factor.levels)
        for f, factor in enumerate(design.factors)
    ]
    places = {(name, term.factor): 0 for term in design.terms for name in term.coefficients}
    refuse_same_groups(design.formula.text, factors, places)
