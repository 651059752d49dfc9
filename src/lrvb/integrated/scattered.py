"""One factor's levels summed out where their rows are: parts of whole levels, of which only sums return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..errors import InvalidData
from .coordinates import Kind
from .factor import Factor
from .factor_nodes import Off, chosen
from .frozen import Frozen, shared
from .inside import Drawn, Effects, Evaluated, Lines
from .mode import differenced


class Parts(Protocol):
    """Objects that are elsewhere, each the sums of whole levels."""

    def map(self, function: Callable[..., Any], *own: Sequence[Any]) -> tuple[Any, ...]:
        """A function of the number and the object of every part, and what of `own` belongs to it."""

    def prepared(self, function: Callable[..., Any], *own: Sequence[Any]) -> Parts:
        """What a function makes of the parts, and of what belongs to each, kept where they are."""


def once(levels: np.ndarray) -> None:
    """Refuse levels that several parts have."""
    if len(np.unique(levels)) < len(levels):
        raise InvalidData(
            "Rows of one level came to different partitions, as where it is a number in some "
            "rows and a text in others; write the groups' labels in one way."
        )


class Portion(NamedTuple):
    """Of one part: its rows and groups; levels that it has, their groups and those' counts."""

    rows: float
    groups: int
    levels: np.ndarray
    group: np.ndarray
    counts: np.ndarray
    own: np.ndarray


class Scattered:
    """θ = (β, covariance of a level's q effects, dispersions), of a factor whose levels are in parts.

    `none` are the same sums of next to no rows, with all priors. bring(levels) gives the sums of some
    levels alone, in memory, with their numbers kept. `moving` are these sums with nodes that
    follow θ, for where those that stay near a center do not serve.
    """

    def __init__(
        self,
        none: Factor,
        parts: Parts,
        bring: Callable[[np.ndarray], Any],
        moving: Factor,
    ):
        self.none, self.parts, self.bring, self.moving = none, parts, bring, moving
        none.constant = 0.0
        self.p, self.q, self.k, self.nodes = none.p, none.q, none.k, none.nodes
        self.terms = none.terms
        self.known, self.center, self.bent = 0.0, none.start(), False
        found = [part for part in parts.map(_portion) if part is not None]
        self.own = np.all([part.own for part in found], axis=0)
        self.work = sum(parts.map(_work))
        starts = np.cumsum([0, *(part.groups for part in found)])
        self.G = int(starts[-1])
        group = np.full(none.terms[0].levels, -1)
        once(np.concatenate([part.levels for part in found]))
        for start, part in zip(starts, found, strict=False):
            group[part.levels] = start + part.group
        counts = np.concatenate([part.counts for part in found])
        self.groups = none.groups._replace(group=group, counts=counts)
        self.sizes = sum(part.rows for part in found), int((group >= 0).sum()), float(self.G)
        # answers about levels from their groups' moments are those of sums in memory
        self.answering = copy(none)
        self.answering.groups, self.answering.G = self.groups, self.G

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.none.kinds

    @property
    def fewest(self) -> int:
        """Levels of the factor."""
        return self.none.fewest

    @property
    def effort(self) -> float:
        """What a visit to all rows costs."""
        return self.none.cost * self.work

    def start(self) -> np.ndarray:
        """A first θ."""
        return self.none.start()

    # ---- sums -------------------------------------------------------------------------------

    def some(self, every: int) -> Factor:
        """Every so many-th level alone, in memory."""
        return self.bring(np.flatnonzero(self.groups.group >= 0)[::every])

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The fewest nodes that suffice at the first of n points."""
        self.suffice(theta[0], 0)

    def suffice(self, theta: np.ndarray, least: int) -> float:
        """Nodes, as many as the sums of all groups need at a point; what they are off by there."""
        self.center = theta
        learnt = self.parts.prepared(partial(_learnt, theta))

        def ask(bent: bool, nodes: int) -> Off:
            found = learnt.map(partial(_off, theta, bent, nodes))
            off, cut, largest = zip(*(part for part in found if part is not None), strict=True)
            return Off(np.sum(off, axis=0), np.sum(cut, axis=0), max(largest))

        rungs = self.none._rungs()
        self.bent, self.nodes, self.known = chosen(rungs, ask, move=False, least=least)
        self.parts = learnt.prepared(partial(with_nodes, self.bent, self.nodes))
        self.work = sum(self.parts.map(_work))
        return self.known

    def freeze(
        self, center: np.ndarray, spread: np.ndarray, rough: bool = False
    ) -> ScatteredFrozen:
        """The sums near a point."""
        return ScatteredFrozen(self, center, spread, rough)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        return self.total(self.parts.map(partial(_log_density, theta)), theta)

    def total(self, found: Sequence[np.ndarray | None], theta: np.ndarray) -> np.ndarray:
        """The log density from those of parts, each of which has the prior."""
        there = [value for value in found if value is not None]
        prior = self.none._log_prior(theta)
        return np.sum([value - prior for value in there], axis=0) + prior - self.known

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point, by differences."""
        return differenced(self.log_density)(theta)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with moments of every group."""
        return joined(self, self.parts.map(partial(_evaluate, theta)), theta)

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What the log density is off by at n points, (n,), by twice the nodes."""
        found = [part for part in self.parts.map(partial(_error, theta)) if part is not None]
        off, cut = (np.sum([part[i] for part in found], axis=0) for i in (0, 1))
        return np.abs(off - self.known) + cut

    # ---- levels -----------------------------------------------------------------------------

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Posterior means and sds of each term's levels from the groups' mean moments."""
        return self.answering.unfold(theta, weights, first, second)

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of the groups (Gq, a) to each term's levels; nothing of a level without rows."""
        return self.answering.expand(values)

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows at the nodes of their levels, whose rows are brought here."""
        asked = np.unique(codes[0][codes[0] >= 0])
        near = self.bring(asked)
        near._learn(self.center[None], move=False)
        return with_nodes(self.bent, self.nodes, near).lines(theta, X, codes, R)

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """A draw of every level at each of n points, each part's levels by a generator of its own."""
        seed = int(rng.integers(2**62))
        root = np.linalg.cholesky(np.linalg.inv(self.none._precision(theta)[0]))
        noise = rng.standard_normal((len(theta), len(self.groups.group), self.q))
        effects = noise @ root.swapaxes(1, 2)  # a level without rows keeps its prior's
        for found in self.parts.map(partial(_sample, theta, seed)):
            if found is not None:
                effects[:, found[0]] = found[1]
        places = self.none._places
        return Drawn(theta[:, : self.p], tuple(effects[:, :, at] for at in places))


