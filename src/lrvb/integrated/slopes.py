"""Two effects a level, any likelihood: each level's pair is summed out on a grid of its own.

The grid is a product in the whitened coordinates e of the level's mode, z = ẑ + Ce with CCᵀ the inverse
curvature there. Each side ends where the best of all log integrands with that e has fallen by 20, so
that tails which turn are covered too. Half the nodes an axis tell the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from ..errors import InvalidModel
from .coordinates import FREE, Kind
from .groups import gather
from .inside import Effects, Evaluated, Lines
from .levels import DROP
from .louis import louis
from .regression import Regression, lifted
from .terms import Term, split_by_size

NODES = (9, 13, 17, 21, 25, 31, 41, 61)  # an axis
TOLERANCE = 3e-2  # of Σ_g (log T − log T of half)², about what is wrong with the whole log density
_CELLS = 4e5  # rows × nodes × points at a time
_REACH = 12.0  # |log sd| up to which double precision carries the sums
_EDGE_STEPS = 30
_STEP = 1e-3  # of differences of Σ⁻¹ in its coordinates: second ones to 1e-6


class Sums(NamedTuple):
    """Of n points: value (n,); error (n, G); nodes z (n, G, K, 2), probabilities (n, G, K); eta."""

    value: np.ndarray
    error: np.ndarray
    nodes: np.ndarray
    probability: np.ndarray
    eta: np.ndarray


class Mode(NamedTuple):
    """Each level's mode (n, G, 2) and lower C (n, G, 2, 2) with CCᵀ the inverse curvature."""

    z: np.ndarray
    C: np.ndarray


