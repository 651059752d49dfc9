"""Two nested factors, or a row effect within groups: both levels are summed out exactly given θ.

The derivatives in θ, and what is said of the levels, are expectations over the nodes of the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .inner import Inner, InnerSums
from .inside import Drawn, Effects, Evaluated, Lines, only_new, stacked, with_effects
from .lines import draw_alike, draw_each, spline_weights
from .nested_grids import REACH, TooManyNodes
from .nested_sums import NestedSums, Sums
from .regression import lifted

_CELLS = 4  # to a step of the grids, of which a draw is made
_LOT = 2**20  # points × levels × nodes whose draws are made together


class Nested(NestedSums):
    """The sums with their derivatives, and what they say of every level."""

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient E[S] and Hessian E[H] + Cov[S] of one θ (d,), from the nodes.

        Given o the inner levels are independent, so Cov[S] is the mean over o of the sum of their
        covariances, and the covariance over o of the sum of their means.
        """
        value, gradient, H = self.derivatives_of_rows(theta)
        value += float(self._log_prior(theta[None])[0])
        return self.rows.with_prior(theta, value, gradient, H, self._log_hyperprior)

    def derivatives_of_rows(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The same of the rows alone, without their constant."""
        p, d = self.p, len(theta)
        k = d - p - 2
        sums = self._sums(theta)
        t, o, sd_o, sd_i, K = sums.grid
        W, F, P = sums.W, sums.F, sums.P
        A = P[self.above.of] / F
        Pt = W * (A @ K.T)
        gap = ((t[:, None] - o) / sd_i) ** 2 - 1
        columns = tuple(column[:, None] for column in self.rows.columns)
        eta = sums.eta[:, None] + t
        phi = lifted(self.rows.phi(theta[None, p + 2 :]), 1)
        score, information = self.rows.likelihood.derivatives(columns, eta, phi)
        weight = Pt[self.of]
        X = self.rows.X
        # parts of S that rows make: of β, then of the dispersions
        S = np.empty((p + k, *W.shape))
        for j in range(p):
            S[j] = self._within(X[:, [j]] * score)
        H = np.zeros((d, d))
        H[:p, :p] = -X.T @ (X * np.einsum("nq,nq->n", information, weight)[:, None])
        if k:
            found = self.rows.dispersion_derivatives(theta[p + 2 :], columns, eta, weight)
            for i, first in enumerate(found.first):
                S[p + i] = self._within(first)
            H[p + 2 :, :p] = found.mixed @ X
            H[:p, p + 2 :] = H[p + 2 :, :p].T
            H[p + 2 :, p + 2 :] = found.second
        of_o = (o / sd_o) ** 2 - 1
        K1 = K * gap
        # second moments within inner levels
        row_part = np.r_[np.arange(p), np.arange(p + 2, d)]
        C = np.zeros((d, d))
        of_rows = S.reshape(p + k, -1)
        C[np.ix_(row_part, row_part)] = (of_rows * Pt.reshape(-1)) @ of_rows.T
        C[row_part, p + 1] = C[p + 1, row_part] = of_rows @ (W * (A @ K1.T)).reshape(-1)
        C[p + 1, p + 1] = (W * (A @ (K1 * gap).T)).sum()
        # means given o: of every inner level, then summed within outer levels
        e = np.zeros((d, *F.shape))
        S *= W
        e[row_part] = (of_rows.reshape(-1, len(t)) @ K).reshape(p + k, *F.shape)
        e[p + 1] = W @ K1
        e /= F
        flat = e.reshape(d, -1)
        C -= (flat * P[self.above.of].reshape(-1)) @ flat.T
        T = self.above.sum(e, axis=1)
        T[p] = of_o
        expected = np.einsum("kgj,gj->gk", T, P)
        flat = T.reshape(d, -1)
        C += (flat * P.reshape(-1)) @ flat.T - expected.T @ expected
        gradient = expected.sum(0)
        G, M = len(P), len(W)
        H[p, p] = -2 * (gradient[p] + G)
        H[p + 1, p + 1] = -2 * (gradient[p + 1] + M)
        return sums.value, gradient, H + C

    def some(self, every: int) -> Nested:
        """Every so many-th outer level alone."""
        return self.taken(np.flatnonzero(np.isin(self.outer.codes, self.every_outer(every))))

    def every_outer(self, every: int) -> np.ndarray:
        """Every so many-th outer level that has rows."""
        return np.sort(self.outer_level)[::every]

    def of_some_inner(self, every: int) -> Nested:
        """Every so many-th inner level of each outer one alone."""
        kept = self.inner_level[self.above.each(every)]
        return self.taken(np.flatnonzero(np.isin(self.inner.codes, kept)))

    def of_some_rows(self, every: int) -> Nested:
        """Every so many-th row of each inner level alone, whatever order they were given in."""
        groups = self.within._replace(of=self.of, starts=self.starts)
        kept = self.rows.order_within(self.of)[groups.each(every)]
        return self.taken(self.given_row[kept])

    def taken(self, rows: np.ndarray) -> Nested:
        """Some of the rows alone, as they were given."""
        return Nested(self.given.take(rows), self.outer.take(rows), self.inner.take(rows))

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z and E z² of outer levels, then inner ones, (n, G + M)."""
        found = self.moments_of_rows(theta)
        return found._replace(value=found.value + self._log_prior(theta))

    def moments_of_rows(self, theta: np.ndarray) -> Evaluated:
        """The same with the log density of the rows alone, without their constant."""
        n, G, M = len(theta), self.G, self.M
        first, second = np.zeros((n, G + M)), np.zeros((n, G + M))
        value = np.full(n, -np.inf)
        of = self.above.of
        for i in self._possible(theta):
            try:
                sums = self._sums(theta[i])
            except TooManyNodes:  # −∞ there: such draws are counted as refused
                continue
            t, o, _, _, K = sums.grid
            A = (sums.P[of] / sums.F).astype(K.dtype)
            Pt = sums.W * (A @ K.T)
            both = ((sums.W * t.astype(K.dtype)) @ (K * o.astype(K.dtype)) * A).sum(1)
            value[i] = sums.value
            first[i, :G], second[i, :G] = sums.P @ o, sums.P @ o**2
            first[i, G:] = Pt @ t - first[i, of]
            second[i, G:] = Pt @ t**2 - 2 * both + second[i, of]
        return Evaluated(value, first, second)

    def inner_sums(self, theta: np.ndarray) -> InnerSums:
        """The inner levels alone, at n points, for outer effects that are known."""
        return Inner.of(self, theta)

    def around(
        self, theta: np.ndarray, Z: np.ndarray, P: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """E z and E z² (n, G + M) of all levels, with outer effects Z (n, G, Q) of probabilities P."""
        first, second = np.empty((2, len(theta), self.G + self.M))
        first[:, : self.G], second[:, : self.G] = (P * Z).sum(2), (P * Z**2).sum(2)
        for i, point in enumerate(theta):
            here = slice(i, i + 1)
            found = Inner.of(self, point[None]).moments(Z[here], P[here])
            first[here, self.G :], second[here, self.G :] = found
        return first, second

    def stacked(self, lots: Sequence[Evaluated]) -> Evaluated:
        """What was evaluated at some points after another, at all of them."""
        return Evaluated(*(np.concatenate(part) for part in zip(*lots, strict=True)))

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Posterior means and sds of the outer levels and of the inner, from mean moments (G + M,)."""
        G = self.G
        prior = weights @ np.exp(2 * theta[:, self.p : self.p + 2])
        results = []
        for f, (term, at, here) in enumerate(
            [
                (self.outer, self.outer_level, slice(0, G)),
                (self.inner, self.inner_level, slice(G, None)),
            ]
        ):
            mean, square = np.zeros(term.levels), np.full(term.levels, prior[f])
            mean[at], square[at] = first[here], second[here]
            sd = np.sqrt(square - mean**2)
            results.append(Effects(mean[:, None], sd[:, None], square.sum().reshape(1, 1)))
        return tuple(results)

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of the groups (G + M, a) to the levels of both factors; nothing of those without rows."""
        G = self.G
        outer = np.zeros((self.outer.levels, 1, values.shape[1]))
        inner = np.zeros((self.inner.levels, 1, values.shape[1]))
        outer[self.outer_level, 0] = values[:G]
        inner[self.inner_level, 0] = values[G:]
        return outer, inner

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows: on the grid of outer + inner where both are known, of outer where it alone is.

        An inner level with another outer level than its own adds their normal approximations.
        """
        codes, r = with_effects(codes, R)
        found = only_new(theta, X, codes, r, self.p)
        return stacked(self._lines(theta, X, codes, r)) if found is None else found

    def _lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], r: np.ndarray
    ) -> Iterator[Lines]:
        """Point by point."""
        places = np.full(self.inner.levels + 1, -1)
        places[self.inner_level] = np.arange(len(self.inner_level))
        outer, inner = np.append(self.above.group, -1)[codes[0]], places[codes[1]]
        parent = np.append(self.above.of, -1)[inner]
        both = (inner >= 0) & (outer == parent)
        above = (inner < 0) & (outer >= 0)
        strange = (inner >= 0) & ~both
        for i, point in enumerate(theta):
            sums = self._sums(point)
            t, o, sd_o, sd_i, K = sums.grid
            size = max(1, len(t) * bool(both.any()), len(o) * bool(above.any()))
            Z, P = np.zeros((len(X), size)), np.zeros((len(X), size))
            P[:, 0] = 1.0
            extra = np.where(outer < 0, (r[:, 0] * sd_o) ** 2, 0.0)
            extra += np.where(inner < 0, (r[:, 1] * sd_i) ** 2, 0.0)
            if both.any():
                at = inner[both]
                Z[both, : len(t)] = t
                P[both, : len(t)] = sums.W[at] * ((sums.P[self.above.of[at]] / sums.F[at]) @ K.T)
            if above.any():
                Z[above, : len(o)] = o
                P[above, : len(o)] = sums.P[outer[above]]
            if strange.any():
                first, second = self.evaluate(point[None])[1:]
                G = len(sums.P)
                mean, variance = first[0], second[0] - first[0] ** 2
                Z[strange, 0] = mean[G + inner[strange]]
                extra[strange] += variance[G + inner[strange]]
                known = strange & (outer >= 0)
                Z[known, 0] += mean[outer[known]]
                extra[known] += variance[outer[known]]
            eta = (X @ point[: self.p])[:, None] + Z
            yield Lines(np.array([i]), eta[None], P[None], extra[None])

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """The outer levels' effects from their nodes, then the inner ones' given them."""
        n, sds = len(theta), np.exp(theta[:, self.p : self.p + 2])
        outer, inner = (
            sds[:, [f]] * rng.standard_normal((n, term.levels))
            for f, term in enumerate((self.outer, self.inner))
        )
        points, place = np.unique(theta, axis=0, return_inverse=True)
        order = np.argsort(place.reshape(-1), kind="stable")
        whose = np.split(order, np.cumsum(np.bincount(place.reshape(-1)))[:-1])
        lot: list[tuple[np.ndarray, Sums]] = []
        cells = 0
        for same, point in zip(whose, points, strict=True):
            lot.append((same, self._sums(point)))
            cells += len(same) * lot[-1][1].W.size
            if cells > _LOT:
                self._draw(lot, outer, inner, rng)
                lot, cells = [], 0
        self._draw(lot, outer, inner, rng)
        return Drawn(theta[:, : self.p], (outer[:, :, None], inner[:, :, None]))

    def _draw(
        self,
        lot: list[tuple[np.ndarray, Sums]],
        outer: np.ndarray,
        inner: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        """Draws of the levels with rows into outer (n, levels) and inner, some for each of several sums."""
        above = self.outer_level
        tiny = np.finfo(np.float32).tiny
        log_p = [np.log(np.maximum(sums.P, tiny)) for _, sums in lot]
        which = [np.tile(np.arange(len(above)), len(same)) for same, _ in lot]
        places = draw_alike(log_p, which, rng, _CELLS)
        inside, effects = [], []
        for (same, sums), at in zip(lot, places, strict=True):
            found, e = self._given_outer(sums, at.reshape(len(same), -1))
            o = sums.grid.o
            outer[np.ix_(same, above)] = o[0] + (o[1] - o[0]) * at.reshape(len(same), -1)
            inside.append(draw_each(found.reshape(-1, found.shape[2]), rng, _CELLS))
            effects.append((e[..., 0], e[..., 1] - e[..., 0]))
        for (same, _), (first, step), at in zip(lot, effects, inside, strict=True):
            inner[np.ix_(same, self.inner_level)] = first + step * at.reshape(len(same), -1)

    def _given_outer(self, sums: Sums, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (k, M, Q) of inner effects e, given outer ones `at` (k, G) steps along nodes."""
        t, o, _, sd_i, _ = sums.grid
        of = self.above.of
        drawn = o[0] + (o[1] - o[0]) * at
        log_w = np.log(np.maximum(sums.W, np.finfo(sums.W.dtype).tiny))
        if np.allclose(np.diff(t), t[1] - t[0]):  # one grid for all, and its nodes within reach
            step = t[1] - t[0]
            width = min(len(t), int(np.ceil(2 * REACH * sd_i / step)) + 2)
            first = np.floor((drawn[:, of] - REACH * sd_i - t[0]) / step).astype(int)
            near = np.clip(first, 0, len(t) - width)[:, :, None] + np.arange(width)
            e = t[near] - drawn[:, of, None]
            log_w = log_w[np.arange(len(of))[:, None], near]
        else:  # one around every outer node: joined between them
            size = len(t) // len(o)
            weights = spline_weights(at, len(o))[:, of]
            log_w = np.einsum("kmj,mje->kme", weights, log_w.reshape(-1, len(o), size))
            e = np.broadcast_to(t[:size] - o[0], log_w.shape)
        return log_w - (e / sd_i) ** 2 / 2, e
