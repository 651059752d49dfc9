"""Responses that are not normal in partitions: rows of a level are brought to one, its sums made there.

Of two nested factors the levels are those of the outer one, with all that lies within them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import InvalidData
from ....integrated.block.layout import Layout as Frame
from ....integrated.block.model import Block
from ....integrated.block.scattered import ScatteredLayout
from ....integrated.chain import Chain
from ....integrated.crossed import Crossed
from ....integrated.factor import Factor
from ....integrated.fixed import Fixed
from ....integrated.inside import Inside
from ....integrated.levels import Levels
from ....integrated.matrix_free.sums import Factor as SharedLevels
from ....integrated.matrix_free.sums import factors_of
from ....integrated.nested import Nested
from ....integrated.regression import Regression
from ....integrated.scattered import Scattered
from ....integrated.scattered_chain import ScatteredChain
from ....integrated.scattered_crossed import ScatteredCrossed
from ....integrated.scattered_fixed import ScatteredFixed
from ....integrated.scattered_levels import ScatteredLevels
from ....integrated.scattered_nested import ScatteredNested
from ....integrated.scattered_slopes import ScatteredSlopes
from ....integrated.slopes import Slopes
from ....integrated.terms import Term as Summed
from ....likelihoods import Dispersion
from ....likelihoods.totals import Totals, total
from ....likelihoods.values import Values
from ..design.design import Design, TermRows
from ..design.rank import triangle
from ..design.standardised import Standardisation
from .design import PartitionedDesign
from .nesting import Layout
from .rows import Arrays, Reduced

if TYPE_CHECKING:
    from ....bridges.dask import DaskPartitions

_NONE = np.zeros((0, 0))
NOTHING = Reduced(
    _NONE.ravel(), _NONE, _NONE, _NONE.ravel(), _NONE, _NONE
)  # no rows stand for these
ASKED = 1_000_000  # rows of levels that predictions may bring together


@dataclass(frozen=True, eq=False)
class ScatteredDesign(PartitionedDesign):
    """A design whose rows are in partitions, those of a level in one; `gather` brings them together.

    `layout` says how terms lie to each other.
    """

    layout: Layout = field(kw_only=True)
    arrays: DaskPartitions = field(kw_only=True, repr=False)
    totals: Totals = field(kw_only=True)
    values: Values = field(kw_only=True, repr=False)
    gather: Callable[[], Design] = field(kw_only=True, repr=False)

    @property
    def level(self) -> float:
        """The link of the mean response."""
        return self.family.level(self.totals)

    @cached_property
    def dispersions(self) -> tuple[Dispersion, ...]:
        """The parameters of the response beside η."""
        return self.family.dispersions_of(self.values)

    @property
    def possible(self) -> np.ndarray:
        """A response that a row of one trial may have, (1,)."""
        return np.zeros(1) if self.trials is not None else np.array([self.values.low])

    @property
    def log_volume(self) -> float:
        """Nothing: the response has its own density."""
        return 0.0

    def term_rows(self, t: int) -> TermRows:
        """One row that stands for none, and measures of all."""
        R = np.ones((1, len(self.terms[t].coefficients)))
        return TermRows(np.zeros(1, dtype=np.int64), R, self.measured.R[t])


def total_part(rows: Arrays) -> Totals:
    """The totals of a partition."""
    offset = np.zeros(len(rows.y)) if rows.offset is None else rows.offset
    return total(rows.y, offset, {} if rows.trials is None else {"trials": rows.trials})


def root_part(standard: Standardisation, rows: Arrays) -> np.ndarray:
    """The triangle of standardised X and, as the last column, the shifted y − offset."""
    columns = np.column_stack([standard.inward(rows.X), rows.target - standard.shift])
    p = columns.shape[1]
    return triangle(columns, np.zeros(p), np.ones(p))


def join_roots(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The triangle of all rows."""
    p = parts[0].shape[1]
    return triangle(np.concatenate(parts), np.zeros(p), np.ones(p))


def left_by(root: np.ndarray, n: int) -> float:
    """√mean of the squares that least squares on X leaves of y, by their triangle."""
    return float(abs(root[-1, -1])) / np.sqrt(n) if len(root) == root.shape[1] else 0.0