class ScatteredFrozen:
    """Sums that stay near a center, each part's where it is. See: Frozen."""

    def __init__(self, many: Scattered, center: np.ndarray, spread: np.ndarray, rough: bool):
        self.many, self.p, self.spread = many, many.p, spread
        self.others = np.flatnonzero(~many.own)
        self.parts = many.parts.prepared(partial(_freeze, center, spread, many.own, rough))

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.many.kinds

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        return self.many.total(self.parts.map(partial(_log_density, theta)), theta)

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point, by differences."""
        return differenced(self.log_density, 0.125 * self.spread)(theta)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with moments of every group."""
        return joined(self.many, self.parts.map(partial(_evaluate, theta)), theta)


def joined(many: Scattered, found: Sequence[Evaluated | None], theta: np.ndarray) -> Evaluated:
    """What parts say, as of all groups, part after part."""
    there = [part for part in found if part is not None]
    value = many.total([part.value for part in there], theta)
    first, second = (np.concatenate([part[i] for part in there], axis=1) for i in (1, 2))
    return Evaluated(value, first, second)


# ---- where the rows are: a part is the sums of its levels, or None if it has no rows -----------


def _portion(_: int, part: Factor | None) -> Portion | None:
    if part is None:
        return None
    groups = part.groups
    levels = np.flatnonzero(groups.group >= 0)
    rows = float(groups.sizes @ groups.counts)
    own = shared(part)[0]
    return Portion(rows, part.G, levels, groups.group[levels], groups.counts, own)


def _work(_: int, part: Factor | None) -> float:
    return 0.0 if part is None else part.work


def _learnt(theta: np.ndarray, part: Factor | None) -> Factor | None:
    if part is None:
        return None
    here = copy(part)
    here._learn(theta[None], move=False)
    return here


def _off(theta: np.ndarray, bent: bool, nodes: int, _: int, part: Factor | None) -> Off | None:
    return None if part is None else with_nodes(bent, nodes, part)._off(theta[None])


def _error(theta: np.ndarray, _: int, part: Factor | None) -> tuple[np.ndarray, np.ndarray] | None:
    return None if part is None else part._off(theta)[:2]


def with_nodes(bent: bool, nodes: int, part: Factor | None) -> Any:
    """A part whose sums have these nodes."""
    if part is None:
        return None
    here = copy(part)
    here.bent, here.nodes = bent, nodes
    here._box = None if bent else part._box
    return here


def _freeze(
    center: np.ndarray, spread: np.ndarray, own: np.ndarray, rough: bool, part: Factor | None
) -> Frozen | None:
    return None if part is None else Frozen(part, center, spread, own, rough)


def _sample(
    theta: np.ndarray, seed: int, number: int, part: Factor | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The part's levels, and their effects (n, levels, q)."""
    if part is None:
        return None
    levels = np.flatnonzero(part.groups.group >= 0)
    drawn = part.sample(theta, np.random.default_rng([seed, number]))
    return levels, np.concatenate([effects[:, levels] for effects in drawn.effects], axis=2)


def _log_density(theta: np.ndarray, _: int, part: Factor | Frozen | None) -> np.ndarray | None:
    return None if part is None else part.log_density(theta)


def _evaluate(theta: np.ndarray, _: int, part: Factor | Frozen | None) -> Evaluated | None:
    return None if part is None else part.evaluate(theta)
