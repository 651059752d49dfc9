"""A Gaussian block whose rows are in parts, elsewhere: what parts answer is added up, and no rows return.

Each part is a `Layout` of its own rows, which has all levels' numbers, or None without rows. Rows of a
level of one factor are together in one part, and so are those of each cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..matrix_free.draws import Noise
from ..matrix_free.sums import Cells, Sums
from ..regression import Regression
from ..scattered import Parts, once
from ..terms import Term
from .layout import Layout
from .precision import Precision, Variances
from .rows import Finished, Moved, RowsHere, Tables, Weighed


class Portion(NamedTuple):
    """Of one part: rows, their constant, and levels of each factor that it has."""

    rows: int
    constant: float
    levels: list[np.ndarray]


class ScatteredLayout(Layout):
    """The same frame; `rows` and terms, of next to no rows, have the priors.

    Terms that share their levels have the same codes, others do not. kept is a term whose levels are each
    in one part.
    """

    def __init__(self, rows: Regression, terms: Sequence[Term], parts: Parts, kept: int):
        super().__init__(rows, terms)
        self.parts, self.kept = parts, kept
        found = [part for part in parts.map(_portion) if part is not None]
        self.N = sum(part.rows for part in found)
        self.constant = sum(part.constant for part in found)
        self.levels = [part.levels for part in found]
        f = next(f for f, factor in enumerate(self.factors) if kept in factor.terms)
        once(np.concatenate([part.levels[f] for part in found]))
        self.places: dict[tuple[int, int], tuple[np.ndarray, ...]] = {}

    def on(self, terms: Sequence[Term]) -> ScatteredLayout:
        """The same rows with other coordinates of the terms."""
        return ScatteredLayout(self.rows, terms, self.parts, self.kept)

    def begin(
        self,
        beta: np.ndarray,
        z: Sequence[np.ndarray],
        variances: np.ndarray | Variances | None,
    ) -> ScatteredRows:
        """The rows at means of all coefficients."""
        return ScatteredRows(self, self.parts.prepared(partial(_begun, beta, z, variances)))

    def whole(self, f: int, found: Sequence[np.ndarray]) -> np.ndarray:
        """Of the levels of each part (k, …), the sums of all levels of a factor (K, …)."""
        total = np.zeros((self.factors[f].levels, *found[0].shape[1:]))
        for levels, part in zip(self.levels, found, strict=True):
            total[levels[f]] += part
        return total

    def sums(self, found: Sequence[Sums]) -> Sums:
        """The sums of all parts."""
        every = range(len(self.factors))
        return Sums(
            float(self.N),
            np.sum([part.TT for part in found], axis=0),
            tuple(factor.levels for factor in self.factors),
            tuple(self.whole(f, [part.D[f] for part in found]) for f in every),
            tuple(self.whole(f, [part.t[f] for part in found]) for f in every),
            {
                pair: self._cells(pair, [part.cells[pair] for part in found])
                for pair in found[0].cells
            },
        )

    def _cells(self, pair: tuple[int, int], found: Sequence[Cells]) -> Cells:
        """Pairs of levels, some of which several parts have; they are the same at all weights."""
        if pair not in self.places:
            first, second = (np.concatenate([part[i] for part in found]) for i in (0, 1))
            key = first.astype(np.int64) * self.factors[pair[1]].levels + second
            _, one, of = np.unique(key, return_index=True, return_inverse=True)
            self.places[pair] = first[one], second[one], of.reshape(-1)
        first, second, of = self.places[pair]
        C = np.concatenate([part.C for part in found])
        total = np.empty((len(first), *C.shape[1:]))
        for i in range(C.shape[1]):
            for j in range(C.shape[2]):
                total[:, i, j] = np.bincount(of, C[:, i, j], len(first))
        return Cells(first, second, total)


class ScatteredRows:
    """Rows of one fit, which stay in parts with all that belongs to them. See: Rows."""

    def __init__(self, layout: ScatteredLayout, parts: Parts):
        self.layout, self.parts = layout, parts
        self.told: list[tuple[str, tuple]] = []  # what parts are told with the next question

    def widest(self) -> float:
        """The largest sd of an η."""
        return max(self._ask("widest"))

    def weigh(self, phi: list[float], widest: float) -> Weighed:
        """Rows' weights, and sums with them."""
        found = self._ask("weigh", phi, widest)
        by = zip(*(part.levels for part in found), strict=True)
        levels = [self.layout.whole(f, own) for f, own in enumerate(by)]
        sums = self.layout.sums([part.sums for part in found])
        return Weighed(np.sum([part.beta for part in found], axis=0), levels, sums)

    def step(self, beta: np.ndarray, z: Sequence[np.ndarray], variances: Variances | None) -> Moved:
        """A step of the means, and rows' variances at a new Q."""
        longest, change, last, following = zip(*self._ask("step", beta, z, variances), strict=True)
        return Moved(max(longest), sum(change), max(last), max(following))

    def take(self, fraction: float) -> None:
        """Take this much of the step of the means."""
        self.told.append(("take", (fraction,)))

    def follow(self, settled: bool) -> None:
        """Take the new variances."""
        self.told.append(("follow", (settled,)))

    def finish(self, phi: list[float], widest: float, others: Sequence[list[float]]) -> Finished:
        """What the bound needs."""
        value, spent, found = zip(*self._ask("finish", phi, widest, others), strict=True)
        return Finished(sum(value), sum(spent), np.sum(found, axis=0))

    def lean(
        self,
        variances: Variances,
        C: Sequence[np.ndarray],
        chosen: Sequence[np.ndarray],
        every: bool,
    ) -> np.ndarray:
        """How rows follow their levels."""
        return np.max(self._ask("lean", variances, C, chosen, every), axis=0)

    def tables(
        self,
        phi: list[float],
        widest: np.ndarray,
        levels: Sequence[tuple[np.ndarray, np.ndarray]],
        chosen: Sequence[np.ndarray],
    ) -> Tables:
        """Sums at each factor's nodes, and the rest."""
        found = self._ask("tables", phi, widest, levels, chosen)
        by = zip(*(part.levels for part in found), strict=True)
        whole = [self.layout.whole(f, own) for f, own in enumerate(by)]
        return Tables(whole, sum(part.rest for part in found))

    def kept(self, Q: Precision) -> Variances:
        """What rows' variances hang on, which are made again where rows are."""
        return Q.variances

    def noise(self, count: int, rng: np.random.Generator, noise: Noise) -> list[np.ndarray]:
        """Each part's by a generator of its own."""
        seed = int(rng.integers(2**62))
        found = [part for part in self.parts.map(partial(_noise, seed, count, noise)) if part]
        whole = (self.layout.whole(f, own) for f, own in enumerate(zip(*found, strict=True)))
        return [levels.reshape(-1, count) for levels in whole]

    def _ask(self, question: str, *args: Any) -> list:
        """What the parts say, after all that they were told."""
        told, self.told = [*self.told, (question, args)], []
        self.parts = self.parts.prepared(partial(_asked, told))
        return [answer for answer in self.parts.map(_answer) if answer is not None]


