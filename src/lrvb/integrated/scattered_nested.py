"""Two nested factors, their rows in parts of whole outer levels: what sums say returns, and no rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .inner import Inner, InnerSums
from .inside import Drawn, Evaluated, Lines, only_new, with_effects
from .nested import Nested
from .nested_sums import largest
from .regression import Regression
from .scattered import Parts, once
from .terms import Term

Bring = Callable[[np.ndarray], Nested]


class Portion(NamedTuple):
    """Of one part: rows; its outer levels, inner ones and the outer level of each, in the order of its sums.

    constant is that of its rows, `most` rows of an inner level; columns of X are between low and high.
    """

    rows: int
    outer: np.ndarray
    inner: np.ndarray
    parent: np.ndarray
    constant: float
    most: float
    low: np.ndarray
    high: np.ndarray


class ScatteredNested(Nested):
    """The same sums, each over parts. `rows` and terms, of no rows, have the priors.

    bring(levels) gives the sums of some outer levels alone, in memory, with their numbers kept.
    """

    def __init__(
        self, rows: Regression, outer: Term, inner: Term, parts: Parts, bring: Bring | None = None
    ):
        self.parts, self.bring = parts, bring
        found = parts.map(_portion)
        there = [part for part in found if part is not None]
        self.sizes = [
            (0, 0) if part is None else (len(part.outer), len(part.inner)) for part in found
        ]
        self.N = sum(part.rows for part in there)
        self.outer_level = np.concatenate([part.outer for part in there])
        self.inner_level = np.concatenate([part.inner for part in there])
        self.parent = np.concatenate([part.parent for part in there])
        self.G, self.M = len(self.outer_level), len(self.inner_level)
        once(self.outer_level)
        self.constant = float(sum(part.constant for part in there))
        self.largest = max(part.most for part in there)
        # a row for each outer level, whose columns differ where those of all rows do
        low, high = (
            np.min([part.low for part in there], 0),
            np.max([part.high for part in there], 0),
        )
        X = np.tile(low, (self.G, 1))
        X[-1] = high
        columns = tuple(np.repeat(column[:1], self.G) for column in rows.columns)
        self.given = self.rows = replace(rows, columns=columns, X=X, offset=np.zeros(self.G))
        self.outer = replace(outer, codes=self.outer_level, R=np.ones((self.G, 1)))
        self.inner, self.p = inner, rows.p
        self._unknown()

    # ---- sums -------------------------------------------------------------------------------

    def of_rows(self, theta: np.ndarray) -> np.ndarray:
        """The log density of the rows alone, at n points (n,)."""
        if self.information is None and len(theta) > 1:
            return np.concatenate([self.of_rows(point[None]) for point in theta])
        return np.sum(self._ask(_of_rows, theta), axis=0)

    def derivatives_of_rows(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian of one θ (d,)."""
        here = self._known(theta)
        here._grid(theta)  # raises here what it would there
        value, gradient, H = zip(*here._ask(_derivatives, theta), strict=True)
        return float(sum(value)), np.sum(gradient, axis=0), np.sum(H, axis=0)

    def moments_of_rows(self, theta: np.ndarray) -> Evaluated:
        """Log density of the rows, and moments of all levels, at n points."""
        value, first, second = zip(*self._ask(_moments, theta), strict=True)
        return Evaluated(np.sum(value, axis=0), self._joined(first), self._joined(second))

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What sums with these nodes are off by at n points, (n,)."""
        here, finer = self._known(theta[0]), self.finer()
        finer.information = here.information
        for point in theta:
            finer._grid(point)
        return np.sum(here._ask(_error, theta), axis=0)

    def _informations(self, theta: np.ndarray) -> tuple[float, float]:
        return largest(self._ask(_informations, theta, ready=True))

    def inner_sums(self, theta: np.ndarray) -> InnerSums:
        """The inner levels alone, at n points, for outer effects that are known."""
        return ScatteredInner(self, self.parts.prepared(partial(_inner, self._state, theta)))

    def around(
        self, theta: np.ndarray, Z: np.ndarray, P: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Moments of all levels, with outer effects Z (n, G, Q) of probabilities P."""
        ask = partial(_around, self._state, theta)
        found = self.parts.map(ask, self.split(Z), self.split(P))
        first, second = zip(*(part for part in found if part is not None), strict=True)
        return self._joined(first), self._joined(second)

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Of all outer levels (n, G, …), those of each part."""
        return np.split(values, np.cumsum([outer for outer, _ in self.sizes])[:-1], axis=1)

    # ---- some of the rows -------------------------------------------------------------------

    def some(self, every: int) -> Nested:
        """Every so many-th outer level alone."""
        return self._of(partial(_of_outer, self.every_outer(every)))

    def of_some_inner(self, every: int) -> Nested:
        """Every so many-th inner level of each outer one alone."""
        return self._of(partial(_of_some_inner, every))

    def of_some_rows(self, every: int) -> Nested:
        """Every so many-th row of each inner level alone."""
        return self._of(partial(_of_some_rows, every))

    def _of(self, function: Callable[[Any], Any]) -> ScatteredNested:
        none = self.rows.take(np.zeros(1, dtype=np.int64))
        return ScatteredNested(none, self.outer, self.inner, self.parts.prepared(function))

    # ---- levels -----------------------------------------------------------------------------

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows at the nodes of their levels, whose rows are brought here."""
        outer, inner = codes
        own, r = with_effects(codes, R)
        found = only_new(theta, X, own, r, self.p)
        assert self.bring is not None
        around = np.full(self.inner.levels, -1)
        around[self.inner_level] = self.parent
        asked = np.union1d(outer, around[inner[inner >= 0]])
        if found is not None:
            return found
        near = self.bring(asked[asked >= 0])
        near.__dict__.update(self._state)
        return near.lines(theta, X, codes, R)

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """A draw of every level at each of n points, each part's levels by a generator of its own."""
        n, sds = len(theta), np.exp(theta[:, self.p : self.p + 2])
        seed = int(rng.integers(2**62))
        effects = tuple(  # levels without rows keep their prior's
            sds[:, [f], None] * rng.standard_normal((n, term.levels, 1))
            for f, term in enumerate((self.outer, self.inner))
        )
        for found in self.parts.map(partial(_sample, self._state, theta, seed)):
            for whole, (levels, drawn) in zip(effects, found or (), strict=False):
                whole[:, levels] = drawn
        return Drawn(theta[:, : self.p], effects)

    # ---- parts ------------------------------------------------------------------------------

    @property
    def _state(self) -> dict[str, Any]:
        """The nodes that all parts have."""
        names = "step", "single", "information", "_center"
        return {name: getattr(self, name) for name in names}

    def _known(self, theta: np.ndarray) -> ScatteredNested:
        """These sums with the information that all rows have at one θ, where none was found before."""
        if self.information is not None:
            return self
        here = copy(self)
        here.information = self._informations(theta)
        return here

    def _ask(self, question: Callable[..., Any], theta: np.ndarray, ready: bool = False) -> list:
        """What the parts say."""
        here = self if ready else self._known(theta.reshape(-1, theta.shape[-1])[0])
        found = self.parts.map(partial(question, here._state, theta))
        return [part for part in found if part is not None]

    def _joined(self, found: Sequence[np.ndarray]) -> np.ndarray:
        """Moments of all levels (n, G + M), the outer ones first, from those of the parts that have rows."""
        sizes = [outer for outer, inner in self.sizes if inner]
        halves = [np.split(part, [G], axis=1) for part, G in zip(found, sizes, strict=True)]
        return np.concatenate([half[i] for i in (0, 1) for half in halves], axis=1)


