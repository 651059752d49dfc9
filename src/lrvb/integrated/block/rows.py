"""All that a Gaussian block asks of its rows: sums that add up over parts of them, and largest numbers.

What belongs to a row stays with it: its η and variance under q on their way to the optimum, then what its
levels' sums need. Methods replace arrays and never change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ..matrix_free.draws import Noise, signs
from ..matrix_free.sums import Sums, sum_rows
from .averages import Averages, average, nodes, sd_of

if TYPE_CHECKING:
    from .layout import Layout
    from .precision import Precision, Variances

LEAST = 1e-8  # weight of a row
WIDEST = 1.0  # sd of η for which a row's variance has nodes at least
TOGETHER = 2**14  # rows times nodes at a time


class Weighed(NamedTuple):
    """Σ scoreᵀX (p,) and by levels (K, q) each; the sums of rows by their weights."""

    beta: np.ndarray
    levels: list[np.ndarray]
    sums: Sums


class Moved(NamedTuple):
    """Of one step: the longest change of an η, and Σ (w·change)² of variances.

    last and next are the largest sd of an η after it, where it is the last one and where it is not.
    """

    longest: float
    change: float = 0.0
    last: float = 0.0
    next: float = 0.0


class Finished(NamedTuple):
    """Σ E log p, Σ wv, and the first at other dispersions."""

    value: float
    spent: float
    others: np.ndarray


class Tables(NamedTuple):
    """Of each factor Σ r over the rows of a level, at its nodes (K, J); twice what no level has alone."""

    levels: list[np.ndarray]
    rest: float


class Rows(Protocol):
    """The rows of one fit."""

    def widest(self) -> float:
        """The largest sd of an η."""

    def weigh(self, phi: list[float], widest: float) -> Weighed:
        """Rows' weights E_q[W], and sums with them."""

    def step(self, beta: np.ndarray, z: Sequence[np.ndarray], variances: Variances | None) -> Moved:
        """A step of the means, and rows' variances at a new Q; None leaves these as they are."""

    def take(self, fraction: float) -> None:
        """Take this much of the step of the means."""

    def follow(self, settled: bool) -> None:
        """Take the new variances: all of them where they have settled, else as far as they do not swing."""

    def finish(self, phi: list[float], widest: float, others: Sequence[list[float]]) -> Finished:
        """What the bound needs."""

    def lean(
        self,
        variances: Variances,
        C: Sequence[np.ndarray],
        chosen: Sequence[np.ndarray],
        every: bool,
    ) -> np.ndarray:
        """How rows follow their level of each factor, whose covariances are C; largest sds of what is left.

        Of every level, or of those `chosen` (K,). The last is the largest sd of the first factor's chosen.
        """

    def tables(
        self,
        phi: list[float],
        widest: np.ndarray,
        levels: Sequence[tuple[np.ndarray, np.ndarray]],
        chosen: Sequence[np.ndarray],
    ) -> Tables:
        """Sums at each factor's nodes and their weights; the rest of `chosen` levels alone."""

    def kept(self, Q: Precision) -> np.ndarray | Variances:
        """What a later fit near by begins with: rows' variances (N,), or what they hang on."""

    def noise(self, count: int, rng: np.random.Generator, noise: Noise) -> list[np.ndarray]:
        """Σ_n √w_n c_n e_n of each factor's levels, (Kq, count), with signs or normal e. See: Perturbed."""


class Lean(NamedTuple):
    """Rows `at` (m,): η = η̄ + aᵀt + what is left, of sd `left`, with t a standard normal level.

    They are in the order of their cells, which begin at `starts` and have all levels and columns in common.
    """

    at: np.ndarray
    starts: np.ndarray
    a: np.ndarray
    left: np.ndarray


