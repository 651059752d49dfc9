"""Three nested factors and more, such as row effects in groups within groups: all summed out given θ.

On the way back from the sums every s_f has its posterior on their nodes, and with it every effect its moments
and θ its gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .chain_sums import REACH, ChainSums, Sums
from .inside import Drawn, Effects, Evaluated, Lines, only_new, stacked, with_effects
from .lines import draw_each
from .nested_grids import TooManyNodes
from .regression import lifted
from .tree import every_level

_DIFFERENCE = 1e-3  # of hyperparameters, for the slopes of the gradient
_CELLS = 4  # to a step of nodes, of which a draw is made
_FINE, _FINEST = 33, 401  # nodes of an effect that is drawn


class Chain(ChainSums):
    """The sums with their derivatives, and what they say of every level."""

    def some(self, every: int) -> Chain:
        """Every so many-th of the outermost levels alone."""
        return self.taken(every_level(self.terms[0].codes, every))

    def taken(self, rows: np.ndarray) -> Chain:
        """Some rows alone."""
        return Chain(self.given.take(rows), [term.take(rows) for term in self.terms])

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
        """Value, the whole gradient E[S], and the Hessian in β alone, its other entries zero."""
        value, gradient, H = self.of_rows(theta)
        value += float(self._log_prior(theta[None])[0])
        return self.rows.with_prior(theta, value, gradient, H, self._log_prior)

    def of_rows(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The same without the prior.

        The Hessian is that of normal rows with the information expected of each: levels are eliminated
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
        return float(sums.values.sum()), gradient, H

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
        codes, r = with_effects(codes, R)
        found = only_new(theta, X, codes, r, self.p)
        return stacked(self._lines(theta, X, codes, r)) if found is None else found

    def _lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], r: np.ndarray
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
                extra += np.where(beyond & (here < 0), r[:, f] ** 2 * variance[f], 0.0)
                strange = beyond & (here >= 0)
                first, second = (part[here[strange]] for part in moments[f])
                Z[strange] += first[:, None]
                extra[strange] += second - first**2
            eta = (X @ point[: self.p])[:, None] + Z
            yield Lines(np.array([i]), eta[None], weight[None], extra[None])

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
                fine = int(np.clip(2 * REACH * sd / (t[1] - t[0]), _FINE, _FINEST))
                e = np.linspace(-REACH, REACH, fine) * sd
                log_w = np.log(np.maximum(sums.W[f], np.finfo(float).tiny))
                which = np.tile(np.arange(len(depth.level)), len(same))
                log_p = _between(t, log_w, which, s.reshape(-1, 1) + e) - (e / sd) ** 2 / 2
                drawn = draw_each(log_p, rng, _CELLS)
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
