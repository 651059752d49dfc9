"""From a design to the engine: rows in the order of the first factor, and the block of coefficients."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from ....collapsed.gaussian.block import BlockSum
from ....collapsed.gaussian.layout import Grouping, Layout
from ....collapsed.gaussian.least_squares import LeastSquares
from ....collapsed.gaussian.precisions import Precisions, PriorTerm
from ....collapsed.gaussian.reweighted import Reweighted
from ....collapsed.gaussian.row_terms import Averaged, Joint, RowLikelihood
from ....errors import InvalidModel
from ....likelihoods.given import take
from ....statement.meanfield import MeanField
from ..design.design import Design
from ..design.standardised import FixedPrior, Standardisation
from .precision_model import RESIDUAL, block_name


class Place(NamedTuple):
    """Where a design's term is: its factor in the layout (−1: the rows' own), its columns there."""

    factor: int
    columns: tuple[int, ...]


class Arrangement(NamedTuple):
    """The block of coefficients, the order of its rows, and where each term and factor went.

    `factors[f]` is the design's factor at place f of the layout, the first one eliminated.
    """

    block: BlockSum
    order: np.ndarray
    factors: list[int]
    places: list[Place]


def arrange(
    design: Design,
    alpha: MeanField,
    standard: Standardisation,
    prior: FixedPrior,
    factorization: str,
) -> Arrangement:
    """Lay out the rows and bind them to the precisions' blocks in `alpha`."""
    factors, places = _places(design)
    codes = design.factors[factors[0]].codes if factors else np.zeros(design.n, dtype=np.int64)
    order = np.argsort(codes, kind="stable")
    groupings = []
    for f, factor in enumerate(factors):
        columns = [
            term.R for term, place in zip(design.terms, places, strict=True) if place.factor == f
        ]
        found = design.factors[factor]
        R = np.hstack(columns)[order]
        groupings.append(Grouping(found.codes[order].astype(np.int64), R, len(found.levels)))
    if not groupings:
        groupings = [Grouping(codes, np.zeros((design.n, 0)), 0)]
    _require_memory(design, factors, groupings)
    weights = None if design.weights is None else design.weights[order]
    layout = Layout(standard.inward(design.X)[order], groupings[0], groupings[1:], weights)
    terms = [
        PriorTerm(block_name(term.name, len(term.coefficients)), place.factor, place.columns)
        for term, place in zip(design.terms, places, strict=True)
        if place.factor >= 0
    ]
    own = _own_precision(design, places)
    count = design.total if design.family.quadratic else None
    precisions = Precisions(layout, alpha, terms, prior.P0, own, count)
    masks = precisions.masks() if factorization == "mean_field" else None
    offset = np.zeros(design.n) if design.offset is None else design.offset[order]
    given: Reweighted | LeastSquares
    if design.family.quadratic:
        given = LeastSquares(layout, design.working[order] - offset - standard.shift, masks)
    else:
        given = Reweighted(layout, _rows(design, order, masks is None), offset, masks)
    block = BlockSum(given, precisions, prior.mean, prior.constant + design.log_volume)
    return Arrangement(block, order, factors, places)


def _places(design: Design) -> tuple[list[int], list[Place]]:
    """The factors with most coefficients first, and the place of every term."""
    width = np.zeros(len(design.factors), dtype=int)
    for term in design.terms:
        width[term.factor] += len(term.coefficients)
    size = [len(f.levels) * int(w) for f, w in zip(design.factors, width, strict=True)]
    used = [f for f in range(len(design.factors)) if f != design.observation]
    factors = sorted(used, key=lambda f: -size[f])
    filled = dict.fromkeys(factors, 0)
    places = []
    for term in design.terms:
        if term.factor not in filled:
            places.append(Place(-1, ()))
            continue
        start, q = filled[term.factor], len(term.coefficients)
        filled[term.factor] += q
        places.append(Place(factors.index(term.factor), tuple(range(start, start + q))))
    return factors, places


def _own_precision(design: Design, places: list[Place]) -> str | None:
    """The block of the precision that belongs to the rows: the residual's, or (1|obs)'s."""
    if design.family.quadratic:
        return RESIDUAL
    for term, place in zip(design.terms, places, strict=True):
        if place.factor < 0:
            return block_name(term.name, 1)
    return None


def _rows(design: Design, order: np.ndarray, blocked: bool) -> RowLikelihood:
    """The rows in their order, with an effect of their own where the design has one."""
    y, given = design.y[order], take(design.given, order)
    weights = None if design.weights is None else design.weights[order]
    if design.observation is None:
        return Averaged(design.family, y, given, weights)
    if blocked:
        return Joint(Averaged(design.family, y, given, weights))
    if weights is not None:
        raise InvalidModel(
            "An effect of each row with a factor of its own has no sums over weighted rows; leave out "
            "weights, or factorization='mean_field'."
        )
    from ....collapsed.gaussian.tilted_rows import TiltedRows

    return TiltedRows(design.family, y, given)


def _require_memory(design: Design, factors: list[int], groupings: list[Grouping]) -> None:
    """Refuse what the dense part of several factors would need beyond the machine's memory."""
    r = design.X.shape[1] + sum(g.levels * g.R.shape[1] for g in groupings[1:])
    first = groupings[0].levels * groupings[0].R.shape[1]
    needed = 8 * (6 * r * r + 4 * first * r)
    if needed <= 0.6 * _memory():
        return
    names = [design.factors[f].name for f in factors]
    sizes = ", ".join(f"'{n}' {g.levels}" for n, g in zip(names, groupings, strict=True))
    raise InvalidModel(
        f"The model needs about {needed / 2**30:.1f} GB, more than this machine has: all levels but "
        f"those of '{names[0]}' are kept in one dense matrix, and there are {sizes} levels. Leave one "
        "grouping factor out, or give the smaller one fewer levels.",
        needed=needed,
    )


def _memory() -> float:
    """Bytes of memory of this machine; 8 GB where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 8.0 * 2**30
