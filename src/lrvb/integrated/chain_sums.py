"""Nodes and sums of factors nested in each other, however many: what is summed out, given θ.

With s_f the sum of a row's effects down to factor f, a level's rows say exp L_f(s_f) of it, and the level
around it hears F_f(s) = ∫ exp L_f(t) N(t − s; 0, sd_f²) dt: one matrix product from nodes of s_f to those of
s_{f−1}. L_{f−1} is the sum of log F_f over the levels within.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import NamedTuple, Self

import numpy as np

from .coordinates import FREE, LOG, Kind
from .factor_nodes import TOLERANCE
from .nested_grids import TooManyNodes
from .regression import Regression, lifted
from .terms import Term
from .tree import grow

REACH = 6.5  # prior sds to either side: what is left out is below 1e-10 of the prior
_STEPS = (1.3, 1.0, 0.8, 0.6, 0.45, 0.35, 0.25)  # in units of the smallest conditional sd of a sum
_START = 0.8  # a step that is safe before any was chosen
_WIDEST = 1.15  # the largest unit: log(1 + e^t) is analytic within π of the real line
_KERNEL = 0.7  # a step of equidistant nodes, in sds of the effect, at most
_MOST = 3000  # nodes of one sum
_COARSE = 41  # nodes on which information is first looked for
_EXTREME = 8.0  # |log sd| up to which nodes are made
_PRODUCT = 60  # multiplications of a matrix product that cost as much as one density
_HERMITE = ((0.1, 3), (0.4, 5), (1.0, 9), (2.0, 15), (np.inf, 25))  # nodes by sd/width of rows


class Nodes(NamedTuple):
    """Of one factor: nodes t of s_f (T,), and K (T, S) from them to the nodes above, weights included.

    Of the outermost K is (T, 1).
    """

    t: np.ndarray
    K: np.ndarray


class Sums(NamedTuple):
    """Of one θ: the outermost levels' log sums (G,), nodes, W = exp(L − peak) and F = WK of every factor.

    peaks (G, 1) are the largest L of every level, and `heights` L of the innermost.
    """

    values: np.ndarray
    nodes: list[Nodes]
    W: list[np.ndarray]
    F: list[np.ndarray]
    eta: np.ndarray
    heights: np.ndarray
    peaks: list[np.ndarray]

    def posteriors(self, parents: Sequence[np.ndarray]) -> list[np.ndarray]:
        """P(s_f = t | y, θ) of every factor's levels, (G, T) each."""
        found = [self.W[0] * self.nodes[0].K[:, 0] / self.F[0]]
        for f in range(1, len(self.W)):
            A = found[-1][parents[f]] / self.F[f]
            found.append(self.W[f] * (A @ self.nodes[f].K.T))
        return found


