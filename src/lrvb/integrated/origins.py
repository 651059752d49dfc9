"""A shelf or second mode, where priors speak of columns whose origin is far from the rows.

With x̄ far from zero the intercept at zero varies by |x̄| times the slope and is almost perfectly correlated
with it: priors of its sd and of correlations may ask for slopes that hardly vary, rows for others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .coordinates import Bend, Kind
from .proposals import Mixture, Proposal, SplitT, Target, degrees
from .terms import Term

OVERLOOKED = (
    "another part of the posterior, of slopes that vary more or hardly, was not drawn: priors of an "
    "intercept at x = 0 ask for it; centre x"
)
_LADDER = (1.0, 3.0, 9.0)  # sds of levels over those that slopes add to them
_LITTLE = 8.0  # of log density, so far below the highest what is wide has no mass that matters
_LESS = 1.0  # of a log sd, by which a shelf is below the mode
_SEEN = 0.75  # of a bent coordinate, within which a draw has been
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


def overlooked(
    terms: Sequence[Term],
    theta: np.ndarray,
    kinds: Sequence[Kind],
    height: Callable[[np.ndarray], np.ndarray],
) -> bool:
    """Whether slopes that hardly vary, or that do, have mass where none of the draws (n, d) of θ is.

    height gives the log density at m points, which may be far from all draws. θ begins with the terms'; of
    correlated effects those of two are looked at.
    """
    middle = np.median(theta, axis=0)
    places, at = [], 0
    bend = Bend(kinds, middle)
    seen = bend.bend(theta)
    for term in terms:
        part = slice(at, at + term.size)
        at += term.size
        if isinstance(term.sds, tuple) and not term.centred and term.q == 2 and len(term.ones):
            there = np.tile(middle, (1 + len(_LADDER), 1))
            there[:, part] = _sizes_of_slopes(term, middle[part])
            away = np.abs(seen[:, part] - bend.bend(there)[:, None, part]).max(2).min(1)
            places.append(there[away > _SEEN])
    points = np.concatenate([middle[None], *places])
    if len(points) == 1:
        return False
    found = height(points) + bend.log_jacobian(bend.bend(points))
    return bool(found[1:].max() > found[0] - _LITTLE)


def _sizes_of_slopes(term: Term, part: np.ndarray) -> np.ndarray:
    """θ (m, 3) where slopes of several sizes are independent of the level at the mean, which keeps its sd."""
    at_mean = replace(term, as_they_are=False)
    own, M = term.ones[0], at_mean.basis
    covariance = term.spread(part[None]).covariance[0]
    level = np.sqrt((M @ covariance @ M.T)[own, own])
    sizes = level / np.r_[_LADDER, np.inf] / term.measures.spread[1 - own]
    sizes[-1] = level / max(abs(term.measures.center[1 - own]), 1e-300)
    theta = np.zeros((len(sizes), 3))
    theta[:, own], theta[:, 1 - own] = np.log(level), np.log(sizes)
    if term.as_they_are:
        spread = at_mean.spread(theta)
        theta = np.column_stack([np.log(spread.sd), np.arctanh(spread.correlation[:, 0, 1])])
    return theta


def has_shelf(target: Target, mode: np.ndarray, terms: Sequence[Term], p: int) -> bool:
    """Whether slopes that vary much less have mass, by log densities of θ with p coefficients first."""
    theta, _ = elsewhere(mode[p:], terms)
    less, at = [0.0], 0
    for term in terms:
        part = slice(at, at + term.q)
        less.append(float((mode[p:][part] - theta[part]).max()))
        at += term.size
    if not max(less) > _LESS:
        return False
    here, there = target(np.array([mode, np.r_[mode[:p], theta]]))
    return bool(there > here - _BELOW)


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
