"""A shelf or second mode, where priors speak of columns whose origin is far from the rows.

With x̄ far from zero the intercept at zero varies by |x̄| times the slope and is almost perfectly correlated
with it: priors of its sd and of correlations may ask for slopes that hardly vary, rows for others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .coordinates import Bend
from .proposals import Mixture, Proposal, SplitT, Target, degrees
from .terms import Term

_BELOW = 20.0  # of log density below the mode, where what is wide may still have some mass
_SHARE = 0.25  # of a start's draws
_ROOM = 1.25  # scale of the other coordinates


def elsewhere(theta: np.ndarray, terms: Sequence[Term]) -> tuple[np.ndarray, np.ndarray]:
    """θ (d,) with slopes so small that |x̄| times their sd is that at the mean, and where it differs (d,)."""
    found, moved, at = theta.copy(), np.zeros(len(theta), dtype=bool), 0
    for term in terms:
        if term.at_zero:
            own, part = term.ones[0], slice(at, at + term.size)
            far = np.log(np.maximum(np.abs(term.measures.center), 1e-300))
            small = np.minimum(theta[part][: term.q], theta[at + own] - far)
            small[own] = theta[at + own]
            found[part] = np.r_[small, np.zeros(term.size - term.q)]
            moved[part] = np.arange(term.size) != own
        at += term.size
    return found, moved


def spread_over(
    target: Target, proposal: SplitT, bend: Bend, terms: Sequence[Term], p: int = 0
) -> Proposal:
    """The proposal of a mode, with draws of the shelf if there is one: of scale one where it is bent.

    The first p coordinates are of coefficients given the others, which are bent and begin with the terms'.
    """
    mode = proposal.center
    theta, moved = elsewhere(bend.natural(mode[p:]), terms)
    if not moved.any():
        return proposal
    center = np.r_[mode[:p], bend.bend(theta)]
    here, there = target(np.array([mode, center]))
    if not there > here - _BELOW:
        return proposal
    moved = np.r_[np.zeros(p, dtype=bool), moved]
    sd = np.where(moved, 1.0, _ROOM * np.sqrt((proposal.axes**2).sum(1)))
    d = len(center)
    wide = SplitT(center, np.diag(sd), np.ones(d), np.ones(d), degrees(d))
    return Mixture((proposal, wide), np.array([1 - _SHARE, _SHARE]))