def scatter(
    design: ScatteredDesign,
    rows: Regression,
    terms: Sequence[Summed],
    standard: Standardisation,
) -> Inside:
    """The sums of a design's rows, where they are; rows and terms have its priors."""
    layout = design.layout
    ordered = [terms[t] for t in layout.order]
    factors = [design.terms[t].factor for t in layout.order]
    made = functools.partial(sums_of, rows, ordered, layout, factors, standard)
    parts = design.arrays.prepared(made)
    if layout.kind == "rows":
        return ScatteredFixed(rows, parts)

    def bring(levels: np.ndarray) -> Any:
        found = design.arrays.map(
            functools.partial(_taken, design.terms[layout.kept].factor, levels)
        )
        there = [part for part in found if len(part.y)]
        count = sum(len(part.y) for part in there)
        if count > ASKED:
            raise InvalidData(
                f"The levels asked for have {count:,} rows, more than the {ASKED:,} that are brought "
                "together; ask for fewer levels at a time.",
                rows=count,
            )
        return made(_joined(there)) if there else _class_of(ordered, layout)(rows, ordered)

    if layout.kind == "factor":
        one = sum(term.q for term in ordered) == 1
        moving: Factor = (
            ScatteredLevels(rows, ordered[0], parts, bring)
            if one
            else ScatteredSlopes(rows, ordered, parts, bring)
        )
        return Scattered(_class_of(ordered, layout)(rows, ordered), parts, bring, moving)
    if layout.kind == "chain":
        return ScatteredChain(rows, ordered, parts, bring)
    outer, inner = ordered
    if layout.kind == "crossed":
        return ScatteredCrossed(rows, outer, inner, parts, bring)
    return ScatteredNested(rows, outer, inner, parts, bring)


def scatter_block(
    design: ScatteredDesign,
    rows: Regression,
    terms: Sequence[Summed],
    standard: Standardisation,
    why: str,
) -> Block:
    """A Gaussian block of a design's rows, where they are; why tells why there are no exact sums."""
    factors = [term.factor for term in design.terms]
    # that terms share their levels is said by codes
    named = [replace(term, codes=np.full(1, f)) for term, f in zip(terms, factors, strict=True)]
    made = functools.partial(rows_of, rows, factors_of(named), factors, standard)
    parts = design.arrays.prepared(made)
    return Block(ScatteredLayout(rows, named, parts, design.layout.kept), why)


def sums_of(
    rows: Regression,
    terms: Sequence[Summed],
    layout: Layout,
    factors: Sequence[int],
    standard: Standardisation,
    part: Arrays,
) -> Any:
    """The sums of one partition's levels, terms in this order; None without rows."""
    if not len(part.y):
        return None
    here = _here(rows, standard, part)
    own = [
        replace(term, codes=part.codes[factor].astype(np.int64), R=part.R[t])
        for term, t, factor in zip(terms, layout.order, factors, strict=True)
    ]
    return _class_of(terms, layout)(here, own)


def rows_of(
    rows: Regression,
    of: Sequence[SharedLevels],
    factors: Sequence[int],
    standard: Standardisation,
    part: Arrays,
) -> Frame | None:
    """The rows of one partition as a Gaussian block has them, terms by their levels; None without rows."""
    if not len(part.y):
        return None
    own = [
        factor._replace(
            codes=part.codes[factors[factor.terms[0]]].astype(np.int64),
            R=np.concatenate([part.R[t] for t in factor.terms], axis=1),
        )
        for factor in of
    ]
    return Frame(_here(rows, standard, part), (), own)


def _here(rows: Regression, standard: Standardisation, part: Arrays) -> Regression:
    """The rows of one partition."""
    y = part.y - standard.shift
    columns = (y,) if part.trials is None else (y, part.trials)
    offset = np.zeros(len(y)) if part.offset is None else part.offset
    return replace(rows, columns=columns, X=standard.inward(part.X), offset=offset)


def _class_of(terms: Sequence[Summed], layout: Layout) -> Any:
    """What sums of rows and terms are made by."""
    if layout.kind == "rows":
        return lambda rows, _: Fixed(rows)
    if layout.kind == "nested":
        return lambda rows, own: Nested(rows, *own)
    if layout.kind == "chain":
        return Chain
    if layout.kind == "crossed":
        return lambda rows, own: Crossed(rows, own[1], own[0])
    if sum(term.q for term in terms) == 1:
        return lambda rows, own: Levels(rows, own[0])
    return Slopes


def _taken(factor: int, levels: np.ndarray, _: int, part: Arrays) -> Arrays:
    """The rows of some levels."""
    at = np.flatnonzero(np.isin(part.codes[factor], levels))
    return Arrays(
        part.y[at],
        None if part.trials is None else part.trials[at],
        None if part.offset is None else part.offset[at],
        part.X[at],
        [R[at] for R in part.R],
        part.codes[:, at],
    )


def _joined(parts: Sequence[Arrays]) -> Arrays:
    first = parts[0]
    return Arrays(
        np.concatenate([part.y for part in parts]),
        None
        if first.trials is None
        else np.concatenate([part.trials for part in parts if part.trials is not None]),
        None
        if first.offset is None
        else np.concatenate([part.offset for part in parts if part.offset is not None]),
        np.concatenate([part.X for part in parts]),
        [np.concatenate([part.R[t] for part in parts]) for t in range(len(first.R))],
        np.concatenate([part.codes for part in parts], axis=1),
    )
