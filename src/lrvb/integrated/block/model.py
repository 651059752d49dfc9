"""The Gaussian block as the sums inside an integration: β normal given u, levels given both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..coordinates import Kind
from ..inside import Drawn, Effects, Evaluated, Lines
from ..matrix_free.conjugate import given_up
from ..origins import OVERLOOKED
from .averages import nodes
from .layout import PARTS, Layout
from .points import Fits, Point
from .polynomial import Between, Frame, Polynomial
from .precision import Precision

MOST_SKEWED = 1.2
MOST_TILTS = 24  # fixed effects up to which each one's response is asked for


class Block:
    """θ = (β, u): log p(y, u) by a polynomial through the points, β ~ N(b(u), C(u)) given u.

    `learn` gives it the points; shift (p,) is what β's mean has beyond q's, in sds, and stretch (p, p) takes
    a Cholesky factor of q's covariance to that of linear response. tilts (p, P) are of β, by what parts of
    the levels alone would add to its mean. overlooked tells of a part of the posterior far from all points,
    joint counts the draws of coefficients behind the evidence at each point.
    """

    overlooked = False
    joint = 0

    def __init__(self, layout: Layout, why: str = ""):
        self.layout, self.terms, self.p, self.why = layout, layout.terms, layout.p, why
        self.points: list[Point] = []
        self.shift, self.stretch = np.zeros(self.p), np.eye(self.p)
        self.tilts = np.zeros((self.p, PARTS))
        self.Q: Precision | None = None

    def learn(self, frame: Frame, points: Sequence[Point]) -> None:
        """Take these points as all that is known."""
        self.points, self.frame = list(points), frame
        self.polynomial = Polynomial(frame, points)
        self.between = Between(frame, points)
        self.lower = np.tril_indices(self.p)
        self.diagonal = self.lower[0] == self.lower[1]
        roots = [np.linalg.cholesky(point.C)[self.lower] for point in points]
        entries = np.array(roots).reshape(len(points), -1)
        entries[:, self.diagonal] = np.log(entries[:, self.diagonal])
        self.entries, self.b = entries, np.array([point.beta for point in points])

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.layout.kinds

    @property
    def unknown(self) -> str:
        """What it leaves that no error counts, as a clause; none where all is counted."""
        if self.overlooked:
            return OVERLOOKED
        if self.p > MOST_TILTS:
            return f"more than {MOST_TILTS} fixed effects have the block's own means and sds"
        return given_up(max((point.unsolved for point in self.points), default=0.0))

    @property
    def levels_error(self) -> float:
        """What q's sds of levels are off by, as a share: of those that draws give."""
        return 0.0 if self.Q is None else self.Q.covariances.error

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor."""
        return min(term.levels for term in self.terms)

    @property
    def work(self) -> float:
        """What one point costs, once it is learnt: hardly anything."""
        return float(self.layout.N) / 100

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, sds 1, the dispersions' own."""
        own = [term.start(1.0) for term in self.terms]
        return np.concatenate([self.layout.rows.mean, *own, self.layout.rows.dispersion_start()])

    def error(self, theta: np.ndarray) -> np.ndarray:
        """None of its own: see `integrate_block`."""
        return np.zeros(len(theta))

    def choose_nodes(self, theta: np.ndarray) -> None:
        """There are none."""

    def beta(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """b(u) (n, p) and a root L(u) (n, p, p) of β's covariance at n points."""
        W = self.between(u)
        entries = W @ self.entries
        entries[:, self.diagonal] = np.exp(entries[:, self.diagonal])
        L = np.zeros((len(u), self.p, self.p))
        L[:, self.lower[0], self.lower[1]] = entries
        L = L @ self.stretch
        return W @ self.b + self.shift * np.sqrt((L**2).sum(2)), L

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        u = theta[:, self.p :]
        b, L = self.beta(u)
        e = np.linalg.solve(L, (theta[:, : self.p] - b)[:, :, None])[:, :, 0]
        volume = np.linalg.slogdet(L)[1] + self.p * np.log(2 * np.pi) / 2
        return self.polynomial(u) - (e**2).sum(1) / 2 - volume

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one θ; the latter two in β alone."""
        b, L = self.beta(theta[None, self.p :])
        P = np.linalg.inv(L[0] @ L[0].T) if self.p else np.zeros((0, 0))
        d = len(theta)
        gradient, H = np.zeros(d), np.zeros((d, d))
        gradient[: self.p] = -P @ (theta[: self.p] - b[0])
        H[: self.p, : self.p] = -P
        return float(self.log_density(theta[None])[0]), gradient, H

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density, and E z and E z² of all levels' coefficients at n points, (n, M) each."""
        W, away = self._away(theta)
        first, variance = np.zeros((2, len(theta), len(self.points[0].mean)))
        for j, point in enumerate(self.points):
            first += W[:, [j]] * (point.mean - away[:, j] @ point.U.T)
            variance += W[:, [j]] * point.variance
        second = first**2 + np.maximum(variance, 0.0)
        return Evaluated(self.log_density(theta), first, second)

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Every term's effects."""
        share = weights @ self.between(theta[:, self.p :])
        found: dict[int, Effects] = {}
        means, seconds = self._by_factor(first), self._by_factor(second)
        for f, factor in enumerate(self.layout.factors):
            square = sum(s * point.squares[f] for s, point in zip(share, self.points, strict=True))
            sd = np.sqrt(np.maximum(seconds[f] - means[f] ** 2, 0.0))
            at = 0
            for t in factor.terms:
                here = slice(at, at + self.terms[t].q)
                found[t] = Effects(means[f][:, here], sd[:, here], square[here, here])
                at = here.stop
        return tuple(found[t] for t in range(len(self.terms)))

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Of all coefficients (M, a), each term's (levels, q, a)."""
        parts = self._by_factor(values)
        found: dict[int, np.ndarray] = {}
        for f, factor in enumerate(self.layout.factors):
            at = 0
            for t in factor.terms:
                found[t] = parts[f][:, at : at + self.terms[t].q]
                at += self.terms[t].q
        return tuple(found[t] for t in range(len(self.terms)))

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows given n points: normal for known levels, on nodes; new levels add their variance."""
        assert self.Q is not None
        factors = self.layout.factors
        levels = [codes[f.terms[0]] for f in factors]
        columns = [
            np.concatenate([np.where(codes[t][:, None] >= 0, R[t], 0.0) for t in f.terms], axis=1)
            for f in factors
        ]
        center = np.maximum(self.Q.covariances.rows(levels, columns), 0.0)
        J, m = len(self.points), len(X)
        mean, own, third = np.zeros((3, J, m))
        moved = np.zeros((J, m, self.p))
        for j, point in enumerate(self.points):
            of = zip(
                *(
                    self._by_factor(part)
                    for part in (point.mean, point.variance, point.third, point.U)
                ),
                levels,
                columns,
                strict=True,
            )
            for z, v, c, U, level, r in of:
                at = np.maximum(level, 0)
                mean[j] += (r * z[at]).sum(1)
                own[j] += (r**2 * v[at]).sum(1)
                third[j] += (r**3 * c[at]).sum(1)
                moved[j] += np.einsum("mi,mip->mp", r, U[at])
        own = np.divide(own, self._diagonal(levels, columns), out=np.ones_like(own), where=own > 0)
        W, away = self._away(theta)
        eta = theta[:, : self.p] @ X.T + W @ mean
        eta -= np.einsum("nj,njp,jmp->nm", W, away, moved, optimize=True)
        sd = np.sqrt(np.maximum(W @ own, 0.0) * center)
        extra = np.zeros((len(theta), m))
        for t, spread in enumerate(self.layout.spreads(theta[:, self.p :])):
            new = np.flatnonzero(codes[t] < 0)
            r = R[t][new]
            extra[:, new] += np.einsum("mi,nij,mj->nm", r, spread.covariance, r, optimize=True)
        x, w = (np.array(part) for part in zip(*nodes(1.0), strict=True))
        skewness = np.clip((W @ third) / np.maximum(sd, 1e-90) ** 3, -MOST_SKEWED, MOST_SKEWED)
        on_nodes = eta[:, :, None] + sd[:, :, None] * skewed(x, skewness[:, :, None])
        yield Lines(np.arange(len(theta)), on_nodes, np.broadcast_to(w, on_nodes.shape), extra)

    def _diagonal(self, levels: Sequence[np.ndarray], columns: Sequence[np.ndarray]) -> np.ndarray:
        """Σ_f r² Var(z) of m rows by the kept covariances, as if coefficients were independent, (m,)."""
        total = np.zeros(len(levels[0]))
        for C, level, r in zip(self.blocks, levels, columns, strict=True):
            variance = _diagonal(C)[np.maximum(level, 0)]
            total += (r**2 * variance).sum(1)
        return total

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """One draw of all levels given each of n points: normal, as wide as each level is there."""
        assert self.Q is not None
        W, away = self._away(theta)
        noise = self.Q.draw(len(theta), rng).T
        kept = np.concatenate([_diagonal(C).ravel() for C in self.blocks])
        mean, variance = np.zeros((2, *noise.shape))
        for j, point in enumerate(self.points):
            mean += W[:, [j]] * (point.mean - away[:, j] @ point.U.T)
            variance += W[:, [j]] * point.variance
        z = mean + noise * np.sqrt(np.maximum(variance, 0.0) / kept)
        effects = (np.moveaxis(part, 2, 0) for part in self.expand(z.T))
        return Drawn(theta[:, : self.p], tuple(effects))

    def settle(self, fits: Fits) -> None:
        """Keep q's precision at the point nearest to the center, for rows to come and for draws."""
        fitted = fits.fit(self.points[self.nearest_to_center()].u)
        self.Q = fitted.Q
        self.blocks = fitted.Q.blocks()

    def nearest_to_center(self) -> int:
        """Which of the points."""
        e = self.frame.inward(np.array([point.u for point in self.points]))
        return int((e**2).sum(1).argmin())

    def _away(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the points (n, J), and β less each point's mean, (n, J, p)."""
        W = self.between(theta[:, self.p :])
        b = (W @ self.b)[:, None, :]
        return W, np.broadcast_to(
            theta[:, None, : self.p] - b, (len(theta), len(self.points), self.p)
        )

    def _by_factor(self, flat: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum(self.layout.sizes)[:-1]
        return [
            part.reshape(f.levels, f.q, *flat.shape[1:])
            for f, part in zip(self.layout.factors, np.split(flat, ends), strict=True)
        ]


def _diagonal(blocks: np.ndarray) -> np.ndarray:
    return np.diagonal(blocks, axis1=1, axis2=2)


def skewed(x: np.ndarray, skewness: np.ndarray) -> np.ndarray:
    """Standard normal x as a variable of mean 0, variance 1 and about this skewness (Cornish and Fisher)."""
    return (x + skewness / 6 * (x**2 - 1)) / np.sqrt(1 + skewness**2 / 18)