class ChainSums:
    """θ = (β, log sds from the outermost factor in, dispersions), with all factors' levels summed out.

    Every level of a term lies within one of the term before it; each has one intercept.
    """

    def __init__(self, rows: Regression, terms: Sequence[Term]):
        self.given, self.terms, self.p, self.k = rows, tuple(terms), rows.p, len(terms)
        tree = grow([term.codes for term in terms])
        self.rows, self.of, self.depths = rows.take(tree.rows), tree.of, tree.depths
        self.N = len(self.of)
        self.parents = [depth.parent for depth in self.depths]
        self.constant = rows.likelihood.constant(rows.columns)
        self._unknown()

    def _unknown(self) -> None:
        """Nodes that are safe before any were chosen."""
        self.information: np.ndarray | None = None
        self.step = _START
        self._center = self.start()[self.p :]

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return FREE * self.p + self.k * LOG + self.rows.likelihood.kinds

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor."""
        return min(term.levels for term in self.terms)

    @property
    def work(self) -> float:
        """Rows times nodes, and the products between nodes."""
        try:
            nodes = self._nodes(np.r_[self.rows.mean, self._center])
        except TooManyNodes:  # more work than is worth its time
            return np.inf
        products = sum(
            len(depth.level) * made.K.size for depth, made in zip(self.depths, nodes, strict=True)
        )
        return len(self.of) * len(nodes[-1].t) + products / _PRODUCT + 1000

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, sds of ½, dispersions at their start."""
        tail = self.rows.dispersion_start()
        return np.r_[self.rows.mean, np.full(self.k, np.log(0.5 * self.rows.unit)), tail]

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where sds are beyond the nodes."""
        result = np.full(len(theta), -np.inf)
        for i in self._possible(theta):
            with contextlib.suppress(TooManyNodes):
                result[i] = self._sums(theta[i]).values.sum()
        return result + self._log_prior(theta)

    def finer(self) -> Self:
        """The same sums with about twice the nodes; a θ may need more than is sensible then, TooManyNodes."""
        finer = copy(self)
        finer.step = self.step / 2
        return finer

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Σ over outermost levels of |log T − log T of about twice the nodes|, at n points (n,)."""
        finer = self.finer()
        return np.array([np.abs(self._sums(t).values - finer._sums(t).values).sum() for t in theta])

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The widest steps whose error is within TOLERANCE at all n points."""
        self._center = theta[0, self.p :]
        self.information = np.max([self._informations(t) for t in theta], axis=0)
        for step in _STEPS:
            self.step = step
            if self.error(theta).max() < TOLERANCE:
                return

    def logarithms(
        self, theta: np.ndarray
    ) -> tuple[list[Nodes], list[np.ndarray], list[np.ndarray]]:
        """Of one θ: nodes, L (G, T) and log F (G, S) of every factor's levels, the outermost first."""
        sums = self._sums(theta)
        log_F = [np.log(F) + peak for F, peak in zip(sums.F, sums.peaks, strict=True)]
        within = [self.depths[f - 1].sum(log_F[f]) for f in range(1, self.k)]
        return sums.nodes, [*within, sums.heights], log_F

    def _possible(self, theta: np.ndarray) -> np.ndarray:
        """Indices of points whose sds nodes can cover."""
        sds = theta[:, self.p : self.p + self.k] - np.log(self.rows.unit)
        return np.flatnonzero((np.abs(sds) < _EXTREME).all(1))

    def _informations(self, theta: np.ndarray) -> np.ndarray:
        """The largest information that rows have of a level's sum, factor by factor."""
        p, k = self.p, self.k
        sds = np.exp(theta[p : p + k])
        total = float(np.sqrt((sds**2).sum()))
        t = np.linspace(-1, 1, _COARSE) * REACH * total
        eta = self.rows.predictor(theta[None, :p])[0]
        columns = tuple(column[:, None] for column in self.rows.columns)
        phi = lifted(self.rows.phi(theta[None, p + k :]), 1)
        _, information = self.rows.likelihood.derivatives(columns, eta[:, None] + t, phi)
        log_p = self._heights(theta, eta, t) - (t / total) ** 2 / 2
        P = np.exp(log_p - log_p.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        c = (self.depths[-1].sum(np.maximum(information, 0.0)) * P).sum(1)
        found = [c.max()]
        for f in reversed(range(1, k)):
            # a level passes on at most what its own sd leaves of it
            c = self.depths[f - 1].sum(c / (1 + sds[f] ** 2 * c))
            found.insert(0, c.max())
        return np.array(found)

    def _nodes(self, theta: np.ndarray, apart: bool = True) -> list[Nodes]:
        """Nodes of every factor's sum: equidistant, or if allowed some around each of those above, if fewer.

        Without `apart` they are equidistant, and no more than _MOST: of effects that are nearly zero too few.
        """
        sds = np.exp(theta[self.p : self.p + self.k])
        known = self.information if self.information is not None else self._informations(theta)
        found: list[Nodes] = []
        above, variance = np.zeros(1), 0.0
        for sd, information in zip(sds, known, strict=True):
            variance += float(sd) ** 2
            unit = min(1 / np.sqrt(information + 1 / variance), _WIDEST * self.rows.unit)
            step = min(self.step * unit, _KERNEL * sd / min(1.0, _START / self.step))
            half = max(6, int(np.ceil(REACH * np.sqrt(variance) / step)))
            relative = float(sd) / unit
            x, w = _normal_nodes(
                next(count for most, count in _HERMITE if relative * self.step <= most)
            )
            around = len(above) * len(x) if found and apart else np.inf
            if not apart:
                half = min(half, _MOST // 2)
            if (size := min(2 * half + 1, around)) > _MOST + 1:
                raise TooManyNodes(size)
            if 2 * half + 1 <= around:
                t = np.linspace(-1, 1, 2 * half + 1) * REACH * np.sqrt(variance)
                K = np.exp(-(((t[:, None] - above) / sd) ** 2) / 2)
                K *= (t[1] - t[0]) / (sd * np.sqrt(2 * np.pi))
            else:
                t = (above[:, None] + sd * x).ravel()
                K = np.kron(np.eye(len(above)), w[:, None])
            found.append(Nodes(t, K))
            above = t
        return found

    def _sums(self, theta: np.ndarray, apart: bool = True) -> Sums:
        """All sums of one θ, without its prior."""
        nodes = self._nodes(theta, apart)
        eta = self.rows.predictor(theta[None, : self.p])[0]
        L = heights = self._heights(theta, eta, nodes[-1].t)
        Ws: list[np.ndarray] = []
        Fs: list[np.ndarray] = []
        peaks: list[np.ndarray] = []
        tiny = np.finfo(float).tiny
        for f in reversed(range(self.k)):
            peak = L.max(1, keepdims=True)
            W = np.exp(L - peak)
            F = np.maximum(W @ nodes[f].K, tiny)
            Ws.insert(0, W)
            Fs.insert(0, F)
            peaks.insert(0, peak)
            L = np.log(F) + peak
            if f:
                L = self.depths[f - 1].sum(L)
        return Sums(L[:, 0], nodes, Ws, Fs, eta, heights, peaks)

    def _heights(self, theta: np.ndarray, eta: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Σ log p over the rows of the innermost levels at nodes t, (M, T)."""
        columns = tuple(column[:, None] for column in self.rows.columns)
        phi = lifted(self.rows.phi(theta[None, self.p + self.k :]), 1)
        log_p = self.rows.likelihood.log_p(columns, eta[:, None] + t, phi)
        return self.depths[-1].sum(log_p)

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        """log p(θ) and the rows' constant, (n,)."""
        p, k = self.p, self.k
        total = self.rows.log_prior(theta[:, :p]) + self.constant
        for j, term in enumerate(self.terms):
            part = theta[:, p + j : p + j + 1]
            total = total + term.log_prior(part, term.spread(part))
        return total + self.rows.log_prior_dispersion(theta[:, p + k :])


@cache
def _normal_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss and Hermite's nodes and weights of a standard normal."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    return x, w / w.sum()
