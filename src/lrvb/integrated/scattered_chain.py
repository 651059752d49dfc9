"""Three nested factors and more, their rows in parts of whole outermost levels: sums return, and no rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .chain import Chain
from .inside import Drawn, Evaluated, Lines, only_new, with_effects
from .regression import Regression
from .scattered import Parts, once
from .terms import Term
from .tree import Depth


class Portion(NamedTuple):
    """Of one part: rows, their constant, levels of each factor, and the outermost one around each of them."""

    rows: int
    constant: float
    levels: list[np.ndarray]
    around: list[np.ndarray]


class ScatteredChain(Chain):
    """The same sums, each over parts. `rows` and terms, of no rows, have the priors.

    bring(levels) gives the sums of some outermost levels alone, in memory, with their numbers kept.
    """

    def __init__(
        self,
        rows: Regression,
        terms: Sequence[Term],
        parts: Parts,
        bring: Callable[[np.ndarray], Chain] | None = None,
    ):
        self.given = self.rows = rows
        self.terms, self.p, self.k = tuple(terms), rows.p, len(terms)
        self.parts, self.bring = parts, bring
        there = [part for part in parts.map(_portion) if part is not None]
        once(np.concatenate([part.levels[0] for part in there]))
        self.N = sum(part.rows for part in there)
        self.constant = sum(part.constant for part in there)
        none = np.zeros(0, dtype=np.int64)
        self.depths = tuple(
            Depth(np.concatenate([part.levels[f] for part in there]), none, none)
            for f in range(self.k)
        )
        self.around = [np.concatenate([part.around[f] for part in there]) for f in range(self.k)]
        self.of = np.broadcast_to(0, self.N)  # as long as all rows are
        self._unknown()

    # ---- sums -------------------------------------------------------------------------------

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where sds are beyond the nodes."""
        if self.information is None and len(theta) > 1:
            return np.concatenate([self.log_density(point[None]) for point in theta])
        return np.sum(self._ask(_log_density, theta), axis=0) + self._log_prior(theta)

    def of_rows(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian in β of one θ, of the rows alone."""
        self._known(theta)._nodes(theta)  # raises here what it would there
        value, gradient, H = zip(*self._ask(_of_rows, theta), strict=True)
        return sum(value), np.sum(gradient, axis=0), np.sum(H, axis=0)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z and E z² of all levels with rows, factor by factor."""
        if self.information is None and len(theta) > 1:
            each = zip(*(self.evaluate(point[None]) for point in theta), strict=True)
            return Evaluated(*map(np.concatenate, each))
        value, first, second = zip(*self._ask(_evaluate, theta), strict=True)
        moments = (
            np.concatenate([depth for by in zip(*found, strict=True) for depth in by], axis=1)
            for found in (first, second)
        )
        return Evaluated(np.sum(value, axis=0) + self._log_prior(theta), *moments)

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Σ over outermost levels of |log T − log T of about twice the nodes|, at n points (n,)."""
        here = self._known(theta[0])
        for point in theta:
            here.finer()._nodes(point)
        return np.sum(here._ask(_error, theta), axis=0)

    def some(self, every: int) -> Chain:
        """Every so many-th of the outermost levels alone."""
        levels = np.unique(self.depths[0].level)[::every]
        return ScatteredChain(self.rows, self.terms, self.parts.prepared(partial(_only, levels)))

    def _informations(self, theta: np.ndarray) -> np.ndarray:
        found = self.parts.map(partial(_informations, self._state, theta))
        return np.max([part for part in found if part is not None], axis=0)

    # ---- levels -----------------------------------------------------------------------------

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows at the nodes of their levels, whose rows are brought here."""
        own, r = with_effects(codes, R)
        found = only_new(theta, X, own, r, self.p)
        if found is not None:
            return found
        asked = [np.zeros(0, dtype=np.int64)]
        for place, around in zip(self._places(own), self.around, strict=True):
            asked.append(around[place[place >= 0]])
        assert self.bring is not None
        near = _with(self._state, self.bring(np.unique(np.concatenate(asked))))
        return near.lines(theta, X, codes, R)

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """A draw of every level at each of n points, each part's levels by a generator of its own."""
        n, sds = len(theta), np.exp(theta[:, self.p : self.p + self.k])
        seed = int(rng.integers(2**62))
        effects = tuple(  # levels without rows keep their prior's
            sds[:, [f], None] * rng.standard_normal((n, term.levels, 1))
            for f, term in enumerate(self.terms)
        )
        for found in self.parts.map(partial(_sample, self._state, theta, seed)):
            for whole, (levels, drawn) in zip(effects, found or (), strict=False):
                whole[:, levels] = drawn
        return Drawn(theta[:, : self.p], effects)

    # ---- parts ------------------------------------------------------------------------------

    @property
    def _state(self) -> dict[str, Any]:
        """The nodes that all parts have."""
        return {name: getattr(self, name) for name in ("step", "information", "_center")}

    def _known(self, theta: np.ndarray) -> ScatteredChain:
        """These sums with the information that all rows have at one θ, where none was found before."""
        if self.information is not None:
            return self
        here = copy(self)
        here.information = self._informations(theta)
        return here

    def _ask(self, question: Callable[..., Any], theta: np.ndarray) -> list:
        """What the parts say."""
        here = self._known(theta.reshape(-1, theta.shape[-1])[0])
        found = self.parts.map(partial(question, here._state, theta))
        return [part for part in found if part is not None]


# ---- where the rows are: a part is the sums of its levels, or None if it has no rows -----------


def _portion(_: int, part: Chain | None) -> Portion | None:
    if part is None:
        return None
    around = [part.depths[0].level]
    for depth in part.depths[1:]:
        around.append(around[-1][depth.parent])
    return Portion(part.N, part.constant, [depth.level for depth in part.depths], around)


def _with(state: dict[str, Any], part: Chain) -> Chain:
    here = copy(part)
    here.__dict__.update(state)
    return here


def _log_density(state: dict[str, Any], theta: np.ndarray, _: int, part: Chain | None) -> Any:
    if part is None:
        return None
    return _with(state, part).log_density(theta) - part._log_prior(theta)


def _of_rows(state: dict[str, Any], theta: np.ndarray, _: int, part: Chain | None) -> Any:
    return None if part is None else _with(state, part).of_rows(theta)


def _evaluate(state: dict[str, Any], theta: np.ndarray, _: int, part: Chain | None) -> Any:
    if part is None:
        return None
    ends = np.cumsum([len(depth.level) for depth in part.depths])[:-1]
    value, first, second = _with(state, part).evaluate(theta)
    by_depth = (np.split(moments, ends, axis=1) for moments in (first, second))
    return value - part._log_prior(theta), *by_depth


def _error(state: dict[str, Any], theta: np.ndarray, _: int, part: Chain | None) -> Any:
    return None if part is None else _with(state, part).error(theta)


def _informations(state: dict[str, Any], theta: np.ndarray, _: int, part: Chain | None) -> Any:
    return None if part is None else _with(state, part)._informations(theta)


def _only(levels: np.ndarray, part: Chain | None) -> Chain | None:
    if part is None:
        return None
    chosen = np.flatnonzero(np.isin(part.terms[0].codes, levels))
    return part.taken(chosen) if len(chosen) else None


def _sample(
    state: dict[str, Any], theta: np.ndarray, seed: int, number: int, part: Chain | None
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Levels of every factor, and their effects (n, levels, 1)."""
    if part is None:
        return None
    drawn = _with(state, part).sample(theta, np.random.default_rng([seed, number]))
    levels = (depth.level for depth in part.depths)
    return [(at, each[:, at]) for at, each in zip(levels, drawn.effects, strict=True)]
