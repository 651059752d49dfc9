"""Grids and sums of two nested factors: with t = outer + inner, rows are evaluated once for all levels.

The inner integral at every outer node o_j is one matrix product exp(L) K, K_qj = N(t_q − o_j; 0, sd²).
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple, Self

import numpy as np

from .coordinates import FREE, LOG, Kind
from .effort import APART
from .factor_nodes import TOLERANCE
from .groups import gather
from .nested_grids import REACH, Grid, Halves, TooManyNodes, half_of, own_nodes
from .regression import Regression, lifted
from .terms import Term

# steps of the grid, in units of the smallest conditional sd
STEPS = 1.6, 1.3, 1.0, 0.8, 0.6, 0.45, 0.35, 0.25
_START = 0.8  # a step that is safe before any was chosen
_WIDEST = 1.15  # the largest unit: log(1 + e^t) is analytic within π of the real line
_MOST = 3000  # nodes of a grid
_LONG = 4000  # products of nodes, over nodes of an inner effect, from which on a look pays
_LOOKED = 25  # nodes at a time that are looked at,
_FALL = 40.0  # and the fall of the log integrand beyond them
_COARSE = 41  # nodes on which a level's information is first looked for
_SINGLE = 1e-25  # of an inner sum where its outer effect most probably is, for single precision
_LARGEST = 200.0  # |η| for which exponentials are far from overflow
_ROOM = 600.0  # the largest logarithm of a product
_CELLS = 2**16  # rows × nodes at a time: what fits a processor's cache
_EXTREME = 8.0  # |log sd| up to which grids are made
_TINY = np.finfo(float).tiny


class Sums(NamedTuple):
    """Of one θ: log p(y | θ); error; grid; W = exp(L)/peak (M, Q); F = WK (M, J); P (G, J) of o; eta."""

    value: float
    error: float
    grid: Grid
    W: np.ndarray
    F: np.ndarray
    P: np.ndarray
    eta: np.ndarray


class NestedSums:
    """θ = (β, log sd of outer, log sd of inner, dispersions), with both factors' levels summed out.

    Every level of `inner` lies within one of `outer`; each has one intercept.
    """

    def __init__(self, rows: Regression, outer: Term, inner: Term):
        self.given, self.outer, self.inner = rows, outer, inner
        self.within = gather(inner.codes, inner.levels)
        parent = outer.codes[self.within.rows][self.within.starts]
        # inner groups are put in the order of their outer level, so that both are runs
        order = np.argsort(parent, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        placed = rank[self.within.of]
        by_place = np.argsort(placed, kind="stable")
        self.given_row = self.within.rows[by_place]
        self.rows = rows.take(self.given_row)
        self.of = placed[by_place]
        self.starts = np.searchsorted(self.of, np.arange(len(order)))
        # levels with rows, in the order of the sums
        self.inner_level = inner.codes[self.within.rows][self.within.starts][order]
        self.above = gather(parent[order], outer.levels)
        self.outer_level = np.flatnonzero(self.above.group >= 0)
        self.N, self.M, self.G = len(self.of), len(self.inner_level), len(self.outer_level)
        self.constant = rows.likelihood.constant(rows.columns)
        self.p = rows.p
        # rows of the largest inner level, of one trial each
        single = all(bool(np.all(column == 1)) for column in rows.columns[1:])
        self.largest = float(np.bincount(self.of).max()) if single else np.inf
        self._unknown()

    def _unknown(self) -> None:
        """Nothing is known of the nodes."""
        self.information: tuple[float, float] | None = None
        self.step, self.single = _START, False
        self._center = self.start()[self.p :]

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return FREE * self.p + 2 * LOG + self.rows.likelihood.kinds

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor."""
        return self.outer.levels

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, sds of ½, dispersions at their start."""
        tail = self.rows.dispersion_start()
        return np.concatenate([self.rows.mean, np.full(2, np.log(0.5 * self.rows.unit)), tail])

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where sds are beyond the grids.

        Only tails are: at the mode, `derivatives` and `choose_nodes` raise instead.
        """
        return self.of_rows(theta) + self._log_prior(theta)

    def of_rows(self, theta: np.ndarray) -> np.ndarray:
        """The same of the rows alone, without their constant."""
        result = np.full(len(theta), -np.inf)
        for i in self._possible(theta):
            with contextlib.suppress(TooManyNodes):
                result[i] = self._sums(theta[i]).value
        return result

    def finer(self) -> Self:
        """The same sums with twice the nodes; a θ may need more than is sensible then, TooManyNodes."""
        finer = copy(self)
        finer.step = self.step / 2
        return finer

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Σ over outer levels of |log T − log T of twice the nodes|, at n points (n,)."""
        finer = self.finer()
        return np.array([finer._sums(t, half=True).error for t in theta])

    def choose_nodes(self, theta: np.ndarray, tolerance: float = TOLERANCE) -> None:
        """The widest grid steps whose error is within a tolerance at all n points."""
        self._center = theta[0, self.p :]
        found = [self._informations(t) for t in theta]
        self.information = largest(found)
        self.single = self.is_rough
        for step in STEPS:
            self.step = step
            if self.error(theta).max() < tolerance:
                return

    @property
    def work(self) -> float:
        """Rows times nodes of outer + inner, and the product with the outer nodes."""
        grid = self._grid(np.r_[self.rows.mean, self._center])
        products = self.M * len(grid.t) * len(grid.o) / 20
        return self.N * len(grid.t) + products + 1000

    @property
    def is_rough(self) -> bool:
        """Whether single precision will do: not where sums over parts are to be those over all rows."""
        return self.N <= APART

    def _possible(self, theta: np.ndarray) -> np.ndarray:
        """Indices of points whose sds the grids can cover, but for how many nodes that takes."""
        sds = theta[:, self.p : self.p + 2] - np.log(self.rows.unit)
        return np.flatnonzero((np.abs(sds) < _EXTREME).all(1))

    def covered(self, theta: np.ndarray) -> np.ndarray:
        """Indices of points that have sums, with the information that was last found of the rows."""
        assert self.information is not None
        few = [
            self._halves(theta[i], self.information).size <= _MOST for i in self._possible(theta)
        ]
        return self._possible(theta)[np.array(few, dtype=bool)]

    def shares(self, theta: np.ndarray) -> np.ndarray:
        """Whether one grid for all outer levels' effects has few enough nodes at each of n points, (n,)."""
        assert self.information is not None
        halves = [self._halves(point, self.information) for point in theta]
        return np.array([2 * half.shared + 1 <= _MOST for half in halves], dtype=bool)

    def _informations(self, theta: np.ndarray) -> tuple[float, float]:
        """The largest information that rows have of an inner level, and of an outer level."""
        p = self.p
        sd_o, sd_i = np.exp(theta[p : p + 2])
        total = np.hypot(sd_o, sd_i)
        t = np.linspace(-1, 1, _COARSE) * REACH * total
        eta = self.rows.predictor(theta[None, :p])[0][:, None] + t
        columns = tuple(column[:, None] for column in self.rows.columns)
        phi = lifted(self.rows.phi(theta[None, p + 2 :]), 1)
        likelihood = self.rows.likelihood
        _, information = likelihood.derivatives(columns, eta, phi)
        log_p = np.add.reduceat(likelihood.log_p(columns, eta, phi), self.starts, axis=0)
        log_p -= (t / total) ** 2 / 2
        P = np.exp(log_p - log_p.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        information = np.maximum(information, 0.0)
        inner = (np.add.reduceat(information, self.starts, axis=0) * P).sum(1)
        # an inner level passes on at most what its own sd leaves of it
        passed = inner / (1 + sd_i**2 * inner)
        return float(inner.max()), float(self.above.sum(passed, axis=0).max())

    def _grid(self, theta: np.ndarray, apart: bool = True, eta: np.ndarray | None = None) -> Grid:
        """Grids with steps of `step` times the smallest conditional sd of a level.

        Where the inner sd is so small that one grid for all would be longer, every outer node has
        its own: t = o_j + inner, and K is zero but for its own nodes. That is left out if not `apart`.
        With rows' η (N,) they are no longer than the rows ask for, where that would be very long.
        """
        found = self._halves(theta, self.information or self._informations(theta))
        sd_o, sd_i, half_o, shared, own = found
        size = found.size if apart else 2 * shared + 1
        if size > _MOST:
            raise TooManyNodes(size)
        o = np.arange(-half_o, half_o + 1) * (REACH * sd_o / half_o)
        long = size * len(o) > _LONG * (2 * own + 1)
        if eta is not None and long and self.rows.likelihood.concave:
            o = o[self._window(theta, eta, found, o)]
        if 2 * shared + 1 <= size:
            step, reach = REACH * np.hypot(sd_o, sd_i) / shared, REACH * sd_i
            first = 2 * max(int(np.floor((o[0] - reach) / step / 2)), -(shared // 2))
            last = 2 * min(int(np.ceil((o[-1] + reach) / step / 2)), shared // 2)
            t = np.arange(first, last + 1) * step
            density = np.exp(-(((t[:, None] - o) / sd_i) ** 2) / 2)
            return Grid(t, o, sd_o, sd_i, density * (step / (sd_i * np.sqrt(2 * np.pi))))
        e, weight = own_nodes(own)
        K = np.kron(np.eye(len(o)), weight[:, None])
        return Grid((o[:, None] + sd_i * e).ravel(), o, sd_o, sd_i, K)

    def _window(self, theta: np.ndarray, eta: np.ndarray, halves: Halves, o: np.ndarray) -> slice:
        """Where among nodes o any outer level's integrand is within e^−40 of its top.

        It is log-concave: beyond the neighbours of those of some nodes that are within it, it is below.
        """
        e, weight = own_nodes(halves.own)
        start, stop = 0, len(o)
        while True:
            at = np.unique(np.linspace(start, stop - 1, _LOOKED).astype(int))
            L = self._heights(theta, eta, (o[at, None] + halves.inner * e).ravel())
            L = L.reshape(len(L), len(at), len(e))
            top = np.maximum(L.max(2, keepdims=True), np.finfo(float).min)
            with np.errstate(divide="ignore"):
                log_F = np.log(np.exp(L - top) @ weight) + top[..., 0]
            J = self.above.sum(log_F, axis=0) - (o[at] / halves.outer) ** 2 / 2
            if np.isnan(J).any():  # farther out than a likelihood has numbers
                return slice(start - start % 2, stop + 1 - stop % 2)
            kept = np.flatnonzero((J.max(1, keepdims=True) - _FALL <= J).any(0))
            before, start = stop - start, int(at[max(kept[0] - 1, 0)])
            stop = int(at[min(kept[-1] + 1, len(at) - 1)]) + 1
            if stop - start < 2 * _LOOKED or 2 * (stop - start) > before:
                return slice(start - start % 2, stop + 1 - stop % 2)

    def _halves(self, theta: np.ndarray, information: tuple[float, float]) -> Halves:
        """How long grids are at one θ, where rows know so much of an inner level, and of an outer one."""
        sd_o, sd_i = (float(sd) for sd in np.exp(theta[self.p : self.p + 2]))
        of_inner, of_outer = information
        unit_i, unit_o = 1 / np.sqrt(sd_i**-2 + of_inner), 1 / np.sqrt(sd_o**-2 + of_outer)
        widest = _WIDEST * self.rows.unit
        half_o = half_of(sd_o, self.step * min(unit_o, widest))
        step = self.step * min(unit_i, widest)
        return Halves(
            sd_o, sd_i, half_o, half_of(float(np.hypot(sd_o, sd_i)), step), half_of(sd_i, step)
        )

    def _sums(self, theta: np.ndarray, half: bool = False) -> Sums:
        """Both sums of one θ without its prior and, if asked, their error from half the nodes.

        Relative to each inner level's peak single precision is enough for draws, but where levels of one
        outer level contradict each other so much that it has no number for it.
        """
        eta = self.rows.predictor(theta[None, : self.p])[0]
        grid = self._grid(theta, eta=eta)
        if self.single:
            quick = self._outer(grid, *self._weights(theta, eta, grid.t, np.float32), eta, half)
            best = quick.P.argmax(1)[self.above.of]
            if quick.F[np.arange(len(best)), best].min() > _SINGLE:
                return quick
        return self._outer(grid, *self._weights(theta, eta, grid.t, np.float64), eta, half)

    def logarithms(self, theta: np.ndarray) -> tuple[Grid, np.ndarray, np.ndarray, np.ndarray]:
        """Grid, L (M, Q), log F (M, J) and the log integrand over o (G, J) of one θ, in double precision.

        They are without the rows' constants.
        """
        grid = self._grid(theta)
        L = self._heights(theta, self.rows.predictor(theta[None, : self.p])[0], grid.t)
        peak = L.max(1, keepdims=True)
        log_F = np.log(np.maximum(np.exp(L - peak) @ grid.K, np.finfo(float).tiny)) + peak
        return grid, L, log_F, self.above.sum(log_F, axis=0) - (grid.o / grid.outer) ** 2 / 2

    def _weights(
        self, theta: np.ndarray, eta: np.ndarray, t: np.ndarray, dtype: type
    ) -> tuple[np.ndarray, np.ndarray]:
        """W = exp(L − peak) at nodes t (M, Q) in this precision, and the peaks (M, 1) in double.

        One zero or one a level needs no logarithm: it has W = 1/(1 + e^{∓η}), and a peak of about 1.
        """
        one = self.largest == 1 and self.rows.weights is None
        if one and self.rows.likelihood.exponential == "odds":
            sign = np.where(self.rows.columns[0] > 0, -1.0, 1.0)
            W = np.multiply.outer(sign, t).astype(dtype)
            W += (sign * eta).astype(dtype)[:, None]
            with np.errstate(over="ignore"):  # 1/(1 + ∞) = 0
                np.exp(W, out=W)
            W += 1
            return np.reciprocal(W, out=W), np.zeros((len(eta), 1))
        if self._are_rates(eta, t):
            L, peak = self._below_peaks(eta, t)
        else:
            L = self._heights(theta, eta, t)
            peak = L.max(1, keepdims=True)
            L -= peak
        if dtype is np.float32:
            L = L.astype(dtype)
        return np.exp(L, out=L), peak

    def _heights(self, theta: np.ndarray, eta: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Σ log p over the rows of inner levels at nodes t, (M, Q)."""
        if self._are_rates(eta, t):
            return self._of_rates(eta) @ np.array([t, np.exp(t), np.ones(len(t))])
        rows, w = self.rows, self.rows.weights
        y = rows.columns[0] if w is None else w * rows.columns[0]
        far = _farthest(eta, t)
        if rows.likelihood.exponential == "odds" and far < _ROOM:
            of_rows = self._within(np.column_stack([y, y * eta]))
            return of_rows @ np.array([t, np.ones(len(t))]) - self._log_odds(eta, t, far)
        columns = tuple(column[:, None] for column in rows.columns)
        phi = lifted(rows.phi(theta[None, self.p + 2 :]), 1)
        return self._within(rows.likelihood.log_p(columns, eta[:, None] + t, phi))

    def _are_rates(self, eta: np.ndarray, t: np.ndarray) -> bool:
        """Whether rows' log p is yη − e^η, and no exponential is near overflow."""
        rates = self.rows.likelihood.exponential == "rate"
        return rates and _farthest(eta, t) < _LARGEST

    def _of_rates(self, eta: np.ndarray) -> np.ndarray:
        """Factors of t, e^t and 1 in Σ yη + t Σ y − e^t Σ e^η, (M, 3)."""
        w = self.rows.weights
        y, rate = self.rows.columns[0], np.exp(eta)
        if w is not None:
            y, rate = w * y, w * rate
        return self._within(np.column_stack([y, -rate, y * eta]))

    def _below_peaks(self, eta: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Heights of rates less their peaks between the ends of t, in closed form, and these (M, 1)."""
        factors = self._of_rates(eta)
        top = np.log(np.maximum(factors[:, 0], _TINY) / np.maximum(-factors[:, 1], _TINY))
        top = np.clip(top, t.min(), t.max())
        peak = factors[:, 0] * top + factors[:, 1] * np.exp(top) + factors[:, 2]
        factors[:, 2] -= peak
        return factors @ np.array([t, np.exp(t), np.ones(len(t))]), peak[:, None]

    def _log_odds(self, eta: np.ndarray, t: np.ndarray, far: float) -> np.ndarray:
        """Σ trials log(1 + e^η e^t) over the rows of inner levels, (M, Q), with |η + t| ≤ far.

        Rows of as many trials share a logarithm: that of the product of so many as double precision holds.
        """
        rows = self.rows
        trials = np.ones(len(eta)) if len(rows.plain) == 1 else rows.plain[1]
        trials = trials if rows.weights is None else rows.weights * trials
        together = max(1, int(_ROOM / (far + 1))) if np.all(trials == trials[0]) else 1
        first = np.flatnonzero((np.arange(len(eta)) - self.starts[self.of]) % together == 0)
        logs, ends = np.empty((len(first), len(t))), np.append(first, len(eta))
        of_rows, of_nodes = np.exp(eta), np.exp(t)
        many = max(1, _CELLS * len(first) // (len(t) * len(eta)))
        for begin in range(0, len(first), many):
            some = slice(begin, min(begin + many, len(first)))
            here = slice(ends[some.start], ends[some.stop])
            odds = np.multiply.outer(of_rows[here], of_nodes)
            odds += 1
            if len(odds) > len(logs[some]):
                odds = np.multiply.reduceat(odds, first[some] - here.start, axis=0)
            np.log(odds, out=logs[some])
        logs *= trials[first, None]
        if len(logs) == len(self.starts):
            return logs
        return np.add.reduceat(logs, np.searchsorted(first, self.starts), axis=0)

    def _within(self, values: np.ndarray) -> np.ndarray:
        """Sums of rows' values (N, …) over inner levels, (M, …)."""
        if len(values) == len(self.starts):
            return values
        return np.add.reduceat(values, self.starts, axis=0)

    def _outer(
        self, grid: Grid, W: np.ndarray, peak: np.ndarray, eta: np.ndarray, half: bool
    ) -> Sums:
        """The sums over inner effects and over outer ones, in the precision of W (M, Q)."""
        _, o, sd_o, _, K = grid
        K = K.astype(W.dtype)
        tiny = np.finfo(W.dtype).tiny
        base, peaks = (o / sd_o) ** 2 / 2, self.above.sum(peak, axis=0)

        def log_integrand(F: np.ndarray) -> np.ndarray:
            """Over o, (G, J)."""
            each = np.log(F).astype(np.float64, copy=False)
            return self.above.sum(each, axis=0) + peaks - base

        F = np.maximum(W @ K, tiny)
        J = log_integrand(F)
        top = J.max(1, keepdims=True)
        P = np.exp(J - top)
        total = P.sum(1)
        scale = (o[1] - o[0]) / (sd_o * np.sqrt(2 * np.pi))
        values = top[:, 0] + np.log(total * scale)
        error = 0.0
        if half:
            J = log_integrand(np.maximum(2 * (W[:, ::2] @ K[::2]), tiny))
            halves = top[:, 0] + np.log(2 * np.exp(J - top)[:, ::2].sum(1) * scale)
            error = float(np.abs(values - halves).sum())
        own = grid._replace(K=K)
        return Sums(float(values.sum()), error, own, W, F, P / total[:, None], eta)

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        """log p(θ) and the rows' constant, (n,)."""
        return self.rows.log_prior(theta[:, : self.p]) + self.constant + self._log_hyperprior(theta)

    def _log_hyperprior(self, theta: np.ndarray) -> np.ndarray:
        """log p of the sds and dispersions, (n,)."""
        p, total = self.p, np.zeros(len(theta))
        for j, term in enumerate((self.outer, self.inner)):
            part = theta[:, p + j : p + j + 1]
            total = total + term.log_prior(part, term.spread(part))
        return total + self.rows.log_prior_dispersion(theta[:, p + 2 :])


def _farthest(eta: np.ndarray, t: np.ndarray) -> float:
    """The largest |η + t| there may be."""
    return float(np.abs(eta).max(initial=0.0) + np.abs(t).max())


def largest(informations: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The largest of an inner level, and of an outer one."""
    return max(i for i, _ in informations), max(o for _, o in informations)
