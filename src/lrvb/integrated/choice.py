"""Which sums a mixed model's terms allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .chain import Chain
from .crossed import MOST_DRAWN, Crossed
from .fixed import Fixed
from .inside import Inside
from .levels import Levels
from .nested import Nested
from .regression import Regression
from .slopes import Slopes
from .terms import Term
from .tree import is_chain


class Choice(NamedTuple):
    """The sums, and the terms in the order of their sds in θ and of the effects that come back."""

    inside: Inside
    order: tuple[int, ...]


def choose(rows: Regression, terms: Sequence[Term]) -> Choice | None:
    """Sums that are exact given θ for a response that is not gaussian; None where there are none.

    No terms; one factor with one effect or two a level; factors with an intercept each that are nested in one
    another; two factors with one effect each, crossed, with at most 50 levels of the smaller.
    """
    if not terms:
        return Choice(Fixed(rows), ())
    first = terms[0].codes
    if all(np.array_equal(term.codes, first) for term in terms):
        effects = sum(term.q for term in terms)
        if effects == 1:
            return Choice(Levels(rows, terms[0]), (0,))
        if effects == 2:
            return Choice(Slopes(rows, terms), tuple(range(len(terms))))
        return None
    if any(term.q != 1 for term in terms):
        return None
    order = tuple(sorted(range(len(terms)), key=lambda t: terms[t].levels))
    if all(np.all(term.R == 1) for term in terms) and is_chain([terms[t].codes for t in order]):
        ordered = [terms[t] for t in order]
        return Choice(Nested(rows, *ordered) if len(terms) == 2 else Chain(rows, ordered), order)
    if len(terms) > 2:
        return None
    small, large = order
    if terms[small].levels <= MOST_DRAWN:
        return Choice(Crossed(rows, terms[large], terms[small]), (small, large))
    return None
