"""How factors in partitions lie to each other, from the pairs of levels that rows have."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....integrated.crossed import MOST_DRAWN
from ..design.design import Design
from ..design.groups import Factor
from ..design.terms import refuse_same_groups

if TYPE_CHECKING:
    from ....bridges.dask import DaskPartitions


class Layout(NamedTuple):
    """How terms lie to each other, their order in θ, and the term whose levels' rows are kept together.

    kind is "factor", "nested", "chain" or "crossed", "block" of what has no sums that are exact, or "rows"
    of no terms, whose rows may be anywhere.
    """

    kind: str
    order: tuple[int, ...]
    kept: int


def layout_of(design: Design, codes: Callable[[], DaskPartitions]) -> Layout:
    """The layout of terms whose sums stay where rows are; codes() are all parts', (F, n). See: choose."""
    terms = design.terms
    every = tuple(range(len(terms)))
    levels = [len(design.factors[term.factor].levels) for term in terms]
    if not terms:
        return Layout("rows", every, -1)
    block = Layout("block", every, max(every, key=lambda t: levels[t]))
    if len(design.factors) == 1:
        few = sum(len(t.coefficients) for t in terms) < 3
        return Layout("factor", every, 0) if few else block
    between = _between(design, codes())
    if any(len(term.coefficients) > 1 for term in terms):
        return block
    order = tuple(sorted(every, key=lambda t: levels[t]))
    ones = all(term.coefficients == ("1",) for term in terms)
    chain = ones and all((terms[a].factor, terms[b].factor) in between for a, b in pairwise(order))
    if len(terms) > 2:
        return Layout("chain", order, order[0]) if chain else block
    first, second = order
    if chain:
        return Layout("nested", order, first)
    if min(levels) > MOST_DRAWN:
        return block
    return Layout("crossed", order, second)


def _between(design: Design, codes: DaskPartitions) -> set[tuple[int, int]]:
    """Pairs of factors, the outer one first, that lie within one another; two that are one are refused."""
    levels = [len(factor.levels) for factor in design.factors]
    pairs: list[tuple[int, int]] = []
    for a, b in combinations(range(len(levels)), 2):
        pairs.append((a, b) if levels[a] <= levels[b] else (b, a))
    found = set()
    parts = codes.map(functools.partial(_all_pairs, pairs))
    for (outer, inner), every in zip(pairs, zip(*parts, strict=True), strict=True):
        parent = _parents(every, levels[inner])
        if parent is not None:
            _refuse_same(design, outer, inner, parent)
            found.add((outer, inner))
    return found


def _parents(parts: Sequence[np.ndarray | None], levels: int) -> np.ndarray | None:
    """The outer level of each inner one, −1 of those without rows; None where some have several."""
    result = np.full(levels, -1)
    for found in parts:
        if found is None:
            return None
        around, within = found
        known = result[within]
        if np.any((known >= 0) & (known != around)):
            return None
        result[within] = around
    return result


def _all_pairs(
    pairs: Sequence[tuple[int, int]], _: int, codes: np.ndarray
) -> list[np.ndarray | None]:
    return [_pairs(outer, inner, codes) for outer, inner in pairs]


def _pairs(outer: int, inner: int, codes: np.ndarray) -> np.ndarray | None:
    """Pairs of levels (2, k) that a part's rows have; None where an inner level has several outer ones."""
    pairs = np.unique(codes[[inner, outer]], axis=1)[::-1]
    return None if np.any(np.diff(pairs[1]) == 0) else pairs


def _refuse_same(design: Design, outer: int, inner: int, parent: np.ndarray) -> None:
    """Two factors that are one are refused as in memory."""
    there = np.flatnonzero(parent >= 0)
    own = {outer: parent[there], inner: there}
    pair = sorted(own)
    factors = [
        Factor(design.factors[f].name, own[f].astype(np.int32), design.factors[f].levels)
        for f in pair
    ]
    places = {
        (name, pair.index(term.factor)): 0
        for term in design.terms
        if term.factor in own
        for name in term.coefficients
    }
    refuse_same_groups(design.formula.text, factors, places)
