"""The door: what leaving blocks of rows out takes from the density, whatever was summed out of it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from ...errors import InvalidModel
from ..chain import Chain
from ..crossed import Crossed
from ..factor import Factor
from ..fixed import Fixed
from ..gaussian import Gaussian
from ..inside import Inside
from ..nested import Nested
from ..normal import Normal
from ..regression import Regression
from ..smoothed import Smoothed
from ..terms import Term
from .blocks import Blocks
from .chain import without_chain
from .drawn import added_by_drawn
from .gaussian import without_blocks
from .nested import without_nested
from .nodes import without_levels
from .rows import counted_normal_rows, counted_rows, without_normal_rows, without_rows

DENSE = 64  # coefficients beside the largest factor's, up to which blocks of rows can be taken out


class LeftOut(NamedTuple):
    """Of n points and blocks: log p(y_b | y_−b, θ) (n, B); E[β | y_−b, θ] − E[β | y, θ] (n, B, p).

    The last is None where β is part of θ, or was not asked for.
    """

    log_p: np.ndarray
    moved: np.ndarray | None = None


def finer(inside: Inside) -> Inside:
    """The same with sums that are finer, where levels are summed: rows ask more of them than θ does."""
    if isinstance(inside, Smoothed):
        within = copy(inside)
        within.inner = finer(inside.inner)
        return within
    return inside.finer() if isinstance(inside, Factor | Crossed | Nested | Chain) else inside


@np.errstate(over="ignore")  # nodes far out have no probability
def leave_out(
    inside: Normal | Inside,
    rows: Regression,
    terms: Sequence[Term],
    theta: np.ndarray,
    blocks: Blocks,
    moved: bool = False,
) -> LeftOut:
    """What blocks take from the density at n points θ; terms are in θ's order."""
    inside, theta = _unsmoothed(inside, theta)
    if isinstance(inside, Normal):
        if blocks.single:
            return LeftOut(*without_normal_rows(inside, theta, blocks, moved))
        return LeftOut(*without_blocks(_dense(inside), theta, blocks, moved))
    if isinstance(inside, Factor | Crossed):
        value = without_levels(inside, rows, terms, theta, blocks)
        if isinstance(inside, Crossed):
            value += added_by_drawn(inside, rows, terms[0], theta, blocks)
        return LeftOut(value)
    if isinstance(inside, Nested):
        return LeftOut(without_nested(inside, rows, theta, blocks))
    if isinstance(inside, Chain):
        return LeftOut(without_chain(inside, rows, theta, blocks))
    if isinstance(inside, Fixed):
        each = without_rows(inside, rows, terms, theta, blocks.rows)
        return LeftOut(
            np.add.reduceat(each, np.flatnonzero(np.diff(blocks.of, prepend=-1)), axis=1)
        )
    raise InvalidModel(
        "Rows can be left out of levels that are summed exactly; this model's are not."
    )


def count_rows(
    inside: Normal | Inside,
    rows: Regression,
    terms: Sequence[Term],
    theta: np.ndarray,
    blocks: Blocks,
    moved: bool = False,
) -> LeftOut:
    """How log p(y | θ), and E[β | y, θ] downwards, follow how often each of some single rows counts."""
    inside, theta = _unsmoothed(inside, theta)
    if isinstance(inside, Normal):
        return LeftOut(*counted_normal_rows(inside, theta, blocks, moved))
    return LeftOut(counted_rows(inside, rows, terms, theta, blocks.rows))


def _unsmoothed(inside: Normal | Inside, theta: np.ndarray) -> tuple[Normal | Inside, np.ndarray]:
    """What rows know of, at its own θ: given β they know nothing of the sds of smooths."""
    while isinstance(inside, Smoothed):
        theta = inside.without(theta)
        inside = inside.inner
    return inside, theta


def _dense(inside: Normal) -> Gaussian:
    """The same model with a dense matrix of all but the largest factor."""
    if isinstance(inside, Gaussian):
        return inside
    sizes: dict[int, int] = {}
    for term in inside.terms:
        sizes[id(term.codes)] = sizes.get(id(term.codes), 0) + term.levels * term.q
    beside = inside.rows.p + sum(sizes.values()) - max(sizes.values(), default=0)
    if beside > DENSE:
        raise InvalidModel(
            f"Leaving out groups of rows needs dense matrices of {beside} coefficients, those beside the "
            f"largest factor's; up to {DENSE} are worth their time. Leave out rows, or fit again "
            "without a group."
        )
    return Gaussian(inside.rows, inside.terms, inside.residual)