class ScatteredInner:
    """Sums over inner levels in parts, at those of `points`. See: InnerSums."""

    def __init__(self, nested: ScatteredNested, parts: Parts, points: np.ndarray | None = None):
        self.nested, self.parts, self.points = nested, parts, points

    def take(self, points: np.ndarray) -> InnerSums:
        """At some of the points."""
        own = points if self.points is None else self.points[points]
        return ScatteredInner(self.nested, self.parts, own)

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At outer effects (n, G, Q), (n, G, Q)."""
        found = self.parts.map(partial(_line, self.points), self.nested.split(Z))
        return np.concatenate([part for part in found if part is not None], axis=1)

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at outer effects (n, G, 1)."""
        found = self.parts.map(partial(_slopes, self.points), self.nested.split(z))
        first, second = zip(*(part for part in found if part is not None), strict=True)
        return np.concatenate(first, axis=1), np.concatenate(second, axis=1)


# ---- where the rows are: a part is the sums of its levels, or None if it has no rows -----------


def _portion(_: int, part: Nested | None) -> Portion | None:
    if part is None:
        return None
    X, parent = part.rows.X, part.outer_level[part.above.of]
    low, high = X.min(0), X.max(0)
    own = part.outer_level, part.inner_level, parent
    return Portion(part.N, *own, part.constant, part.largest, low, high)


