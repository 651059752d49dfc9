"""One factor of many levels: θ from sums of rows that are visited a few dozen times.

Some of the levels find the mode and the nodes. Around it the sums of all are frozen, which gives the
mode itself and draws of the posterior; what their log density is off by is then measured with the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Protocol

import numpy as np

from .coordinates import Kind
from .effort import APART, EASY, FEW_LEVELS, FEWEST_NODES, LONG
from .factor import Factor
from .factor_nodes import TOLERANCE
from .fixed import Fixed
from .frozen import MOST, shared
from .frozen import Frozen as FrozenFactor
from .frozen_draws import EXACT, POINTS, Drawn, draw, draw_cubic
from .importance import resampled
from .inside import Evaluable, Inside
from .integral import Integral
from .mode import Mode, NoMode, climb, rounded, steadied
from .origins import has_shelf
from .path import Path
from .stencil import passes
from .surrogate import CHECKED, NotSmooth, points_needed
from .terms import Term

_ROWS = 300  # the first mode is that of the geometric mean of so many rows and all of them,
_LEVELS = 50  # in at least so many levels,
_NODES = 11  # with so many nodes,
_NEAR = 0.3  # to so many of its sds, which are wider than those of all rows
_ABOUT = 1.0  # of them where levels are not thought of yet
_DOUBLED = 4  # draws at which the nodes are doubled
_STENCIL = 4  # Newton's steps of a frozen density, each of 2d² points


class Frozen(Evaluable, Protocol):
    """Sums that stay near a center; `others` are coordinates of θ in which they are polynomials."""

    others: np.ndarray


class Many(Protocol):
    """A factor of many levels, wherever its rows are."""

    p: int
    q: int
    terms: tuple[Term, ...]

    @property
    def nodes(self) -> int:
        """Of each axis of a group's grid."""

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""

    @property
    def sizes(self) -> tuple[float, int, float]:
        """Rows, levels, and groups of levels that are not alike."""

    @property
    def effort(self) -> float:
        """What a visit to all rows costs, in evaluations of a row's density."""

    @property
    def own(self) -> np.ndarray:
        """Coordinates of θ that nodes follow exactly, (d,)."""

    def some(self, every: int) -> Factor:
        """Every so many-th level alone."""

    def suffice(self, theta: np.ndarray, least: int) -> float:
        """Nodes, as many as the sums of all groups need at a point; what they are off by there."""

    def freeze(self, center: np.ndarray, spread: np.ndarray, rough: bool = False) -> Frozen:
        """The sums near a point; rough ones will do to find a center."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points."""


class Together:
    """The rows are in memory."""

    def __init__(self, inside: Factor):
        self.inside, self.p, self.q, self.terms = inside, inside.p, inside.q, inside.terms
        self.log_density = inside.log_density

    @property
    def nodes(self) -> int:
        """Of each axis of a group's grid."""
        return self.inside.nodes

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.inside.kinds

    @property
    def sizes(self) -> tuple[float, int, float]:
        """Rows, levels, and groups of levels that are not alike."""
        groups = self.inside.groups
        return float(groups.sizes @ groups.counts), int((groups.group >= 0).sum()), self.inside.G

    @property
    def effort(self) -> float:
        """What a visit to all rows costs."""
        return self.inside.cost * self.inside.work

    @property
    def own(self) -> np.ndarray:
        """Coordinates of θ that nodes follow exactly, (d,)."""
        return shared(self.inside)[0]

    def some(self, every: int) -> Factor:
        """Every so many-th level alone."""
        group = self.inside.groups.group
        there = np.flatnonzero(group >= 0)[::every]
        found, place = self.inside._only(group[there])
        found = copy(found)  # groups that are alike count as often as they were chosen
        found.groups = found.groups._replace(counts=np.bincount(place, minlength=found.G) * 1.0)
        return found

    def suffice(self, theta: np.ndarray, least: int) -> float:
        """Nodes, and what they are off by. See: Many."""
        self.inside.choose_nodes(theta[None], move=False, least=least)
        return self.inside._known

    def freeze(self, center: np.ndarray, spread: np.ndarray, rough: bool = False) -> Frozen:
        """The sums near a point."""
        return FrozenFactor(self.inside, center, spread, rough=rough)


def can_freeze(many: Many) -> bool:
    """Whether frozen sums fit in memory and end in time, with the fewest nodes."""
    d, visits = len(many.kinds), passes(int((~many.own).sum()))
    nodes = many.sizes[2] * float(many.nodes**many.q)
    points = points_needed(d) + 4 * CHECKED + 10 * d + _STENCIL * 2 * d**2
    work = FEWEST_NODES * many.effort * (2 * visits + EXACT) + nodes * points
    return nodes * (visits + 2 * many.q) < MOST and work < 5 * LONG


