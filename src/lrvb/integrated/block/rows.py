"""All that a Gaussian block asks of its rows: sums that add up over parts of them, and largest numbers.

What belongs to a row stays with it: its η and variance under q on their way to the optimum, then what its
levels' sums need. Methods replace arrays and never change them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from ..matrix_free.draws import Noise, signs
from ..matrix_free.sums import Sums, sum_rows
from .averages import Averages, average, nodes, sd_of

if TYPE_CHECKING:
    from .layout import Layout
    from .precision import Precision, Variances

LEAST = 1e-8  # weight of a row


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
    """Rows `at` (m,): η = η̄ + aᵀt + what is left, of sd `left`, with t a standard normal level."""

    at: np.ndarray
    a: np.ndarray
    square: np.ndarray
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
            c = variances.with_rows(layout, f, self.v, own, left)
            at = np.arange(layout.N) if every else np.flatnonzero(chosen[f][factor.codes])
            inverse = np.linalg.inv(np.linalg.cholesky(own))
            a = np.einsum("nij,nj->ni", inverse[factor.codes[at]], c[at])
            square = (a**2).sum(1)
            rest = np.sqrt(np.maximum(self.v[at] - square, 0.0))
            self.leans.append(Lean(at, a, square, rest))
        widest = sd_of(self.v[chosen[0][layout.factors[0].codes]])
        return np.array([*(part.left.max(initial=0.0) for part in self.leans), widest])

    def tables(
        self,
        phi: list[float],
        widest: np.ndarray,
        levels: Sequence[tuple[np.ndarray, np.ndarray]],
        chosen: Sequence[np.ndarray],
    ) -> Tables:
        """Sums at each factor's nodes, and the rest."""
        layout, found, rest = self.layout, [], 0.0
        for f, (factor, lean, (T, log_w)) in enumerate(
            zip(layout.factors, self.leans, levels, strict=True)
        ):
            at, scale = lean.at, len(chosen[f]) / chosen[f].sum()
            codes, cells = factor.codes[at], layout.cells[at]
            counted = chosen[f][codes]
            if f == 0:
                rest += scale * self._of_cells(phi, at[counted], widest[-1])
            table = np.empty((factor.levels, len(T)))
            for j, t in enumerate(T):
                r = self._rest_of_log_p(phi, at, lean.a @ t, lean.left, lean.square, widest[f])
                table[:, j] = np.bincount(codes, r, factor.levels)
                each = np.bincount(cells, r * counted)
                rest -= scale * np.exp(log_w[j]) * float((each**2).sum())
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

    def _of_cells(self, phi: list[float], at: np.ndarray, widest: float) -> float:
        """Σ over cells of the variance of their r, as if a cell's rows had one η; of rows `at`."""
        v = self.v[at]
        sd, total, none = np.sqrt(v), 0.0, np.zeros(len(at))
        for x, weight in nodes(max(widest, 1.0)):
            r = self._rest_of_log_p(phi, at, x * sd, none, v, 0.0)
            total += weight * float((np.bincount(self.layout.cells[at], r) ** 2).sum())
        return total

    def _rest_of_log_p(
        self,
        phi: list[float],
        at: np.ndarray,
        e: np.ndarray,
        sd: np.ndarray,
        variance: np.ndarray,
        widest: float,
    ) -> np.ndarray:
        """E log p(y | η̄ + e + sd·x) over x of rows `at`, less its parts up to the second in e.

        e has this variance; widest is the largest sd, of all parts' rows.
        """
        rows = self.layout.rows
        columns = tuple(column[at] for column in rows.columns)
        value, mean = np.zeros(len(at)), self.eta[at] + e
        for x, weight in nodes(widest) if widest > 0 else [(0.0, 1.0)]:
            value += weight * rows.likelihood.log_p(columns, mean + x * sd, phi)
        known = self.at
        value -= known.value[at] + known.score[at] * e
        return value + known.information[at] * (e**2 - variance) / 2