class Slopes:
    """θ = (β, the terms' covariance, dispersions): one factor's pairs of effects summed out.

    terms are one with two correlated effects, or two with one each, independent, of the same factor.
    """

    def __init__(
        self, rows: Regression, terms: Sequence[Term], merge: bool = True, nodes: int = 17
    ):
        R = np.concatenate([term.R for term in terms], axis=1)
        if R.shape[1] != 2:
            raise InvalidModel(f"Sums over two effects a level were given {R.shape[1]}.")
        self.terms, self.nodes = tuple(terms), nodes
        values = np.column_stack([rows.X, rows.offset, R, *rows.columns]) if merge else None
        self.groups = gather(terms[0].codes, terms[0].levels, values)
        self.rows = rows.take(self.groups.rows)
        self.R = R[self.groups.rows]
        self.constant = rows.likelihood.constant(rows.columns)
        self.p, self.k = rows.p, sum(term.size for term in terms)
        self.N, self.G = len(self.groups.rows), len(self.groups.starts)
        self._start = np.zeros((self.G, 2))
        # where searches for the four sides begin: [low or high, axis, level, coordinate]
        self._edges = np.zeros((2, 2, self.G, 2))
        for axis in (0, 1):
            self._edges[:, axis, :, axis] = np.sqrt(2 * DROP) * np.array([[-1.0], [1.0]])
        self._last = self._edges.copy()

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        spread = [kind for term in self.terms for kind in term.kinds]
        return FREE * self.p + spread + list(self.rows.likelihood.dispersions)

    @property
    def fewest(self) -> int:
        """Levels of the factor."""
        return self.terms[0].levels

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, effects that move rows by about ½, dispersions 1."""
        spread = [term.start(0.5) for term in self.terms]
        k = len(self.rows.likelihood.dispersions)
        return np.concatenate([self.rows.mean, *spread, np.zeros(k)])

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where an sd is beyond double precision."""
        result = np.full(len(theta), -np.inf)
        for at in self._chunks(self._possible(theta)):
            result[at] = self._sums(theta[at]).value
        return result

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Σ_g (log T − log T of half the nodes an axis)² over levels, at n points (n,)."""
        result = np.empty(len(theta))
        for at in self._chunks(np.arange(len(theta))):
            result[at] = self._sums(theta[at]).error ** 2 @ self.groups.counts
        return result

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The fewest nodes whose error is within TOLERANCE at all n points, at most 61 an axis."""
        for nodes in NODES:
            self.nodes = nodes
            if self.error(theta).max() < TOLERANCE:
                return

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient E[S] and Hessian E[H] + Cov[S] of one θ (d,), from the nodes."""
        sums = self._sums(theta[None])
        p, d, k = self.p, len(theta), self.k
        Z, P = sums.nodes[0], sums.probability[0]
        self._start, self._edges = np.einsum("gk,gki->gi", P, Z), self._last.copy()
        counts, of = self.groups.counts, self.groups.of
        tail = theta[p + k :]
        phi = lifted(self.rows.phi(tail[None]), 1)
        columns = tuple(column[:, None] for column in self.rows.columns)
        eta = sums.eta[0][:, None] + np.einsum("ni,nki->nk", self.R, Z[of])
        score, information = self.rows.likelihood.derivatives(columns, eta, phi)
        weight = P[of] * counts[of][:, None]
        X = self.rows.X
        S = np.empty((self.G, d, Z.shape[1]))
        for j in range(p):
            S[:, j] = self.groups.sum(X[:, [j]] * score, axis=0)
        H = np.zeros((d, d))
        H[:p, :p] = -X.T @ (X * (information * weight).sum(1)[:, None])
        first, second = self._prior_derivatives(theta[p : p + k], Z)
        S[:, p : p + k] = first
        H[p : p + k, p : p + k] = np.einsum("gk,gkij,g->ij", P, second, counts)
        for i in range(len(tail)):
            here = p + k + i
            slope, mixed, bends = self.rows.dispersion_derivatives(tail, i, columns, eta)
            S[:, here] = self.groups.sum(slope, axis=0)
            H[here, :p] = X.T @ (mixed * weight).sum(1)
            H[:p, here] = H[here, :p]
            for j, bend in enumerate(bends):
                H[here, p + k + j] = (bend * weight).sum()
        gradient, covariance = louis(S, P, counts)
        value = float(sums.value[0])
        return self.rows.with_prior(theta, value, gradient, H + covariance, self._log_prior)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z (n, 2G) and E z₁², z₂², z₁z₂ (n, 3G) of every group."""
        n = len(theta)
        first, second = np.zeros((n, self.G, 2)), np.zeros((n, self.G, 3))
        value = np.full(n, -np.inf)
        for at in self._chunks(self._possible(theta)):
            sums = self._sums(theta[at])
            P, Z = sums.probability, sums.nodes
            value[at] = sums.value
            first[at] = np.einsum("ngk,ngki->ngi", P, Z)
            second[at, :, :2] = np.einsum("ngk,ngki->ngi", P, Z**2)
            second[at, :, 2] = np.einsum("ngk,ngk->ng", P, Z[..., 0] * Z[..., 1])
        return Evaluated(value, first.reshape(n, -1), second.reshape(n, -1))

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Posterior means and sds of each term's levels from the groups' mean moments (2G,), (3G,)."""
        precision, _ = self._precision(theta[:, self.p : self.p + self.k])
        S = np.tensordot(weights, np.linalg.inv(precision), axes=1)
        prior = np.array([S[0, 0], S[1, 1], S[0, 1]])
        m1 = np.vstack([first.reshape(-1, 2), np.zeros(2)])[self.groups.group]
        m2 = np.vstack([second.reshape(-1, 3), prior])[self.groups.group]
        mean, sd = m1, np.sqrt(m2[:, :2] - m1**2)
        a, b, c = m2.sum(0)
        square = np.array([[a, c], [c, b]])
        if len(self.terms) == 1:
            return (Effects(mean, sd, square),)
        return (
            Effects(mean[:, :1], sd[:, :1], square[:1, :1]),
            Effects(mean[:, 1:], sd[:, 1:], square[1:, 1:]),
        )

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of the groups (2G, a) to each term's levels; nothing of a level without rows."""
        pairs = values.reshape(self.G, 2, -1)
        placed = np.concatenate([pairs, np.zeros((1, *pairs.shape[1:]))])[self.groups.group]
        return (placed,) if len(self.terms) == 1 else (placed[:, :1], placed[:, 1:])

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows at the nodes of their levels."""
        group = np.append(self.groups.group, -1)[codes[0]]
        here, group = self._only(group)
        new, r = group < 0, np.concatenate(R, axis=1)
        for at in here._chunks(np.arange(len(theta)), len(X)):
            if new.all():
                Z, P = np.zeros((len(at), len(X), 1, 2)), np.ones((len(at), len(X), 1))
            else:
                sums = here._sums(theta[at])
                Z, P = sums.nodes[:, group], sums.probability[:, group]
                Z[:, new], P[:, new] = 0.0, 1 / P.shape[2]
            precision, _ = self._precision(theta[at, self.p : self.p + self.k])
            fresh = np.einsum("mi,nij,mj->nm", r, np.linalg.inv(precision), r, optimize=True)
            eta = (theta[at, : self.p] @ X.T)[:, :, None] + np.einsum("mi,nmki->nmk", r, Z)
            yield Lines(at, eta, P, np.where(new, fresh, 0.0))

    def _only(self, group: np.ndarray) -> tuple[Slopes, np.ndarray]:
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
        here.rows, here.R = self.rows.take(kept), self.R[kept]
        here.N, here.G, here._start = len(kept), len(some), self._start[some]
        here._edges = self._edges[:, :, some]
        here._last = here._edges.copy()
        return here, place[group]

    @property
    def work(self) -> float:
        """Rows times nodes, and the search for their ends."""
        return self.N * (self.nodes**2 + 60.0)

    def _possible(self, theta: np.ndarray) -> np.ndarray:
        """Indices of points whose sds are within double precision's reach."""
        log = np.array(self.kinds) == "log"
        return np.flatnonzero((np.abs(theta - self.start())[:, log] < _REACH).all(1))

    def _chunks(self, points: np.ndarray, rows: int = 0) -> Iterator[np.ndarray]:
        """Points in runs that keep the arrays in cache."""
        n = max(1, int(_CELLS / (max(self.N, rows) * self.nodes**2)))
        for start in range(0, len(points), n):
            yield points[start : start + n]

    def _precision(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ⁻¹ (n, 2, 2) and log |Σ| (n,) at n points of the terms' part of θ."""
        spreads = [
            term.spread(part)
            for term, part in zip(self.terms, split_by_size(u, self.terms), strict=True)
        ]
        if len(spreads) == 1:
            return spreads[0].precision, spreads[0].logdet
        both = np.zeros((len(u), 2, 2))
        for i, spread in enumerate(spreads):
            both[:, i, i] = spread.precision[:, 0, 0]
        return both, spreads[0].logdet + spreads[1].logdet

    def _prior_derivatives(self, u: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First (G, k, K) and second (G, K, k, k) derivatives of log N(z; 0, Σ(u)) at nodes Z."""
        k, h = len(u), _STEP
        E = h * np.eye(k)
        moves = [np.zeros(k), *E, *-E]
        pairs = [(i, j) for i in range(k) for j in range(i)]
        moves += [side * (E[i] + E[j]) for side in (1, -1) for i, j in pairs]
        precision, logdet = self._precision(u + np.array(moves))
        # log N = −½ log |Σ| − ½ Σ Λ_ij z_i z_j: differences of its coefficients
        coefficients = -0.5 * np.column_stack(
            [logdet, precision[:, 0, 0], precision[:, 1, 1], 2 * precision[:, 0, 1]]
        )
        middle, up, down = coefficients[0], coefficients[1 : k + 1], coefficients[k + 1 : 2 * k + 1]
        above, below = np.split(coefficients[2 * k + 1 :], 2)
        second = np.zeros((k, k, 4))
        for i in range(k):
            second[i, i] = up[i] + down[i] - 2 * middle
        for row, (i, j) in enumerate(pairs):
            mixed = above[row] + below[row] - up[i] - down[i] - up[j] - down[j] + 2 * middle
            second[i, j] = second[j, i] = mixed / 2
        features = np.stack(
            [np.ones(Z.shape[:2]), Z[..., 0] ** 2, Z[..., 1] ** 2, Z[..., 0] * Z[..., 1]], axis=-1
        )
        first = np.einsum("gkf,jf->gjk", features, (up - down) / (2 * h))
        return first, np.einsum("gkf,ijf->gkij", features, second / h**2)

    def _sums(self, theta: np.ndarray) -> Sums:
        """The sums of all levels at n points."""
        p, k, Q = self.p, self.k, self.nodes
        of, R = self.groups.of, self.R
        phi = self.rows.phi(theta[:, p + k :])
        eta = self.rows.predictor(theta[:, :p])
        precision, logdet = self._precision(theta[:, p : p + k])
        mode = self._modes(eta, precision, lifted(phi, 1))
        low, high = self._box(eta, precision, lifted(phi, 1), mode)
        place = np.linspace(0, 1, Q)
        e = low[..., None] + (high - low)[..., None] * place  # (n, G, 2, Q)
        z, C = mode
        first = z[..., 0, None] + C[..., 0, 0, None] * e[:, :, 0]
        across = z[..., 1, None] + C[..., 1, 0, None] * e[:, :, 0]
        along = C[..., 1, 1, None] * e[:, :, 1]
        Z = np.empty((len(theta), self.G, Q, Q, 2))
        Z[..., 0] = first[..., None]
        Z[..., 1] = across[..., None] + along[:, :, None, :]
        by_first = eta[..., None] + R[:, [0]] * first[:, of] + R[:, [1]] * across[:, of]
        rows = by_first[..., None] + (R[:, [1]] * along[:, of])[:, :, None, :]
        tall = tuple(column[:, None, None] for column in self.rows.columns)
        f = self.groups.sum(self.rows.likelihood.log_p(tall, rows, lifted(phi, 3)))
        f -= _quadratic(precision[:, None, None, None], Z) / 2
        top = f.max((2, 3))
        P = np.exp(f - top[..., None, None])
        total, half = P.sum((2, 3)), 4 * P[:, :, ::2, ::2].sum((2, 3))
        inner = P[:, :, 1:-1, 1:-1].sum((2, 3))
        cell = (high - low).prod(-1) / (Q - 1) ** 2 * C[..., 0, 0] * C[..., 1, 1]
        value = top + np.log(total * cell) - np.log(2 * np.pi) - logdet[:, None] / 2
        value = value @ self.groups.counts + self._log_prior(theta)
        P = (P / total[..., None, None]).reshape(len(theta), self.G, -1)
        # what reaches the box's sides would go on beyond them
        cut = 1 - inner / total
        error = np.abs(np.log(half / total)) + cut
        return Sums(value, error, Z.reshape(len(theta), self.G, -1, 2), P, eta)

    def _slopes(
        self, eta: np.ndarray, precision: np.ndarray, phi: list[np.ndarray], z: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 2) and minus Hessian (n, G, 2, 2) of levels' log integrands at z."""
        R, of = self.R, self.groups.of
        here = eta + np.einsum("ki,nki->nk", R, z[:, of])
        score, information = self.rows.likelihood.derivatives(self.rows.columns, here, phi)
        gradient = np.stack([self.groups.sum(R[:, i] * score) for i in (0, 1)], axis=-1)
        gradient -= np.einsum("nij,ngj->ngi", precision, z)
        H = np.empty((*z.shape, 2))
        for i, j in ((0, 0), (1, 1), (0, 1)):
            H[..., i, j] = self.groups.sum(R[:, i] * R[:, j] * information)
            H[..., j, i] = H[..., i, j]
        return gradient, H + precision[:, None]

    def _modes(self, eta: np.ndarray, precision: np.ndarray, phi: list[np.ndarray]) -> Mode:
        """Each level's mode to a twentieth of an sd, by Newton's method with bounded steps."""
        z = np.tile(self._start, (len(eta), 1, 1))
        for _ in range(50):
            gradient, H = self._slopes(eta, precision, phi, z)
            C = _inverse_root(H, precision)
            white = np.einsum("ngij,ngi->ngj", C, gradient)
            length = np.sqrt((white**2).sum(-1, keepdims=True))
            # at most 2.5 sds, or one unit of η where sds are smaller
            most = 2.5 + np.sqrt(np.einsum("ngii->ng", H))[..., None]
            z = z + np.einsum("ngij,ngj->ngi", C, white * np.minimum(1.0, most / (length + 1e-300)))
            if length.max() < 0.05:
                break
        return Mode(z, C)

    def _height(
        self, eta: np.ndarray, precision: np.ndarray, phi: list[np.ndarray], z: np.ndarray
    ) -> np.ndarray:
        """Levels' log integrands at z (n, G, 2), (n, G)."""
        here = eta + np.einsum("ki,nki->nk", self.R, z[:, self.groups.of])
        log_p = self.groups.sum(self.rows.likelihood.log_p(self.rows.columns, here, phi))
        return log_p - _quadratic(precision[:, None], z) / 2

    def _box(
        self, eta: np.ndarray, precision: np.ndarray, phi: list[np.ndarray], mode: Mode
    ) -> tuple[np.ndarray, np.ndarray]:
        """The box in e outside of which the log integrand has fallen by DROP, (n, G, 2) twice.

        On each side the other coordinate follows its own maximum.
        """
        top = self._height(eta, precision, phi, mode.z)
        box = np.empty((2, *mode.z.shape))
        for axis in (0, 1):
            for which in (0, 1):
                e = np.tile(self._edges[which, axis], (len(eta), 1, 1))
                e = self._edge(eta, precision, phi, mode, top, e, axis)
                box[which, ..., axis] = e[..., axis]
                self._last[which, axis] = e[0]
        return box[0], box[1]

    def _edge(
        self,
        eta: np.ndarray,
        precision: np.ndarray,
        phi: list[np.ndarray],
        mode: Mode,
        top: np.ndarray,
        e: np.ndarray,
        axis: int,
    ) -> np.ndarray:
        """From e (n, G, 2) along one axis to where the profile log integrand has fallen by DROP.

        √(2·fall) is nearly linear along the axis: Newton's method, in a bracket; the other
        coordinate follows its own maximum. A fall between 0.9 and 1.5 DROP will do.
        """
        other = 1 - axis
        side = np.sign(e[..., axis])
        near, beyond = np.zeros_like(top), np.full_like(top, np.inf)
        for _ in range(_EDGE_STEPS):
            here = mode.z + np.einsum("ngij,ngj->ngi", mode.C, e)
            gradient, H = self._slopes(eta, precision, phi, here)
            slope = np.einsum("ngij,ngi->ngj", mode.C, gradient)
            curvature = np.einsum("ngij,ngik,ngkl->ngjl", mode.C, H, mode.C)
            own = np.maximum(curvature[..., other, other], 1e-3)
            follow = slope[..., other] / own
            regained = slope[..., other] * follow / 2
            settled = regained < 0.5
            fall = top - self._height(eta, precision, phi, here) - np.minimum(regained, 0.5)
            good = settled & (fall > 0.9 * DROP) & (fall < 1.5 * DROP)
            if good.all():
                break
            distance = np.abs(e[..., axis])
            near = np.where(settled & (fall < DROP), distance, near)
            beyond = np.where(settled & (fall >= DROP), distance, beyond)
            steep = np.maximum(-side * (slope[..., axis] - curvature[..., 0, 1] * follow), 1e-9)
            reached = np.sqrt(np.maximum(2 * fall, 1e-8))
            new = distance + (np.sqrt(2.2 * DROP) - reached) * reached / steep
            inside = (new > near) & (new < beyond) & (new < 2 * distance + 1)
            middle = np.where(np.isfinite(beyond), (near + beyond) / 2, 1.5 * distance + 0.5)
            new = np.where(good | ~settled, distance, np.where(inside, new, middle))
            change = side * new - e[..., axis]
            e[..., axis] += change
            e[..., other] += np.where(good, 0.0, np.clip(follow, -2, 2))
            e[..., other] -= np.clip(curvature[..., 0, 1] / own * change, -2, 2)
        return e

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        """log p(θ) and the rows' constant, (n,)."""
        p, k = self.p, self.k
        total = self.rows.log_prior(theta[:, :p]) + self.constant
        parts = split_by_size(theta[:, p : p + k], self.terms)
        for term, part in zip(self.terms, parts, strict=True):
            total = total + term.log_prior(part, term.spread(part))
        return total + self.rows.log_prior_dispersion(theta[:, p + k :])


def _quadratic(A: np.ndarray, z: np.ndarray) -> np.ndarray:
    """zᵀAz for symmetric 2 × 2 matrices (..., 2, 2) and vectors (..., 2)."""
    x, y = z[..., 0], z[..., 1]
    return A[..., 0, 0] * x**2 + (2 * A[..., 0, 1] * x + A[..., 1, 1] * y) * y


def _inverse_root(H: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Lower C with CCᵀ = H⁻¹ (n, G, 2, 2); where H is not positive definite, of the prior's alone."""
    det = H[..., 0, 0] * H[..., 1, 1] - H[..., 0, 1] ** 2
    bad = (det <= 0) | (H[..., 0, 0] <= 0)
    H = np.where(bad[..., None, None], floor[:, None], H)
    det = np.where(bad, (H[..., 0, 0] * H[..., 1, 1] - H[..., 0, 1] ** 2), det)
    C = np.zeros_like(H)
    C[..., 0, 0] = np.sqrt(H[..., 1, 1] / det)
    C[..., 1, 0] = -H[..., 0, 1] / np.sqrt(H[..., 1, 1] * det)
    C[..., 1, 1] = 1 / np.sqrt(H[..., 1, 1])
    return C