class RowsHere:
    """Rows that are here. See: Rows."""

    def __init__(self, layout: Layout, eta: np.ndarray, v: np.ndarray):
        self.layout, self.eta, self.v = layout, eta, v
        self.damp, self.last = np.ones(layout.N), np.zeros(layout.N)
        self.at: Averages
        self.w: np.ndarray
        self.leans: list[Lean]

    def widest(self) -> float:
        """The largest sd of an η."""
        return sd_of(self.v)

    def weigh(self, phi: list[float], widest: float) -> Weighed:
        """Rows' weights, and sums with them."""
        layout, rows = self.layout, self.layout.rows
        self.at = average(rows.likelihood, rows.columns, phi, self.eta, self.v, widest)
        self.w = np.maximum(self.at.information, LEAST)
        root = np.sqrt(self.w)[:, None]
        scaled = [f._replace(R=f.R * root, weights=None) for f in layout.factors]
        sums = sum_rows(scaled, rows.X * root, np.zeros(layout.N))
        return Weighed(rows.X.T @ self.at.score, layout.by_level(self.at.score), sums)

    def step(self, beta: np.ndarray, z: Sequence[np.ndarray], variances: Variances | None) -> Moved:
        """A step of the means, and rows' variances at a new Q."""
        self.moved = self.layout.rows.X @ beta + self.layout.through_levels(z)
        longest = float(np.abs(self.moved).max())
        if variances is None:
            return Moved(longest)
        self.new = variances.of_rows(self.layout)
        self.change = self.new - self.v
        swings = self.change * self.last < 0
        self.damp = np.where(swings, self.damp / 2, np.minimum(1.0, 1.3 * self.damp))
        change = float(((self.w * self.change) ** 2).sum())
        return Moved(longest, change, sd_of(self.new), sd_of(self._next))

    @property
    def _next(self) -> np.ndarray:
        return self.v + self.damp * self.change

    def take(self, fraction: float) -> None:
        """Take this much of the step of the means."""
        self.eta = self.eta + fraction * self.moved

    def follow(self, settled: bool) -> None:
        """Take the new variances."""
        self.v = self.new if settled else self._next
        self.last = self.change

    def finish(self, phi: list[float], widest: float, others: Sequence[list[float]]) -> Finished:
        """What the bound needs."""
        rows = self.layout.rows

        def at(phi: list[float]) -> Averages:
            return average(rows.likelihood, rows.columns, phi, self.eta, self.v, widest)

        self.at = at(phi)
        found = np.array([at(other).value.sum() for other in others])
        return Finished(float(self.at.value.sum()), float(self.w @ self.v), found)

    def lean(
        self,
        variances: Variances,
        C: Sequence[np.ndarray],
        chosen: Sequence[np.ndarray],
        every: bool,
    ) -> np.ndarray:
        """How rows follow their levels."""
        layout, left, self.leans = self.layout, variances.left(self.layout), []
        for f, (factor, own) in enumerate(zip(layout.factors, C, strict=True)):
            c, at = variances.with_rows(layout, f, self.v, own, left), layout.by_cell
            if not every:
                at = at[chosen[f][factor.codes[at]]]
            inverse = np.linalg.inv(np.linalg.cholesky(own))
            a = np.einsum("nij,nj->ni", inverse[factor.codes[at]], c[at])
            rest = np.sqrt(np.maximum(self.v[at] - (a**2).sum(1), 0.0))
            starts = np.flatnonzero(np.diff(layout.cells[at], prepend=-1))
            self.leans.append(Lean(at, starts, a, rest))
        widest = sd_of(self.v[chosen[0][layout.factors[0].codes]])
        return np.array([*(part.left.max(initial=0.0) for part in self.leans), widest])

    def tables(
        self,
        phi: list[float],
        widest: np.ndarray,
        levels: Sequence[tuple[np.ndarray, np.ndarray]],
        chosen: Sequence[np.ndarray],
        rule: Iterable[tuple[float, float]] | None = None,
    ) -> Tables:
        """Sums at each factor's nodes, and the rest, with rows' variances by a rule's nodes and weights."""
        found, rest = [], 0.0
        rule = rule or nodes(max(widest[-1], WIDEST))
        for f, (factor, lean, (T, log_w)) in enumerate(
            zip(self.layout.factors, self.leans, levels, strict=True)
        ):
            level = factor.codes[lean.at[lean.starts]]
            counted, scale = chosen[f][level], len(chosen[f]) / chosen[f].sum()
            if f == 0:
                rest += scale * self._variance(phi, lean, counted, rule)
            table = np.empty((factor.levels, len(T)))
            for here, r in self._rest_of_log_p(phi, lean, T, widest[f]):
                for j, each in zip(range(len(T))[here], r, strict=True):
                    table[:, j] = np.bincount(level, each, len(table))
                rest -= scale * float(np.exp(log_w[here]) @ (r[:, counted] ** 2).sum(1))
            found.append(table)
        return Tables(found, rest)

    def kept(self, Q: Precision) -> np.ndarray:
        """Rows' variances."""
        return self.v

    def noise(self, count: int, rng: np.random.Generator, noise: Noise) -> list[np.ndarray]:
        """One e for all rows of a cell, whose c are alike; its signs are its own, wherever the rows are."""
        layout = self.layout
        at = layout.one_of_cells
        size = np.sqrt(np.bincount(layout.cells, self.w))
        found = [np.empty((f.levels, f.q, count)) for f in layout.factors]
        for j in range(count):
            e = size * (layout.signs_of_cells(j) if noise is signs else noise(rng, size.shape))
            for by, factor in zip(found, layout.factors, strict=True):
                for i, r in enumerate(factor.R[at].T):
                    by[:, i, j] = np.bincount(factor.codes[at], e * r, factor.levels)
        return [by.reshape(-1, count) for by in found]

    def _variance(
        self,
        phi: list[float],
        lean: Lean,
        counted: np.ndarray,
        rule: Iterable[tuple[float, float]],
    ) -> float:
        """Σ E r² of cells that count, as if a cell's rows had one η."""
        x, weights = (np.array(part) for part in zip(*rule, strict=True))
        sd = np.sqrt(self.v[lean.at])
        alone = lean._replace(a=sd[:, None], left=np.zeros_like(sd))
        return sum(
            float(weights[here] @ (r[:, counted] ** 2).sum(1))
            for here, r in self._rest_of_log_p(phi, alone, x[:, None], 0.0)
        )

    def _rest_of_log_p(
        self, phi: list[float], lean: Lean, T: np.ndarray, widest: float
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Of some t in T (J, q) at a time every cell's Σ r_n(t), (·, C).

        With η = η̄ + aᵀt + e, r_n(t) is E log p(y | η) over e less its parts up to the second in aᵀt; widest
        is the largest sd of an e, of all parts' rows.
        """
        at, starts, a, left = lean
        rows = self.layout.rows
        columns = tuple(column[at] for column in rows.columns)
        score, information = self.at.score[at], self.at.information[at]

        def sums(each: np.ndarray) -> np.ndarray:
            return each if len(starts) == len(at) else np.asarray(np.add.reduceat(each, starts, -1))

        known = [self.at.value[at] + information * (a**2).sum(1) / 2]
        known += [score * own for own in a.T]
        known += [-information * x * y / 2 for x in a.T for y in a.T]
        coefficients = sums(np.array(known))
        inner = list(nodes(widest)) if widest > 0 else [(0.0, 1.0)]
        step = max(1, TOGETHER // max(len(at), 1))
        for start in range(0, len(T), step):
            here = slice(start, start + step)
            t = T[here]
            mean = t @ a.T
            mean += self.eta[at]
            value = sum(
                weight * rows.likelihood.log_p(columns, mean + x * left, phi) for x, weight in inner
            )
            squares = (t[:, :, None] * t[:, None, :]).reshape(len(t), -1)
            powers = np.hstack([np.ones((len(t), 1)), t, squares])
            yield here, sums(np.asarray(value)) - powers @ coefficients
