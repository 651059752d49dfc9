"""One effect a level, any likelihood: the levels are summed out exactly, given β, its sd and φ.

∫ Π_n p(y_n | x_nᵀβ + r_n z) N(z; 0, sd²) dz is a trapezoid sum to where the log integrand has fallen by
20, which converges exponentially in the number of nodes; half the nodes tell its error. The
derivatives in θ are expectations over the same nodes (Fisher's and Louis's identities).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from .coordinates import FREE, LOG, Kind
from .groups import gather
from .inside import Effects, Evaluated, Lines
from .louis import louis
from .regression import Regression, lifted
from .terms import Term

DROP = 20.0  # e^−20 = 2e-9 of the integrand's peak is left out beyond either end
NODES = (13, 17, 21, 25, 31, 41, 61, 81)
TOLERANCE = 1e-4  # of Σ_g (log T_Q − log T_Q/2)², about what is wrong with the whole log density
_CELLS = 4e5  # rows × nodes × points at a time: what fits a processor's cache
_REACH = 12.0  # |log sd| up to which double precision carries the sums


class Sums(NamedTuple):
    """Of n points: log density (n,); half-node errors, nodes and their probabilities by group."""

    value: np.ndarray
    error: np.ndarray
    nodes: np.ndarray
    probability: np.ndarray
    eta: np.ndarray


class Levels:
    """θ = (β, log sd, dispersions): the log density with the levels of one factor summed out."""

    def __init__(self, rows: Regression, term: Term, merge: bool = True, nodes: int = 31):
        self.term, self.nodes = term, nodes
        values = np.column_stack([rows.X, rows.offset, term.R, *rows.columns]) if merge else None
        self.groups = gather(term.codes, term.levels, values)
        self.rows = rows.take(self.groups.rows)
        self.r = term.R[self.groups.rows, 0]
        self.constant = rows.likelihood.constant(rows.columns)
        self.p = rows.p
        self.N, self.G = len(self.groups.rows), len(self.groups.starts)
        self._start = np.zeros(self.G)

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return FREE * self.p + LOG + list(self.rows.likelihood.dispersions)

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor."""
        return self.term.levels

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, sd and dispersions 1 (a probability ½)."""
        return np.concatenate([self.rows.mean, self.term.start(1.0), np.zeros(self._k)])

    @property
    def _k(self) -> int:
        return len(self.rows.likelihood.dispersions)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where an sd is beyond double precision."""
        result = np.full(len(theta), -np.inf)
        for at in self._chunks(self._possible(theta)):
            result[at] = self._sums(theta[at]).value
        return result

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Σ_g (log T_Q − log T_Q/2)² over levels, at n points (n,)."""
        result = np.empty(len(theta))
        for at in self._chunks(np.arange(len(theta))):
            result[at] = self._sums(theta[at]).error ** 2 @ self.groups.counts
        return result

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The fewest nodes whose error is within TOLERANCE at all n points, at most 81."""
        for nodes in NODES:
            self.nodes = nodes
            if self.error(theta).max() < TOLERANCE:
                return

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient E[S] and Hessian E[H] + Cov[S] of one θ (d,), from the nodes.

        S and H are derivatives of log p(y, z | θ), with expectations over z given y.
        """
        sums = self._sums(theta[None])
        p, d, k = self.p, len(theta), self._k
        Z, P = sums.nodes[0], sums.probability[0]
        self._start = (P * Z).sum(1)
        counts, of = self.groups.counts, self.groups.of
        phi = lifted(self.rows.phi(theta[None, p + 1 :]), 1)
        columns = tuple(column[:, None] for column in self.rows.columns)
        eta = sums.eta[0][:, None] + self.r[:, None] * Z[of]
        score, information = self.rows.likelihood.derivatives(columns, eta, phi)
        weight = P[of] * counts[of][:, None]
        S = np.empty((self.G, d, Z.shape[1]))
        for j in range(p):
            S[:, j] = self.groups.sum(self.rows.X[:, [j]] * score, axis=0)
        precision = np.exp(-2 * theta[p])
        S[:, p] = precision * Z**2 - 1
        H = np.zeros((d, d))
        H[:p, :p] = -self.rows.X.T @ (self.rows.X * (information * weight).sum(1)[:, None])
        H[p, p] = -2 * precision * (counts @ (P * Z**2).sum(1))
        for i in range(k):
            first, mixed, second = self.rows.dispersion_derivatives(theta[p + 1 :], i, columns, eta)
            S[:, p + 1 + i] = self.groups.sum(first, axis=0)
            H[p + 1 + i, :p] = self.rows.X.T @ (mixed * weight).sum(1)
            H[:p, p + 1 + i] = H[p + 1 + i, :p]
            for j in range(k):
                H[p + 1 + i, p + 1 + j] = (second[j] * weight).sum()
        gradient, covariance = louis(S, P, counts)
        value = float(sums.value[0])
        return self.rows.with_prior(theta, value, gradient, H + covariance, self._log_prior)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z and E z² of every group, (n, G) each."""
        n = len(theta)
        first, second = np.zeros((n, self.G)), np.zeros((n, self.G))
        value = np.full(n, -np.inf)
        for at in self._chunks(self._possible(theta)):
            sums = self._sums(theta[at])
            weighted = sums.probability * sums.nodes
            value[at] = sums.value
            first[at] = weighted.sum(2)
            second[at] = (weighted * sums.nodes).sum(2)
        return Evaluated(value, first, second)

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Posterior means and sds of the levels from the groups' mean moments (G,).

        A level without rows has its prior's.
        """
        m1 = np.append(first, 0.0)[self.groups.group]
        m2 = np.append(second, weights @ np.exp(2 * theta[:, self.p]))[self.groups.group]
        return (Effects(m1[:, None], np.sqrt(m2 - m1**2)[:, None], m2.sum().reshape(1, 1)),)

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of the groups (G, a) to the levels (levels, 1, a); nothing of a level without rows."""
        none = np.zeros((1, values.shape[1]))
        return (np.concatenate([values, none])[self.groups.group][:, None],)

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows at the nodes of their levels."""
        group = np.append(self.groups.group, -1)[codes[0]]
        here, group = self._only(group)
        new, r = group < 0, R[0][:, 0]
        for at in here._chunks(np.arange(len(theta)), len(X)):
            if new.all():
                Z, P = np.zeros((len(at), len(X), 1)), np.ones((len(at), len(X), 1))
            else:
                sums = here._sums(theta[at])
                Z, P = sums.nodes[:, group], sums.probability[:, group]
                Z[:, new], P[:, new] = 0.0, 1 / self.nodes
            extra = np.where(new, r**2, 0.0) * np.exp(2 * theta[at, self.p])[:, None]
            eta = (theta[at, : self.p] @ X.T)[:, :, None] + r[:, None] * Z
            yield Lines(at, eta, P, extra)

    def _only(self, group: np.ndarray) -> tuple[Levels, np.ndarray]:
        """The sums of some groups alone, and their numbers there; −1 stays."""
        some = np.unique(group[group >= 0])
        if len(some) in (0, self.G):
            return self, group
        here = copy(self)
        kept = np.flatnonzero(np.isin(self.groups.of, some))
        place = np.full(self.G + 1, -1)
        place[some] = np.arange(len(some))
        of = place[self.groups.of[kept]]
        here.groups = self.groups._replace(
            rows=self.groups.rows[kept],
            starts=np.searchsorted(of, np.arange(len(some))),
            counts=self.groups.counts[some],
            of=of,
        )
        here.rows, here.r = self.rows.take(kept), self.r[kept]
        here.N, here.G, here._start = len(kept), len(some), self._start[some]
        return here, place[group]

    @property
    def work(self) -> float:
        """Rows times nodes, and the search for their ends."""
        return self.N * (self.nodes + 10.0)

    def draw_levels(self, theta: np.ndarray, seed: int) -> np.ndarray:
        """One draw of all levels for each of n points, (n, levels, 1)."""
        generator = np.random.default_rng(seed)
        result = np.empty((len(theta), self.term.levels, 1))
        known = self.groups.group >= 0
        for at in self._chunks(np.arange(len(theta))):
            sums = self._sums(theta[at])
            group = self.groups.group[known]
            u = generator.random((len(at), len(group), 1))
            cumulative = np.cumsum(sums.probability, axis=2)[:, group]
            cell = np.minimum((cumulative < u).sum(2), sums.nodes.shape[2] - 1)
            nodes = sums.nodes[:, group]
            step = nodes[:, :, 1] - nodes[:, :, 0]
            jitter = generator.random(cell.shape) - 0.5
            drawn = np.take_along_axis(nodes, cell[:, :, None], 2)[:, :, 0] + step * jitter
            result[np.ix_(at, np.flatnonzero(known))] = drawn[:, :, None]
            new = generator.standard_normal((len(at), int((~known).sum()), 1))
            sd = np.exp(theta[at, self.p])[:, None, None]
            result[np.ix_(at, np.flatnonzero(~known))] = new * sd
        return result

    def _possible(self, theta: np.ndarray) -> np.ndarray:
        """Indices of points whose sd is within double precision's reach."""
        return np.flatnonzero(np.abs(theta[:, self.p] - self.start()[self.p]) < _REACH)

    def _chunks(self, points: np.ndarray, rows: int = 0) -> Iterator[np.ndarray]:
        """Points in runs that keep the arrays in cache."""
        n = max(1, int(_CELLS / (max(self.N, rows) * self.nodes)))
        for start in range(0, len(points), n):
            yield points[start : start + n]

    def _sums(self, theta: np.ndarray) -> Sums:
        """The trapezoid sums of all groups at n points."""
        p, of, r = self.p, self.groups.of, self.r
        log_p, columns = self.rows.likelihood.log_p, self.rows.columns
        phi = self.rows.phi(theta[:, p + 1 :])
        eta = self.rows.predictor(theta[:, :p])
        precision = np.exp(-2 * theta[:, p])[:, None]
        low, high = self._ends(eta, precision, lifted(phi, 1))
        place = np.linspace(0, 1, self.nodes)
        Z = low[:, :, None] + (high - low)[:, :, None] * place
        tall = tuple(column[:, None] for column in columns)
        log_rows = log_p(tall, eta[:, :, None] + r[:, None] * Z[:, of], lifted(phi, 2))
        f = self.groups.sum(log_rows) - precision[:, :, None] * Z**2 / 2
        top = f.max(2)
        P = np.exp(f - top[:, :, None])
        total = P.sum(2)
        half = 2 * P[:, :, ::2].sum(2)
        step = (high - low) / (self.nodes - 1)
        value = top + np.log(total * step) + np.log(precision / (2 * np.pi)) / 2
        value = value @ self.groups.counts + self._log_prior(theta)
        # half the nodes tell the step's error; what is seen at the ends would go on beyond them
        error = np.abs(np.log(half / total)) + (P[:, :, 0] + P[:, :, -1]) / total
        return Sums(value, error, Z, P / total[:, :, None], eta)

    def _ends(
        self, eta: np.ndarray, precision: np.ndarray, phi: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where the log integrand of each group has fallen by DROP to either side, (n, G) each."""
        of, r, columns = self.groups.of, self.r, self.rows.columns
        derivatives, log_p = self.rows.likelihood.derivatives, self.rows.likelihood.log_p
        z = np.tile(self._start, (len(eta), 1))
        for _ in range(30):
            score, information = derivatives(columns, eta + r * z[:, of], phi)
            curvature = np.maximum(self.groups.sum(r**2 * information), 0.0) + precision
            scale = 1 / np.sqrt(curvature)
            step = (self.groups.sum(r * score) - precision * z) / curvature
            step = np.clip(step, -1 - 2.5 * scale, 1 + 2.5 * scale)
            z = z + step
            if np.max(np.abs(step) / scale) < 0.05:
                break

        def height(x: np.ndarray) -> np.ndarray:
            return self.groups.sum(log_p(columns, eta + r * x[:, of], phi)) - precision * x**2 / 2

        top, far = height(z), np.sqrt(2 * DROP)
        ends = []
        for side in (-1.0, 1.0):
            x = z + side * far * scale
            # the distance √(2·fall) is nearly linear in x, so Newton's method needs few steps
            for _ in range(3):
                score, _ = derivatives(columns, eta + r * x[:, of], phi)
                slope = self.groups.sum(r * score) - precision * x
                slope = np.where(np.abs(slope) < 1e-9, -side * 1e-9, slope)
                distance = np.sqrt(np.maximum(2 * (top - height(x)), 1e-8))
                x = x + np.clip((distance - far) * distance / slope, -6 * scale, 6 * scale)
            ends.append(x)
        return ends[0], ends[1]

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        """log p(θ) and the rows' constant, (n,)."""
        p = self.p
        part = theta[:, p : p + 1]
        total = self.rows.log_prior(theta[:, :p]) + self.constant
        total = total + self.term.log_prior(part, self.term.spread(part))
        return total + self.rows.log_prior_dispersion(theta[:, p + 1 :])