def integrate_many(
    many: Many,
    inside: Inside,
    start: np.ndarray,
    longest: np.ndarray,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Integral:
    """θ = (β, hyperparameters) of one factor; `NotSmooth` where no cubic follows the log density.

    longest (d,) bounds Newton's steps; `inside` is what is asked of the levels afterwards.
    """
    rows, levels, _ = many.sizes
    every = max(1, int(min(np.sqrt(rows / _ROWS), levels / _LEVELS)))
    some = many.some(every)
    share = float(some.groups.counts.sum() / levels)
    some.be_quick(_NODES)
    apart = rows > APART
    start = _nearer(some, start, longest, apart)
    first = climb(some.log_density, start, some.derivatives, longest, _NEAR)
    if apart:
        first = steadied(some.log_density, first, some.derivatives)
    spread = sds(first)
    around = np.array([first.x, *_up_and_down(first.x, 2 * np.sqrt(share) * spread, many.kinds)])
    some.hurried = False
    some.choose_nodes(around, share * TOLERANCE, move=False)
    some._known = share * many.suffice(first.x, some.nodes)
    some.nodes = many.nodes
    if not can_freeze(many):
        raise NotSmooth(f"{many.nodes} nodes an axis are too many to be kept.", mode=first.x)
    frozen = many.freeze(first.x, spread, rough=True)
    mode = _top(frozen, first.x, longest)
    if len(frozen.others):
        frozen = many.freeze(mode.x, sds(mode))
        mode = _top(frozen, mode.x, longest)
    if has_shelf(many.log_density, mode.x, many.terms, many.p):
        raise NotSmooth("Another part of the posterior is far from frozen nodes.", mode=mode.x)
    path = Path(frozen, mode, straight=True)
    try:
        drawn = _drawn(path, many, seed, progress)
    except NotSmooth as failed:
        failed.evidence["mode"] = mode.x
        raise
    weighted, theta = drawn.weighted, drawn.theta
    nodes = some.error(theta[resampled(weighted.weights, _DOUBLED, seed + 1)]).max() / share
    sample = theta[drawn.some]
    _, m1, m2 = frozen.evaluate(sample)
    error = float(np.hypot(drawn.off, nodes))
    return Integral(theta, weighted, error, inside, m1, m2, sample, near=frozen)


def _drawn(path: Path, many: Many, seed: int, progress: Callable[[int, int], None] | None) -> Drawn:
    """From a cubic; or from the frozen density, where no cubic follows that and there is time.

    Of few levels' sd the posterior is wider than any nodes that stay.
    """
    _, levels, groups = many.sizes
    try:
        return draw_cubic(path, many.log_density, seed, progress)
    except NotSmooth:
        if levels < FEW_LEVELS or groups * float(many.nodes**many.q) * POINTS > EASY:
            raise
        return draw(path, many.log_density, seed, progress)


def _nearer(some: Factor, start: np.ndarray, longest: np.ndarray, apart: bool) -> np.ndarray:
    """β and dispersions as they would be without any effects of levels; the start, where there is no mode.

    In round numbers where rows may be `apart`: steps from far magnify what rounding leaves.
    """
    own = np.r_[: some.p, some.p + some.k : len(start)]
    fixed = Fixed(some.rows.weighted(some.groups.counts[some.groups.of]))
    try:
        found = climb(fixed.log_density, start[own], fixed.derivatives, longest[own], _ABOUT)
    except NoMode:
        return start
    result = start.copy()
    result[own] = rounded(found) if apart else found.x
    return result


def sds(mode: Mode) -> np.ndarray:
    """Sds by the curvature; `NotSmooth` at a point that is no maximum."""
    curvature, U = np.linalg.eigh(-mode.hessian)
    if not (curvature > 0).all():
        raise NotSmooth("The log density of some levels has no maximum.", curvature=curvature)
    return np.sqrt((U**2 / curvature).sum(1))


def _top(frozen: Frozen, start: np.ndarray, longest: np.ndarray) -> Mode:
    """The mode of frozen sums, which they may not have far from their center."""
    try:
        found = climb(frozen.log_density, start, frozen.derivatives, longest)
    except NoMode as error:
        raise NotSmooth(str(error)) from error
    return steadied(frozen.log_density, found)


def _up_and_down(x: np.ndarray, moves: np.ndarray, kinds: list[Kind]) -> list[np.ndarray]:
    """x with its sds and dispersions larger, and smaller."""
    far = np.isin(np.array(kinds), ["log", "logit"])
    move = np.where(far, np.minimum(moves, 2.0), 0.0)
    return [x + move, x - move]