# ---- where the rows are: a part has its rows, and what they answered last; None without rows -----


def _portion(_: int, part: Layout | None) -> Portion | None:
    if part is None:
        return None
    return Portion(part.N, part.constant, part.own)


def _begun(
    beta: np.ndarray,
    z: Sequence[np.ndarray],
    variances: np.ndarray | Variances | None,
    part: Layout | None,
) -> tuple[RowsHere, Any] | None:
    return None if part is None else (part.begin_here(beta, z, variances), None)


def _asked(
    told: Sequence[tuple[str, tuple]], part: tuple[RowsHere, Any] | None
) -> tuple[RowsHere, Any] | None:
    if part is None:
        return None
    rows, answer = copy(part[0]), None
    for question, args in told:
        answer = getattr(rows, question)(*args)
    return rows, _of_own_levels(rows.layout, answer)


def _answer(_: int, part: tuple[RowsHere, Any] | None) -> Any:
    return None if part is None else part[1]


def _noise(
    seed: int, count: int, noise: Noise, number: int, part: tuple[RowsHere, Any] | None
) -> list[np.ndarray] | None:
    if part is None:
        return None
    rows, layout = part[0], part[0].layout
    found = rows.noise(count, np.random.default_rng([seed, number]), noise)
    return [
        by.reshape(f.levels, -1)[own]
        for by, f, own in zip(found, layout.factors, layout.own, strict=True)
    ]


def _of_own_levels(layout: Layout, answer: Any) -> Any:
    """An answer without the levels that a part does not have."""
    if not isinstance(answer, Weighed | Tables):
        return answer

    def some(found: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(part[levels] for part, levels in zip(found, layout.own, strict=True))

    answer = answer._replace(levels=list(some(answer.levels)))
    if isinstance(answer, Tables):
        return answer
    sums = answer.sums
    return answer._replace(sums=replace(sums, D=some(sums.D), t=some(sums.t)))
