"""The outer of two nested factors as a factor by itself: its rows' density has the inner levels summed out.

Σ_m log ∫ Π_n p(y_n | η_n + o + e) N(e; 0, sd²) de over the inner levels m of an outer one is a
concave function of its effect o if log p is one of η, and the inner sd is a dispersion of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import numpy as np

from .coordinates import FREE, LOG, Kind
from .factor_nodes import TOLERANCE
from .groups import Groups
from .inside import Evaluated, Summed
from .levels import Levels
from .nested import Nested
from .nested_sums import STEPS, TooManyNodes
from .regression import Regression
from .row_sums import OneEffect, RowSums
from .surrogate import NotSmooth

_TINY = np.finfo(float).tiny
_PLACES = np.linspace(0.3, 0.7, 5)  # between the ends of an outer level's grid


class Outer(Levels):
    """θ = (β, log sd of outer, log sd of inner, dispersions), with tables of the outer levels in mind."""

    extra = 1

    def __init__(self, nested: Nested):
        self.nested = nested
        super().__init__(nested.given, nested.outer, merge=False)
        # groups here have more rows first: the place of each among the nested sums' own
        place = np.empty(self.G, dtype=np.int64)
        there = self.groups.group >= 0
        place[self.groups.group[there]] = nested.above.group[there]
        self.place = place

    def _arrange(self, rows: Regression, R: np.ndarray) -> None:
        super()._arrange(rows, R)
        self._exponential = None

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return FREE * self.p + 2 * LOG + self.rows.likelihood.kinds

    @property
    def exact(self) -> Summed:
        """The same from the rows, with inner nodes twice as dense."""
        finer, nested = copy(self), copy(self.nested)
        nested.step = self.nested.step / 2
        finer.nested, finer.table = nested, None
        return finer

    def choose_step(self, theta: np.ndarray) -> None:
        """The widest step of inner nodes that suffices where the outer levels' effects are at θ (d,).

        `NotSmooth` where there would be too many of them.
        """
        nested = self.nested
        nested.information, nested._center = nested._informations(theta), theta[self.p :]
        nested.single = True
        ends = self._ends(theta[None])
        self._center, self._start = theta.copy(), ends.z[0]
        Z = ends.z + ends.C[..., 0] * (ends.low + (ends.high - ends.low) * _PLACES)
        for step in STEPS:
            found = []
            for nested.step in (step / 2, step):
                found.append(self._rows_at(theta[None]).line(Z)[0])
            if not np.isfinite(found).all():
                raise NotSmooth("Rows know inner levels too well for nodes that all of them share.")
            if np.abs(found[0] - found[1]).sum(0).max() < TOLERANCE:
                break

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z and E z² of outer levels, then inner ones, (n, G + M)."""
        n, G, M = len(theta), self.G, len(self.nested.starts)
        value, first, second = np.full(n, -np.inf), np.zeros((n, G + M)), np.zeros((n, G + M))
        runs = _runs(self)
        for at, sums in self._run(theta, self._possible(self._covered(theta))):
            value[at] = sums.value
            P = sums.P / sums.total[..., None]
            first[np.ix_(at, self.place)] = (P * sums.grid).sum(2)
            second[np.ix_(at, self.place)] = (P * sums.grid**2).sum(2)
            for i, k in enumerate(at):
                point = _inner(self.nested, theta[k])
                if point is None:
                    value[k] = -np.inf
                    continue
                for g, run in enumerate(runs):
                    F, F1, F2 = _moments(point, run, sums.grid[i, g])
                    A, inner = P[i, g] / F, slice(G + run.start, G + run.stop)
                    first[k, inner] = (A * F1).sum(1)
                    second[k, inner] = (A * F2).sum(1)
        return Evaluated(value, first, second)

    def start(self) -> np.ndarray:
        """A first θ."""
        return self.nested.start()

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        return self.nested._log_prior(theta)

    def _rows_at(self, theta: np.ndarray) -> RowSums:
        return OuterSums.of(self, theta) if self.table is None else self.table.at(theta)


class _Inner(NamedTuple):
    """Of one point: nodes t (Q,), W (M, Q) of the inner levels there, their peaks' sums (G,), inner sd."""

    t: np.ndarray
    W: np.ndarray
    peak: np.ndarray
    sd: float


class OuterSums(OneEffect):
    """Sums over inner levels at outer effects. See: RowSums."""

    def __init__(self, outer: Outer, points: tuple[_Inner | None, ...]):
        self.outer, self.points, self.runs = outer, points, _runs(outer)

    @classmethod
    def of(cls, outer: Outer, theta: np.ndarray) -> OuterSums:
        """At points θ (n, d)."""
        return cls(outer, tuple(_inner(outer.nested, point) for point in theta))

    def take(self, points: np.ndarray) -> RowSums:
        """At some of the points."""
        return OuterSums(self.outer, tuple(self.points[i] for i in points))

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of the outer effect, (n, G, Q); −∞ where there would be too many inner nodes."""
        result = np.full(Z.shape, -np.inf)
        for i, point in self._there():
            for g, run in enumerate(self.runs):
                F = point.W[run] @ _density(point, Z[i, g])[0]
                result[i, g] = np.log(np.maximum(F, _TINY)).sum(0)
            result[i] += point.peak[self.outer.place, None]
        return result

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at effects (n, G, 1).

        With e given y and o they are Σ E e/sd² and Σ (1 − Var e/sd²)/sd².
        """
        gradient, information = np.zeros(z.shape), np.zeros((*z.shape, 1))
        for i, point in self._there():
            variance = point.sd**2
            for g, run in enumerate(self.runs):
                F, F1, F2 = _moments(point, run, z[i, g])
                mean = F1 / F
                spread = F2 / F - mean**2
                gradient[i, g] = mean.sum() / variance
                information[i, g] = (1 - spread / variance).sum() / variance
        return gradient, information

    def _there(self) -> Iterator[tuple[int, _Inner]]:
        return ((i, point) for i, point in enumerate(self.points) if point is not None)


def _runs(outer: Outer) -> list[slice]:
    """The inner levels of each outer one."""
    above: Groups = outer.nested.above
    ends = np.append(above.starts, len(above.of))
    return [slice(int(ends[g]), int(ends[g + 1])) for g in outer.place]


def _moments(point: _Inner, run: slice, o: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∫ e^k Π p(y | o + e) N(e) de of a run of inner levels at outer effects o (Q,), for k = 0, 1, 2."""
    K, e = _density(point, o)
    found = point.W[run] @ np.hstack([K, K * e, K * e**2])
    F, F1, F2 = np.split(found, 3, axis=1)
    return np.maximum(F, _TINY), F1, F2


def _inner(nested: Nested, theta: np.ndarray) -> _Inner | None:
    try:
        grid = nested._grid(theta, apart=False)
    except TooManyNodes:  # −∞ there, as where both are summed together
        return None
    eta = nested.rows.predictor(theta[None, : nested.p])[0]
    W, peak = nested._weights(theta, eta, grid.t, np.float64)
    return _Inner(grid.t, W, nested.above.sum(peak[:, 0], axis=0), grid.inner)


def _density(point: _Inner, o: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """N(t − o; 0, sd²) times the step (Q, outer nodes), and t − o."""
    e = point.t[:, None] - o
    step = (point.t[1] - point.t[0]) / (point.sd * np.sqrt(2 * np.pi))
    return np.exp(-((e / point.sd) ** 2) / 2) * step, e