def _with(state: dict[str, Any], part: Nested) -> Nested:
    here = copy(part)
    here.__dict__.update(state)
    return here


def _of_rows(state: dict[str, Any], theta: np.ndarray, _: int, part: Nested | None) -> Any:
    return None if part is None else _with(state, part).of_rows(theta)


def _derivatives(state: dict[str, Any], theta: np.ndarray, _: int, part: Nested | None) -> Any:
    return None if part is None else _with(state, part).derivatives_of_rows(theta)


def _error(state: dict[str, Any], theta: np.ndarray, _: int, part: Nested | None) -> Any:
    return None if part is None else _with(state, part).error(theta)


def _informations(state: dict[str, Any], theta: np.ndarray, _: int, part: Nested | None) -> Any:
    return None if part is None else _with(state, part)._informations(theta)


def _moments(state: dict[str, Any], theta: np.ndarray, _: int, part: Nested | None) -> Any:
    return None if part is None else _with(state, part).moments_of_rows(theta)


def _around(
    state: dict[str, Any],
    theta: np.ndarray,
    _: int,
    part: Nested | None,
    Z: np.ndarray,
    P: np.ndarray,
) -> Any:
    return None if part is None else _with(state, part).around(theta, Z, P)


def _inner(state: dict[str, Any], theta: np.ndarray, part: Nested | None) -> InnerSums | None:
    return None if part is None else Inner.of(_with(state, part), theta)


def _line(points: np.ndarray | None, _: int, part: InnerSums | None, Z: np.ndarray) -> Any:
    return None if part is None else (part if points is None else part.take(points)).line(Z)


def _slopes(points: np.ndarray | None, _: int, part: InnerSums | None, z: np.ndarray) -> Any:
    return None if part is None else (part if points is None else part.take(points)).slopes(z)


def _of_outer(levels: np.ndarray, part: Nested | None) -> Nested | None:
    return None if part is None else _some(part, np.isin(part.outer.codes, levels))


def _some(part: Nested, kept: np.ndarray) -> Nested | None:
    return part.taken(np.flatnonzero(kept)) if kept.any() else None


def _of_some_inner(every: int, part: Nested | None) -> Nested | None:
    return None if part is None else part.of_some_inner(every)


def _of_some_rows(every: int, part: Nested | None) -> Nested | None:
    return None if part is None else part.of_some_rows(every)


def _sample(
    state: dict[str, Any], theta: np.ndarray, seed: int, number: int, part: Nested | None
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Levels of both factors, and their effects (n, levels, 1)."""
    if part is None:
        return None
    drawn = _with(state, part).sample(theta, np.random.default_rng([seed, number]))
    levels = part.outer_level, part.inner_level
    return [(at, each[:, at]) for at, each in zip(levels, drawn.effects, strict=True)]
