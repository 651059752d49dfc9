"""One factor's levels summed out given β, their covariance and φ: all but the nodes of the sums.

Levels are independent given θ, so that log p(y, θ) is a sum over them of
log ∫ Π_n p(y_n | η_n + r_n·z) N(z; 0, Σ) dz.
Derivatives in θ are expectations over the same nodes (Fisher's and Louis's identities).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .factor_nodes import FactorNodes
from .frame import Frame
from .inside import Drawn, Effects, Lines
from .louis import louis
from .regression import lifted
from .terms import split_by_size, spread_derivatives

_FEW = 31  # nodes of derivatives on the way to a mode


class Factor(FactorNodes):
    """The density with its derivatives, and what the sums say of every level."""

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient E[S] and Hessian E[H] + Cov[S] of one θ (d,), from the nodes.

        S and H are derivatives of log p(y, z | θ), with expectations over z given y.
        """
        ends = self._ends(theta[None])
        if self.hurried and self._frame is not None:
            sums, self.nodes = self._resolved(theta[None], ends)
        else:
            sums = self._sums(theta[None], ends)
        Z = self._nodes(sums.grid)[0]
        P = sums.P[0].reshape(self.G, -1) / sums.total[0][:, None]
        if self._box is None:
            self._start, self._center = np.einsum("gk,gki->gi", P, Z), theta.copy()
            if self._frame is not None:
                precision = self._precision(theta[None])[0][0]
                here = self._seen(sums)
                self._frame = Frame.around(*here, precision, theta.copy(), self._like_beta())
                if (
                    self.q == 1
                ):  # the value needs all nodes of a wide window, a step of Newton's does not
                    few = 2 if self.hurried else max(1, self.nodes // _FEW)
                    Z, P = (part[:, ::few] for part in (Z, P))
                    P = P / P.sum(1)[:, None]
        gradient, H = self.derivatives_at(theta, Z, P)
        value = float(sums.value[0])
        return self.rows.with_prior(theta, value, gradient, H, self._log_hyperprior)

    def derivatives_at(
        self, theta: np.ndarray, Z: np.ndarray, P: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """E[S] and E[H] + Cov[S] of rows and levels, over nodes Z (G, K, q) of probabilities P (G, K)."""
        p, d, k = self.p, len(theta), self.k
        counts, tail = self.groups.counts, theta[p + k :]
        S, H = np.empty((self.G, d, Z.shape[1])), np.zeros((d, d))
        first, second = spread_derivatives(self._precision_of, theta[p : p + k], Z)
        S[:, p : p + k] = first
        H[p : p + k, p : p + k] = np.einsum("gk,gkij,g->ij", P, second, counts, optimize=True)
        information = self._of_rows(theta, Z, P, S)
        H[:p, :p] = -self.rows.X.T @ (self.rows.X * information[:, None])
        if len(tail):
            self._of_dispersions(tail, theta, Z, P, S, H)
        gradient, covariance = louis(S, P, counts)
        return gradient, H + covariance

    def _of_rows(
        self, theta: np.ndarray, Z: np.ndarray, P: np.ndarray, S: np.ndarray
    ) -> np.ndarray:
        """Fill β's part of the scores S (G, d, K) at nodes Z; rows' mean informations (N,)."""
        p, rows = self.p, self.rows
        eta0, phi = (
            rows.predictor(theta[None, :p])[0],
            lifted(rows.phi(theta[None, p + self.k :]), 2),
        )
        result = np.empty(self.N)
        weight = P * self.groups.counts[:, None]
        for block in self.groups.blocks(Z.shape[1]):
            at = block.rows
            eta = eta0[at][..., None]
            for i in range(self.q):
                eta = eta + self.R[at, i][..., None] * Z[block.groups, None, :, i]
            columns = tuple(column[at][..., None] for column in rows.columns)
            score, information = rows.likelihood.derivatives(columns, eta, phi)
            X = np.where(block.there[..., None], rows.X[at], 0.0)
            S[block.groups, :p] = X.swapaxes(1, 2) @ score
            found = (information @ weight[block.groups][..., None])[..., 0]
            result[at[block.there]] = found[block.there]
        return result

    def _of_dispersions(
        self,
        tail: np.ndarray,
        theta: np.ndarray,
        Z: np.ndarray,
        P: np.ndarray,
        S: np.ndarray,
        H: np.ndarray,
    ) -> None:
        """Fill the dispersions' part of the scores S (G, d, K) at nodes Z, and of H (d, d)."""
        p, k, of, X = self.p, self.k, self.groups.of, self.rows.X
        columns = tuple(column[:, None] for column in self.rows.columns)
        eta = self.rows.predictor(theta[None, :p])[0][:, None]
        for i in range(self.q):
            eta = eta + self.R[:, [i]] * Z[of, :, i]
        weight = P[of] * self.groups.counts[of][:, None]
        found = self.rows.dispersion_derivatives(tail, columns, eta, weight)
        for i, slope in enumerate(found.first):
            S[:, p + k + i] = self.groups.sum(slope, axis=0)
        H[p + k :, :p] = found.mixed @ X
        H[:p, p + k :] = H[p + k :, :p].T
        H[p + k :, p + k :] = found.second

    # ---- levels -----------------------------------------------------------------------------

    def level_sums(self, theta: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """log ∫ Π p(y | z) p(z) dz of some levels, but for their rows' constants, at n points (n, levels).

        That of a level without rows is 0.
        """
        here, group = self._only(self.groups.group[levels])
        result = np.zeros((len(theta), len(levels)))
        there = np.flatnonzero(group >= 0)
        for at, sums in here._run(theta, np.arange(len(theta))):
            result[np.ix_(at, there)] = sums.each[:, group[there]]
        return result

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Posterior means and sds of each term's levels from the groups' mean moments.

        A level without rows has its prior's.
        """
        pairs, q, S = self._pairs, self.q, np.zeros((self.q, self.q))
        some = np.flatnonzero(weights > 0)
        parts = split_by_size(theta[some, self.p : self.p + self.k], self.terms)
        for at, term, part in zip(self._places, self.terms, parts, strict=True):
            S[at, at] = np.tensordot(weights[some], term.spread(part).covariance, axes=1)
        prior = np.array([S[i, j] for i, j in pairs])
        m1 = np.vstack([first.reshape(-1, q), np.zeros(q)])[self.groups.group]
        m2 = np.vstack([second.reshape(-1, len(pairs)), prior])[self.groups.group]
        own = [row for row, (i, j) in enumerate(pairs) if i == j]
        sd = np.sqrt(m2[:, own] - m1**2)
        square = np.empty((q, q))
        for (i, j), total in zip(pairs, m2.sum(0), strict=True):
            square[i, j] = square[j, i] = total
        return tuple(Effects(m1[:, at], sd[:, at], square[at, at]) for at in self._places)

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of the groups (Gq, a) to each term's levels; nothing of a level without rows."""
        effects = values.reshape(self.G, self.q, -1)
        none = np.zeros((1, *effects.shape[1:]))
        placed = np.concatenate([effects, none])[self.groups.group]
        return tuple(placed[:, at] for at in self._places)

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows at the nodes of their levels."""
        group = np.append(self.groups.group, -1)[codes[0]]
        here, group = self._only(group)
        new, r = group < 0, np.concatenate(R, axis=1)
        every = np.arange(len(theta))
        if new.all():
            eta = (theta[:, : self.p] @ X.T)[:, :, None]
            yield Lines(every, eta, np.ones_like(eta), self._fresh(theta, r))
            return
        known, some = np.where(new[:, None], 0.0, r), np.flatnonzero(new)
        few = here.together(len(X))
        for lot, sums in here._run(theta, every):
            share = sums.P.reshape(len(lot), here.G, -1) / sums.total[..., None]
            nodes = here._nodes(sums.grid)
            for start in range(0, len(lot), few):
                part = slice(start, start + few)
                at, Z = lot[part], nodes[part]
                eta = (theta[at, : self.p] @ X.T)[:, :, None]
                for i in range(self.q):
                    eta = eta + known[:, [i]] * Z[..., i][:, group]
                P, extra = share[part][:, group], np.zeros((len(at), len(X)))
                if len(some):
                    P[:, some] = 1 / P.shape[2]
                    extra[:, some] = self._fresh(theta[at], r[some])
                yield Lines(at, eta, P, extra)

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """A draw of every level at each of n points, levels of merged groups each their own."""
        n, group = len(theta), self.groups.group
        known, new = np.flatnonzero(group >= 0), np.flatnonzero(group < 0)
        effects = np.empty((n, len(group), self.q))
        points, place = np.unique(theta, axis=0, return_inverse=True)
        order = np.argsort(place.reshape(-1), kind="stable")
        ends = np.searchsorted(place.reshape(-1)[order], np.arange(len(points) + 1))
        for at, sums in self._run(points, np.arange(len(points))):
            here = order[ends[at[0]] : ends[at[-1] + 1]]
            which = self.G * (place.reshape(-1)[here] - at[0])[:, None] + group[known]
            drawn = self._draw(sums.grid, sums.P, which.ravel(), rng)
            effects[np.ix_(here, known)] = drawn.reshape(len(here), len(known), self.q)
        if len(new):
            root = np.linalg.cholesky(np.linalg.inv(self._precision(theta)[0]))
            noise = rng.standard_normal((n, len(new), self.q))
            effects[:, new] = noise @ root.swapaxes(1, 2)
        return Drawn(theta[:, : self.p], tuple(effects[:, :, at] for at in self._places))

    def _fresh(self, theta: np.ndarray, r: np.ndarray) -> np.ndarray:
        """Variances rᵀΣr of new levels in rows r (m, q) at n points, (n, m)."""
        precision, _ = self._precision(theta)
        return ((r @ np.linalg.inv(precision)) * r).sum(2)
