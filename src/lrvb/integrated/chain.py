"""Three nested factors and more, such as row effects in groups within groups: all summed out given θ.

With s_f the sum of a row's effects down to factor f, a level's rows say exp L_f(s_f) of it, and the level
around it hears F_f(s) = ∫ exp L_f(t) N(t − s; 0, sd_f²) dt: one matrix product from nodes of s_f to those of
s_{f−1}. L_{f−1} is the sum of log F_f over the levels within. On the way back every s_f has its posterior on
the same nodes, and with it every effect its moments and θ its gradient.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache
from typing import NamedTuple

import numpy as np

from .coordinates import FREE, LOG, Kind
from .factor_nodes import TOLERANCE
from .inside import Drawn, Effects, Evaluated, Lines, stacked
from .lines import Line
from .nested_sums import TooManyNodes
from .regression import Regression, lifted
from .terms import Term
from .tree import every_level, grow

_REACH = 6.5  # prior sds to either side: what is left out is below 1e-10 of the prior
_STEPS = (1.3, 1.0, 0.8, 0.6, 0.45, 0.35, 0.25)  # in units of the smallest conditional sd of a sum
_START = 0.8  # a step that is safe before any was chosen
_WIDEST = 1.15  # the largest unit: log(1 + e^t) is analytic within π of the real line
_KERNEL = 0.7  # a step of equidistant nodes, in sds of the effect, at most
_MOST = 3000  # nodes of one sum
_COARSE = 41  # nodes on which information is first looked for
_EXTREME = 8.0  # |log sd| up to which nodes are made
_DIFFERENCE = 1e-3  # of hyperparameters, for the slopes of the gradient
_PRODUCT = 60  # multiplications of a matrix product that cost as much as one density
_CELLS = 4  # to a step of nodes, of which a draw is made
_FINE, _FINEST = 33, 401  # nodes of an effect that is drawn
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


class Chain:
    """θ = (β, log sds from the outermost factor in, dispersions), with all factors' levels summed out.

    Every level of a term lies within one of the term before it; each has one intercept.
    """

    def __init__(self, rows: Regression, terms: Sequence[Term]):
        self.given, self.terms, self.p, self.k = rows, tuple(terms), rows.p, len(terms)
        tree = grow([term.codes for term in terms])
        self.rows, self.of, self.depths = rows.take(tree.rows), tree.of, tree.depths
        self.parents = [depth.parent for depth in self.depths]
        self.constant = rows.likelihood.constant(rows.columns)
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

    def some(self, every: int) -> Chain:
        """Every so many-th of the outermost levels alone."""
        chosen = every_level(self.terms[0].codes, every)
        return Chain(self.given.take(chosen), [term.take(chosen) for term in self.terms])

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where sds are beyond the nodes."""
        result = np.full(len(theta), -np.inf)
        for i in self._possible(theta):
            with contextlib.suppress(TooManyNodes):
                result[i] = self._sums(theta[i]).values.sum()
        return result + self._log_prior(theta)

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Σ over outermost levels of |log T − log T of about twice the nodes|, at n points (n,)."""
        finer = copy(self)
        finer.step = self.step / 2
        return np.array([np.abs(self._sums(t).values - finer._sums(t).values).sum() for t in theta])

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The widest steps whose error is within TOLERANCE at all n points."""
        self._center = theta[0, self.p :]
        self.information = np.max([self._informations(t) for t in theta], axis=0)
        for step in _STEPS:
            self.step = step
            if self.error(theta).max() < TOLERANCE:
                return

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian of one θ (d,): of β by `of_beta`, else by differences of that."""
        p, d = self.p, len(theta)
        value, gradient, H = self.of_beta(theta)
        for j in range(p, d):
            move = _DIFFERENCE * (np.arange(d) == j)
            up, down = (self.of_beta(theta + side * move)[1] for side in (1, -1))
            H[:, j] = (up - down) / (2 * _DIFFERENCE)
            H[j, :p] = H[:p, j]
        H[p:, p:] = (H[p:, p:] + H[p:, p:].T) / 2
        return value, gradient, H

    def of_beta(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, the whole gradient E[S], and the Hessian in β alone, its other entries zero.

        The latter is that of normal rows with the information expected of each: levels are eliminated
        from the innermost out, which leaves c/(1 + sd²c) of what rows know of a level.
        """
        p, k, d = self.p, self.k, len(theta)
        sums = self._sums(theta)
        P = sums.posteriors(self.parents)
        eta = sums.eta[:, None] + sums.nodes[-1].t
        columns = tuple(column[:, None] for column in self.rows.columns)
        tail = theta[p + k :]
        phi = lifted(self.rows.phi(tail[None]), 1)
        score, information = self.rows.likelihood.derivatives(columns, eta, phi)
        weight, X = P[-1][self.of], self.rows.X
        gradient = np.zeros(d)
        gradient[:p] = X.T @ (score * weight).sum(1)
        sds = np.exp(theta[p : p + k])
        for f, (_, second) in enumerate(self._moments(sums, P)):
            gradient[p + f] = (second / sds[f] ** 2 - 1).sum()
        log_p = self.rows.likelihood.log_p
        for i in range(len(tail)):
            move = _DIFFERENCE * (np.arange(len(tail)) == i)
            up, down = (
                log_p(columns, eta, lifted(self.rows.phi((tail + side * move)[None]), 1))
                for side in (1, -1)
            )
            gradient[p + k + i] = ((up - down) * weight).sum() / (2 * _DIFFERENCE)
        w = np.maximum((information * weight).sum(1), 0.0)
        c, v, H = w, w[:, None] * X, np.zeros((d, d))
        H[:p, :p] = -X.T @ v
        for f in reversed(range(k)):
            c, v = self.depths[f].sum(c), self.depths[f].sum(v)
            kept = 1 / (1 + sds[f] ** 2 * c)
            H[:p, :p] += v.T @ ((sds[f] ** 2 * kept)[:, None] * v)
            c, v = c * kept, v * kept[:, None]
        value = float(sums.values.sum() + self._log_prior(theta[None])[0])
        return self.rows.with_prior(theta, value, gradient, H, self._log_prior)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z and E z² of all levels with rows, factor by factor."""
        n, m = len(theta), sum(len(depth.level) for depth in self.depths)
        first, second = np.zeros((n, m)), np.zeros((n, m))
        value = np.full(n, -np.inf)
        for i in self._possible(theta):
            try:
                sums = self._sums(theta[i])
            except TooManyNodes:  # −∞ there: such draws are counted as refused
                continue
            moments = self._moments(sums, sums.posteriors(self.parents))
            value[i] = sums.values.sum()
            first[i], second[i] = (np.concatenate(part) for part in zip(*moments, strict=True))
        return Evaluated(value + self._log_prior(theta), first, second)

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Every term's posterior means and sds, from mean moments of the levels with rows."""
        prior = weights @ np.exp(2 * theta[:, self.p : self.p + self.k])
        found = []
        for f, (own, square) in enumerate(
            zip(self._split(first), self._split(second), strict=True)
        ):
            term, level = self.terms[f], self.depths[f].level
            mean, squares = np.zeros(term.levels), np.full(term.levels, prior[f])
            mean[level], squares[level] = own, square
            sd = np.sqrt(np.maximum(squares - mean**2, 0.0))
            found.append(Effects(mean[:, None], sd[:, None], squares.sum().reshape(1, 1)))
        return tuple(found)

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of the levels with rows (m, a) to all levels of every term; nothing of those without."""
        found = []
        for term, depth, own in zip(self.terms, self.depths, self._split(values), strict=True):
            part = np.zeros((term.levels, 1, values.shape[1]))
            part[depth.level, 0] = own
            found.append(part)
        return tuple(found)

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows: on the nodes of the innermost sum that is known, new levels add their variance.

        A level that is known, but not within the level given around it, adds its normal approximation.
        """
        return stacked(self._lines(theta, X, codes))

    def _lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """Point by point."""
        place = self._places(codes)
        at, known = np.full(len(X), -1), np.full(len(X), -1)  # the innermost level of a known sum
        for f, here in enumerate(place):
            inside = (here >= 0) & (known == f - 1) & (self.parents[f][here] == np.maximum(at, 0))
            at, known = np.where(inside, here, at), np.where(inside, f, known)
        for i, point in enumerate(theta):
            sums = self._sums(point)
            P = sums.posteriors(self.parents)
            moments = self._moments(sums, P)
            variance = np.exp(2 * point[self.p : self.p + self.k])
            innermost = [f for f in range(self.k) if (known == f).any()]
            size = max([1, *(len(sums.nodes[f].t) for f in innermost)])
            Z, weight, extra = np.zeros((len(X), size)), np.zeros((len(X), size)), np.zeros(len(X))
            weight[:, 0] = 1.0
            for f in innermost:
                whole, T = known == f, len(sums.nodes[f].t)
                Z[whole, :T], weight[whole, :T] = sums.nodes[f].t, P[f][at[whole]]
            for f, here in enumerate(place):
                beyond = known < f
                extra += np.where(beyond & (here < 0), variance[f], 0.0)
                strange = beyond & (here >= 0)
                first, second = (part[here[strange]] for part in moments[f])
                Z[strange] += first[:, None]
                extra[strange] += second - first**2
            eta = (X @ point[: self.p])[:, None] + Z
            yield Lines(np.array([i]), eta[None], weight[None], extra[None])

    def logarithms(
        self, theta: np.ndarray
    ) -> tuple[list[Nodes], list[np.ndarray], list[np.ndarray]]:
        """Of one θ: nodes, L (G, T) and log F (G, S) of every factor's levels, the outermost first."""
        sums = self._sums(theta)
        log_F = [np.log(F) + peak for F, peak in zip(sums.F, sums.peaks, strict=True)]
        within = [self.depths[f - 1].sum(log_F[f]) for f in range(1, self.k)]
        return sums.nodes, [*within, sums.heights], log_F

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """Effects of the outermost levels from their nodes, then of those within given them."""
        n, sds = len(theta), np.exp(theta[:, self.p : self.p + self.k])
        effects = [
            sds[:, [f]] * rng.standard_normal((n, term.levels)) for f, term in enumerate(self.terms)
        ]
        points, place = np.unique(theta, axis=0, return_inverse=True)
        for i, point in enumerate(points):
            same = np.flatnonzero(place.reshape(-1) == i)
            sums, above = self._sums(point, apart=False), np.zeros((len(same), 1))
            for f, (depth, sd) in enumerate(zip(self.depths, sds[same[0]], strict=True)):
                s, t = above[:, depth.parent], sums.nodes[f].t
                fine = int(np.clip(2 * _REACH * sd / (t[1] - t[0]), _FINE, _FINEST))
                e = np.linspace(-_REACH, _REACH, fine) * sd
                log_w = np.log(np.maximum(sums.W[f], np.finfo(float).tiny))
                which = np.tile(np.arange(len(depth.level)), len(same))
                log_p = _between(t, log_w, which, s.reshape(-1, 1) + e) - (e / sd) ** 2 / 2
                drawn = Line(log_p, _CELLS).draw(np.arange(len(log_p)), rng.random(len(log_p)))
                z = (e[0] + (e[1] - e[0]) * drawn).reshape(s.shape)
                effects[f][np.ix_(same, depth.level)] = z
                above = s + z
        return Drawn(theta[:, : self.p], tuple(part[:, :, None] for part in effects))

    def _places(self, codes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Where levels (m,) stand among those with rows, −1 for others, factor by factor."""
        found = []
        for term, depth, code in zip(self.terms, self.depths, codes, strict=True):
            places = np.full(term.levels + 1, -1)
            places[depth.level] = np.arange(len(depth.level))
            found.append(places[code])
        return found

    def _split(self, values: np.ndarray) -> list[np.ndarray]:
        """Values of all levels with rows, factor by factor."""
        return np.split(values, np.cumsum([len(depth.level) for depth in self.depths])[:-1])

    def _moments(self, sums: Sums, P: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """E z and E z² of every factor's levels, z_f = s_f − s_{f−1}."""
        t = sums.nodes[0].t
        first, second = P[0] @ t, P[0] @ t**2
        found = [(first, second)]
        for f in range(1, self.k):
            parent, made = self.parents[f], sums.nodes[f]
            A = P[f - 1][parent] / sums.F[f]
            both = ((sums.W[f] * made.t) @ (made.K * sums.nodes[f - 1].t) * A).sum(1)
            whole, square = P[f] @ made.t, P[f] @ made.t**2
            found.append((whole - first[parent], square - 2 * both + second[parent]))
            first, second = whole, square
        return found

    def _possible(self, theta: np.ndarray) -> np.ndarray:
        """Indices of points whose sds nodes can cover."""
        sds = theta[:, self.p : self.p + self.k] - np.log(self.rows.unit)
        return np.flatnonzero((np.abs(sds) < _EXTREME).all(1))

    def _informations(self, theta: np.ndarray) -> np.ndarray:
        """The largest information that rows have of a level's sum, factor by factor."""
        p, k = self.p, self.k
        sds = np.exp(theta[p : p + k])
        total = float(np.sqrt((sds**2).sum()))
        t = np.linspace(-1, 1, _COARSE) * _REACH * total
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
            half = max(6, int(np.ceil(_REACH * np.sqrt(variance) / step)))
            relative = float(sd) / unit
            x, w = _normal_nodes(
                next(count for most, count in _HERMITE if relative * self.step <= most)
            )
            around = len(above) * len(x) if found and apart else np.inf
            if not apart:
                half = min(half, _MOST // 2)
            if (size := min(2 * half + 1, around)) > _MOST + 1:
                raise TooManyNodes(
                    f"A nested sum would need {size:.0f} nodes: rows know a level far better than its sd "
                    "does. The gaussian block is the way for such rows.",
                    nodes=size,
                )
            if 2 * half + 1 <= around:
                t = np.linspace(-1, 1, 2 * half + 1) * _REACH * np.sqrt(variance)
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


def _between(t: np.ndarray, values: np.ndarray, which: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Values (G, T) at equidistant nodes t (T,) of groups `which` (k,) at others (k, Q), (k, Q).

    Polynomials of degree five through six nodes.
    """
    place = (at - t[0]) / (t[1] - t[0])
    first = np.clip(np.floor(place).astype(int) - 2, 0, len(t) - 6)
    x = np.clip(place - first, -0.5, 5.5)
    total = np.zeros(at.shape)
    for j in range(6):
        others = [i for i in range(6) if i != j]
        weight = np.prod([(x - i) / (j - i) for i in others], axis=0)
        total += weight * values[which[:, None], first + j]
    return total
