"""One factor's levels summed out given β, their covariance and φ: all but the nodes of the sums.

Levels are independent given θ, so that log p(y, θ) is a sum over them of
log ∫ Π_n p(y_n | η_n + r_n·z) N(z; 0, Σ) dz.
Derivatives in θ are expectations over the same nodes (Fisher's and Louis's identities).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from .coordinates import FREE, Kind
from .exponents import Exponential
from .frame import Frame, Look, find_window, reach, settle
from .groups import gather, repeat
from .inside import Drawn, Effects, Evaluated, Lines
from .louis import louis
from .regression import Regression, lifted
from .row_sums import Directly, RowSums
from .terms import Term, split_by_size, spread_derivatives

FAR, NEAR = 20.0, 14.0  # fall of the log integrand at the ends: e^−20 = 2e-9, e^−14 = 8e-7
TOLERANCE = 1e-2  # of the whole log density
EACH = (
    1e-3  # of the log of a group's sum: second moments, off by some ten times as much, are to 1 %
)
MANY = 10_000  # rows from which on a mode is looked for with few nodes at first
_CELLS = 2.0**15  # nodes of groups × points at a time: what fits a processor's cache
_ROWS = 2.0**17  # rows × points at a time
_REACH = 12.0  # |log sd| up to which double precision carries the sums
_MARGIN = 1.05  # by which ends found at some points are moved outwards for others
_MOVE = 1e-2  # of differences of means in θ
_SCANNED = (
    25,
    15,
)  # nodes an axis of the grids on which windows are found, of one effect and of two
_FEW = 31  # nodes of derivatives on the way to a mode
_NEAR = 1.5  # change of a log sd over which a mode is taken to move in proportion


class Sums(NamedTuple):
    """Of n points: log density (n,); the groups' grids; probabilities (n, G, Q, …) and their sums (n, G).

    each (n, G) is the log of each group's integral, but for its rows' constant.
    """

    value: np.ndarray
    grid: Any
    P: np.ndarray
    total: np.ndarray
    each: np.ndarray


class Ends(NamedTuple):
    """Each group's mode z (n, G, q), C (n, G, q, q) with CCᵀ the inverse curvature, and its box.

    The sums are over z + Ce with e between low and high (n, G, q).
    """

    z: np.ndarray
    C: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def at(self, points: slice) -> Ends:
        """Those of some of the points."""
        return Ends(*(part[points] for part in self))


class Factor(ABC):
    """θ = (β, covariance of a level's q effects, dispersions): one factor's levels summed out."""

    ladder: tuple[int, ...]  # numbers of nodes an axis, of which the first that suffices is taken

    def __init__(self, rows: Regression, terms: Sequence[Term], merge: bool, nodes: int):
        R = np.concatenate([term.R for term in terms], axis=1)
        self.terms, self.nodes = tuple(terms), nodes
        values = np.column_stack([rows.X, rows.offset, R, *rows.columns])
        alike = values if merge and repeat(values) else None
        self.groups = gather(terms[0].codes, terms[0].levels, alike, by_size=True)
        self.constant = rows.likelihood.constant(rows.columns)
        self.p, self.q, self.k = rows.p, R.shape[1], sum(term.size for term in terms)
        self._arrange(rows.take(self.groups.rows), R[self.groups.rows])
        self._log = np.array(self.kinds) == "log"
        self._box: tuple[np.ndarray, np.ndarray] | None
        self._frame: Frame | None
        self.forget()

    def forget(self) -> None:
        """Nothing is known of where the groups' effects are."""
        self._center = self.start()
        # where searches for modes begin: at the center, and how that moves with θ
        self._start = np.zeros((self.G, self.q))
        self._moves = np.zeros((self.G, self.q, len(self._center)))
        # in place of modes where there may be several
        concave = self.rows.likelihood.concave
        self._frame = None if concave else Frame.nothing(self.G, self.q, self._center)
        self.drop = FAR if self.N < MANY else NEAR
        self._known = 0.0  # what the log density is off by at the center
        self._box = None  # once chosen, (G, q) each

    def _arrange(self, rows: Regression, R: np.ndarray) -> None:
        self.rows, self.R = rows, R
        self.N, self.G = len(R), len(self.groups.starts)
        self._exponential = (
            Exponential(rows, self.groups, R) if rows.likelihood.exponential else None
        )

    # ---- what one and two effects differ in -------------------------------------------------

    @abstractmethod
    def _step(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A bounded Newton step (n, G, q) towards the modes, its length in sds (n,), C (n, G, q, q)."""

    @abstractmethod
    def _search(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray, C: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends in e where the log integrand has fallen by `drop`, (n, G, q) each."""

    @abstractmethod
    def _heights(self, sums: RowSums, precision: np.ndarray, ends: Ends) -> tuple[Any, np.ndarray]:
        """A grid for each group and the log integrand at its nodes, (n, G, Q) or (n, G, Q, Q)."""

    @abstractmethod
    def _nodes(self, grid: Any) -> np.ndarray:
        """The nodes of a grid, (n, G, K, q)."""

    @abstractmethod
    def _moments(self, grid: Any, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ P z (n, G, q) and Σ P z_i z_j (n, G, q(q + 1)/2), squares first."""

    @abstractmethod
    def _draw(
        self, grid: Any, P: np.ndarray, which: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws (k, q) from the densities at the nodes, `which` (k,) among points times groups."""

    # ---- the density ------------------------------------------------------------------------

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        spread = [kind for term in self.terms for kind in term.kinds]
        return FREE * self.p + spread + self.rows.likelihood.kinds

    @property
    def fewest(self) -> int:
        """Levels of the factor."""
        return self.terms[0].levels

    @property
    def work(self) -> float:
        """Rows times nodes, where a density costs two products and not an exponential and a logarithm."""
        cost = 1.0 if self._exponential is None else self._exponential.cost
        if (
            self._exponential is not None
            and self._exponential.additive
            and self._exponential.intercept
        ):
            return self.N + self.G * (self.nodes + 10.0)
        return (
            self.N * (cost * self.nodes**self.q + 2.0 * self.q) + 5.0 * self.G * self.nodes**self.q
        )

    @property
    def cost(self) -> float:
        """What an evaluation costs, of those that `work` counts."""
        return 1.0 if self._exponential is not None else self.rows.likelihood.likelihood.cost

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, effects that move rows by about ½, dispersions at their start."""
        spread = [term.start(0.5 * self.rows.unit) for term in self.terms]
        return np.concatenate([self.rows.mean, *spread, self.rows.dispersion_start()])

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where an sd is beyond double precision."""
        result = np.full(len(theta), -np.inf)
        for at, sums in self._run(theta, self._possible(theta)):
            result[at] = sums.value
        return result

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z (n, Gq) and E z_i z_j (n, Gq(q + 1)/2) of every group."""
        n = len(theta)
        first, second = np.zeros((n, self.G, self.q)), np.zeros((n, self.G, len(self._pairs)))
        value = np.full(n, -np.inf)
        for at, sums in self._run(theta, self._possible(theta)):
            value[at] = sums.value
            m1, m2 = self._moments(sums.grid, sums.P)
            first[at], second[at] = m1 / sums.total[..., None], m2 / sums.total[..., None]
        return Evaluated(value, first.reshape(n, -1), second.reshape(n, -1))

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What the log density is off by at n points, (n,), by twice the nodes.

        What is seen at the ends would go on beyond them, and is added.
        """
        off, cut, _ = self._off(theta)
        return np.abs(off - self._known) + cut

    def _off(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Σ_g (log T_Q − log T_2Q) at n points, and the share of the integrals that is seen at the ends.

        The last is the largest |log T_Q − log T_2Q| of a single group.
        """
        finer = copy(self)
        finer.nodes = 2 * self.nodes - 1
        every, within = (slice(None, None, 2),) * self.q, (slice(1, -1),) * self.q
        axes = tuple(range(2, 2 + self.q))
        off, cut, largest = np.empty(len(theta)), np.empty(len(theta)), 0.0
        for at, sums in finer._run(theta, np.arange(len(theta))):
            half = 2**self.q * sums.P[:, :, *every].sum(axes)
            inner = sums.P[:, :, *within].sum(axes)
            each = np.log(half / sums.total)
            largest = max(largest, float(np.abs(each).max(initial=0.0)))
            off[at] = each @ self.groups.counts
            cut[at] = (1 - inner / sums.total) @ self.groups.counts
        return off, cut, largest

    def choose_nodes(
        self,
        theta: np.ndarray,
        tolerance: float = TOLERANCE,
        move: bool = True,
        least: int = 0,
    ) -> None:
        """Ends, and the fewest nodes, that suffice at n points; the first of them is the center.

        What nodes are off by at the center is known then, and taken out everywhere: only its change
        over the posterior matters, where nodes `move` with θ. The moments of each level ask for more of
        its own sum.
        """
        self._learn(theta)
        for nodes in (nodes for nodes in self.ladder if nodes >= least):
            self.nodes = nodes
            off, cut, largest = self._off(theta)
            self._known = float(off[0])
            change = off - off[0] if move else off
            if np.max(np.abs(change) + cut) < tolerance and largest < EACH:
                return

    def _learn(self, theta: np.ndarray) -> None:
        """How modes move with θ from the first point, and ends that suffice at all of them."""
        self._box, self.drop = None, NEAR
        if self._frame is not None:
            self._learn_frame(theta)
            return
        step = 1e-3 * np.eye(len(theta[0]))
        points = np.vstack([theta[:1], theta[0] + step])
        rows, (precision, _) = self._rows_at(points), self._precision(points)
        z, _ = self._modes(rows, precision, self._guess(points), 1e-4)
        self._center, self._start = theta[0].copy(), z[0]
        self._moves = (z[1:] - z[0]).transpose(1, 2, 0) / 1e-3
        low, high = np.full((self.G, self.q), np.inf), np.full((self.G, self.q), -np.inf)
        for point in theta:
            ends = self._ends(point[None])
            low, high = np.minimum(low, ends.low.min(0)), np.maximum(high, ends.high.max(0))
        self._box = low * _MARGIN, high * _MARGIN

    def _learn_frame(self, theta: np.ndarray) -> None:
        """The same where groups have no modes: moments, how they move, and windows around them."""
        center, precision = theta[0], self._precision(theta[:1])[0][0]
        ends = self._ends(theta[:1])
        still = np.arange(self.p, self.p + self.k)
        points = np.vstack([center, center + _MOVE * np.eye(len(center))])
        means = np.empty((len(points), self.G, self.q))
        for i, point in enumerate(points):
            if i - 1 in still:  # the spread's own part is in closed form
                means[i] = means[0]
                continue
            mean, cov = self._seen(self._sums(point[None], ends))
            means[i] = mean
            if not i:
                frame = Frame.around(mean, cov, precision, center)
        self._frame = frame.moving(means, _MOVE, precision)
        low, high = np.full((self.G, self.q), np.inf), np.full((self.G, self.q), -np.inf)
        for point in theta:
            sums, (precisions, _) = self._rows_at(point[None]), self._precision(point[None])
            z, C = self._frame.at(point[None], precisions)
            look, prior = (
                self._look(sums, precisions),
                np.linalg.cholesky(np.linalg.inv(precisions)),
            )
            found = reach(look, find_window(look, z, C, self.drop), prior, self.drop)
            low, high = np.minimum(low, found.low[0]), np.maximum(high, found.high[0])
        self._box = low * _MARGIN, high * _MARGIN

    def _seen(self, sums: Sums) -> tuple[np.ndarray, np.ndarray]:
        """Means (G, q) and covariances (G, q, q) of the groups' effects at one point."""
        Z = self._nodes(sums.grid)[0]
        P = sums.P[0].reshape(self.G, -1) / sums.total[0][:, None]
        mean = np.einsum("gk,gki->gi", P, Z)
        away = Z - mean[:, None]
        return mean, np.einsum("gk,gki,gkj->gij", P, away, away, optimize=True)

    def _look(self, sums: RowSums, precision: np.ndarray) -> Look:
        """The log integrand at the nodes of windows. See: find_window."""
        coarse = copy(self)
        coarse.nodes = _SCANNED[self.q - 1]

        def look(*window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            grid, f = coarse._heights(sums, precision, Ends(*window))
            return f, coarse._nodes(grid)

        return look

    def _modes(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray, close: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Modes near z (n, G, q), to about close² sds, and C (n, G, q, q); points that are there rest."""
        step, length, C = self._step(sums, precision, z)
        z = z + step
        far = np.flatnonzero(length > close)
        for _ in range(50):
            if not len(far):
                break
            some = sums.take(far)
            step, length, C[far] = self._step(some, precision[far], z[far])
            z[far] += step
            far = far[length > close]
        return z, C

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient E[S] and Hessian E[H] + Cov[S] of one θ (d,), from the nodes.

        S and H are derivatives of log p(y, z | θ), with expectations over z given y.
        """
        sums = self._sums(theta[None], self._ends(theta[None]))
        p, d, k = self.p, len(theta), self.k
        Z = self._nodes(sums.grid)[0]
        P = sums.P[0].reshape(self.G, -1) / sums.total[0][:, None]
        if self._box is None:
            self._start, self._center = np.einsum("gk,gki->gi", P, Z), theta.copy()
            if self._frame is not None:
                precision = self._precision(theta[None])[0][0]
                self._frame = Frame.around(*self._seen(sums), precision, theta.copy())
                if (
                    self.q == 1
                ):  # the value needs all nodes of a wide window, a step of Newton's does not
                    Z, P = (part[:, :: max(1, self.nodes // _FEW)] for part in (Z, P))
                    P = P / P.sum(1)[:, None]
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
        value = float(sums.value[0])
        return self.rows.with_prior(theta, value, gradient, H + covariance, self._log_prior)

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

    @abstractmethod
    def on(self, rows: Regression, terms: Sequence[Term]) -> Factor:
        """The same sums of other rows and levels."""

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
        for at, sums in here._run(theta, every, len(X)):
            eta = (theta[at, : self.p] @ X.T)[:, :, None]
            P = sums.P.reshape(len(at), here.G, -1) / sums.total[..., None]
            P = P[:, group]
            P[:, new] = 1 / P.shape[2]
            Z = here._nodes(sums.grid)
            for i in range(self.q):
                eta = eta + np.where(new, 0.0, r[:, i])[:, None] * Z[..., i][:, group]
            yield Lines(at, eta, P, np.where(new, self._fresh(theta[at], r), 0.0))

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
        return np.einsum("mi,nij,mj->nm", r, np.linalg.inv(precision), r, optimize=True)

    def _only(self, group: np.ndarray) -> tuple[Self, np.ndarray]:
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
        here._arrange(self.rows.take(kept), self.R[kept])
        here._start, here._moves = self._start[some], self._moves[some]
        if self._box is not None:
            here._box = self._box[0][some], self._box[1][some]
        if self._frame is not None:
            here._frame = self._frame.take(some)
        return here, place[group]

    # ---- parts ------------------------------------------------------------------------------

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return pairs_of(self.q)

    @property
    def _places(self) -> list[slice]:
        """Each term's effects among all of a level."""
        ends = np.cumsum([term.q for term in self.terms])
        return [slice(end - term.q, end) for term, end in zip(self.terms, ends, strict=True)]

    def _possible(self, theta: np.ndarray) -> np.ndarray:
        """Indices of points whose sds are within double precision's reach."""
        away = np.abs(theta - self.start())[:, self._log]
        return np.flatnonzero((away < _REACH).all(1))

    def _run(
        self, theta: np.ndarray, points: np.ndarray, rows: int = 0
    ) -> Iterator[tuple[np.ndarray, Sums]]:
        """Sums at points with these indices: modes of many at a time, nodes of fewer."""
        n = max(1, int(_CELLS / (max(self._width, rows) * self.nodes**self.q)))
        many = n * max(1, int(_ROWS / (n * max(self.N, 1))))
        for start in range(0, len(points), many):
            together = points[start : start + many]
            ends = self._ends(theta[together])
            for first in range(0, len(together), n):
                at = together[first : first + n]
                yield at, self._sums(theta[at], ends.at(slice(first, first + n)))

    @property
    def _width(self) -> int:
        """What has nodes: groups, or their rows."""
        return self.N if self._exponential is None else self.G

    def _rows_at(self, theta: np.ndarray) -> RowSums:
        if self._exponential is not None:
            return self._exponential.at(theta, self.k)
        return Directly(self.rows, self.groups, self.R, theta, self.k)

    def _precision(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ⁻¹ (n, q, q) and log |Σ| (n,) at n points θ."""
        return self._precision_of(theta[:, self.p : self.p + self.k])

    def _precision_of(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ⁻¹ (n, q, q) and log |Σ| (n,) at n points of the terms' part of θ."""
        parts = split_by_size(u, self.terms)
        spreads = [term.spread(part) for term, part in zip(self.terms, parts, strict=True)]
        if len(spreads) == 1:
            return spreads[0].precision, spreads[0].logdet
        both = np.zeros((len(u), self.q, self.q))
        for at, spread in zip(self._places, spreads, strict=True):
            both[:, at, at] = spread.precision
        return both, np.sum([spread.logdet for spread in spreads], axis=0)

    def _guess(self, theta: np.ndarray) -> np.ndarray:
        """Modes at n points as they move from the center's, (n, G, q)."""
        away = theta - self._center
        away[:, self._log] = np.clip(away[:, self._log], -_NEAR, _NEAR)
        return self._start + np.einsum("gqd,nd->ngq", self._moves, away, optimize=True)

    def _ends(self, theta: np.ndarray) -> Ends:
        """Modes at n points, and ends as chosen or else searched for."""
        sums, (precision, _) = self._rows_at(theta), self._precision(theta)
        if self._frame is not None:
            z, C = self._frame.at(theta, precision)
            if self._box is None:
                prior = np.linalg.cholesky(np.linalg.inv(precision))
                return Ends(*settle(self._look(sums, precision), z, C, prior, self.drop)[:4])
            return Ends(z, C, *(np.broadcast_to(end, z.shape) for end in self._box))
        if self._box is None:
            z, C = self._modes(sums, precision, self._guess(theta), 0.05)
            return Ends(z, C, *self._search(sums, precision, z, C))
        z, C = self._modes(sums, precision, self._guess(theta), 0.3)
        return Ends(z, C, *(np.broadcast_to(end, z.shape) for end in self._box))

    def _sums(self, theta: np.ndarray, ends: Ends) -> Sums:
        """The trapezoid sums of all groups at n points."""
        precision, logdet = self._precision(theta)
        grid, f = self._heights(self._rows_at(theta), precision, ends)
        q, axes = self.q, tuple(range(2, f.ndim))
        top = f.max(axes)
        f -= top.reshape(*top.shape, *(1,) * q)
        P = np.exp(f, out=f)
        total = P.sum(axes)
        cell = ((ends.high - ends.low) / (self.nodes - 1)).prod(-1)
        cell = cell * np.diagonal(ends.C, axis1=2, axis2=3).prod(-1)
        each = top + np.log(total * cell) - q * np.log(2 * np.pi) / 2 - logdet[:, None] / 2
        value = each @ self.groups.counts + self._log_prior(theta) - self._known
        return Sums(value, grid, P, total, each)

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        """log p(θ) and the rows' constant, (n,)."""
        p, k = self.p, self.k
        total = self.rows.log_prior(theta[:, :p]) + self.constant
        for term, part in zip(
            self.terms, split_by_size(theta[:, p : p + k], self.terms), strict=True
        ):
            total = total + term.log_prior(part, term.spread(part))
        return total + self.rows.log_prior_dispersion(theta[:, p + k :])


def pairs_of(q: int) -> list[tuple[int, int]]:
    """Products of a level's q effects whose means are kept: squares first."""
    return [(i, i) for i in range(q)] + [(i, j) for i in range(q) for j in range(i)]
