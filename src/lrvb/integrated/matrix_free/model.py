"""Gaussian rows with crossed or nested factors of many levels: the log density of θ, and levels given θ.

Factors of few levels are columns beside X, whose prior precision θ knows; all others are eliminated, and
what they leave of the rows, h and M at their relative covariances ζ, is joined by a polynomial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..inside import Drawn, Lines
from ..normal import Moments, Normal
from ..origins import OVERLOOKED
from ..regression import Regression
from ..terms import SdPrior, Term
from .conjugate import given_up
from .draws import draw, normals, perturbed
from .effects import Given, Levels, Nearest, Smooth, Summed
from .evidence import Evidence, Point
from .location import Domain
from .outside import Outside, condition
from .sums import Factor, Sums, factors_of, sum_rows
from .surrogate import Surrogate, Values

PROBES = 16
FEW = 40  # coefficients of a factor up to which they are columns
WIDE = 10, 120  # and levels up to which more of them are: an sd of few levels is no polynomial's
_FAR = 60.0
_CELLS = 2**22
_KEPT, _NODES = 2**27, 64  # numbers that draws' levels may take, and draws


class Split(NamedTuple):
    """Where θ has the big factors' ζ (D,), and the rest ω: small factors' parts, penalties and log σ."""

    zeta: np.ndarray
    omega: np.ndarray
    relative: np.ndarray  # which of ζ are log sds, in units of the residual's


class MatrixFree(Normal):
    """y = Xβ + Σ_t R_t z_t + ε; evidence by conjugate gradients and probes.

    `domain` and `surrogate` are made by `prepare`, `draws` are some of θ's in random order, `noise` tells
    what the probes leave uncertain, `overlooked` of a part of the posterior far from all points, `unsolved`
    at what share of a right side conjugate gradients gave up at points that count.
    """

    domain: Domain
    surrogate: Surrogate
    overlooked = False
    unsolved = 0.0

    def __init__(
        self,
        rows: Regression,
        terms: Sequence[Term],
        residual: SdPrior,
        probes: int = PROBES,
        seed: int = 0,
        sums: Sums | None = None,
    ):
        super().__init__(rows, terms, residual)
        factors = factors_of(terms)
        self.factors: list[Factor] = [
            f for i, f in enumerate(factors) if i == 0 or not _is_small(f)
        ]
        self.small: list[Factor] = [f for i, f in enumerate(factors) if i > 0 and _is_small(f)]
        if sums is None:
            y = rows.columns[0] - rows.offset - rows.X @ rows.mean
            sums = sum_rows(self.factors, rows.X, y, self.small, rows.n)
        self.sums, self.n = sums, sums.n
        big = sorted(t for factor in self.factors for t in factor.terms)
        self.big = [self.terms[t] for t in big]
        own = [tuple(big.index(t) for t in factor.terms) for factor in self.factors]
        self.evidence = Evidence(sums, self.big, own, probes, seed)
        self.split = self._split(big)
        self.scale = float(np.sqrt(max(sums.TT[-1, -1] / sums.n, 1e-300)))
        self.points: list[Point] = []
        self.heights: list[float] = []
        self.error = np.inf
        self.draws = np.empty((0, len(self.kinds)))
        self._levels: Levels | None = None

    @property
    def exact(self) -> bool:
        """Whether log determinants are, without probes."""
        return self.evidence.exact

    def zeta(self, theta: np.ndarray) -> np.ndarray:
        """ζ of n points θ, (n, D)."""
        return theta[:, self.split.zeta] - np.where(self.split.relative, theta[:, -1:], 0.0)

    def theta(self, zeta: np.ndarray, omega: np.ndarray) -> np.ndarray:
        """θ of n points ζ (n, D) and ω (n, k)."""
        made = np.empty((len(zeta), len(self.kinds)))
        made[:, self.split.omega] = omega
        made[:, self.split.zeta] = zeta + np.where(self.split.relative, made[:, -1:], 0.0)
        return made

    def outside(self, theta: np.ndarray, h: np.ndarray, M: np.ndarray) -> Outside:
        """b and log p(y, θ) at n points with these h (n,) and M (n, p + 1, p + 1)."""
        n, p = len(theta), self.rows.p
        spreads = self.spreads(theta)
        P = np.zeros((n, self.sums.p, self.sums.p))
        P[:, :p, :p], constant = self.prior_precision(theta)
        at = p
        for factor in self.small:
            q = 0
            place = at + factor.q * np.arange(factor.levels)
            for t in factor.terms:
                for i in range(self.terms[t].q):
                    for j in range(self.terms[t].q):
                        entry = spreads[t].precision[:, i, j, None]
                        P[:, place + q + i, place + q + j] = entry
                q += self.terms[t].q
                size = factor.levels * (spreads[t].logdet + self.terms[t].q * np.log(2 * np.pi))
                constant = constant - size / 2
            at = place[-1] + factor.q
        found = condition(self.n, P, constant, h, M, theta[:, -1])
        value = found.value + self.log_prior(theta, spreads)
        return found._replace(value=np.where(np.isnan(value), -np.inf, value))

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        value = np.full(len(theta), -np.inf)
        near = np.abs(theta[:, -1] - np.log(self.scale)) < _FAR
        near &= (np.abs(self.zeta(theta) - self.domain.center) < _FAR).all(1)
        ok = np.flatnonzero(near & (np.abs(theta[:, self.split.omega]) < 10 * _FAR).all(1))
        t = theta[ok]
        zeta, cost = self.domain.within(self.zeta(t))
        found = self.surrogate.at(zeta)
        value[ok] = self.outside(t, found.h, found.M).value - cost
        return value

    def exactly(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points, each with h and M of its own."""
        points = [self.evidence.at(zeta) for zeta in self.zeta(theta)]
        h, M = np.array([point.h for point in points]), np.array([point.M for point in points])
        return self.outside(theta, h, M).value

    def noise(self, theta: np.ndarray) -> np.ndarray:
        """What each probe alone would add to log p at n points, (n, P)."""
        return -self._between(theta).noise / 2

    def beta(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Conditional means (n, p) and covariances (n, p, p) of β at n points."""
        found, p = self._given(theta), self.rows.p
        return self.rows.mean + found.b[:, :p], found.covariance[:, :p, :p]

    def moments(
        self, theta: np.ndarray, weights: np.ndarray, values: np.ndarray | None = None
    ) -> Moments:
        """The weighted mixture over θ of all coefficients' conditional means and covariances."""
        n, p = len(theta), self.rows.p
        w = weights / weights.sum()
        values = np.zeros((n, 0)) if values is None else values
        away = values - w @ values
        outside = self._given(theta)
        b = outside.b
        first = w @ b
        second = w @ (b**2 + np.diagonal(outside.covariance, axis1=1, axis2=2))
        sd = np.sqrt(np.maximum(second - first**2, 0.0))
        spreads = self.spreads(theta)
        sds = [np.concatenate([spreads[t].sd for t in f.terms], axis=1) for f in self.factors]
        given = Given(w, self._interpolated(theta), b, outside.covariance, sds)
        whole = [(f, self.levels.summed(i, given, away)) for i, f in enumerate(self.factors)]
        C = (b - first).T @ (w[:, None] * (b - first))
        C = C + np.tensordot(w, outside.covariance, axes=1)
        V = (b - first).T @ (w[:, None] * away)
        at = p
        for factor in self.small:
            K, q = factor.levels, factor.q
            here = slice(at, at + K * q)
            place = np.arange(at, at + K * q).reshape(K, q)
            square = C[place[:, :, None], place[:, None, :]].sum(0)
            square = square + first[place].T @ first[place]
            parts = (first[place], sd[place], C[here].reshape(K, q, -1), V[here].reshape(K, q, -1))
            whole.append((factor, Summed(*parts, square)))
            at = here.stop
        found: dict[int, Summed] = {}
        for factor, of in whole:
            at = 0
            for t in factor.terms:
                here = slice(at, at + self.terms[t].q)
                found[t] = Summed(
                    of.mean[:, here],
                    of.sd[:, here],
                    of.with_b[:, here, :p],
                    of.with_values[:, here],
                    of.square[here, here],
                )
                at = here.stop
        ordered = [found[t] for t in range(len(self.terms))]
        by_part = (tuple(part) for part in zip(*ordered, strict=True))
        return Moments(self.rows.mean + first[:p], sd[:p], *by_part)

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m new rows given n points: normal, with a single node."""
        levels = [codes[f.terms[0]] for f in self.factors]
        H, variance = self.levels.rows(levels, [_joined(f, codes, R) for f in self.factors])
        wide = np.concatenate([X, *(_columns(f, codes, R) for f in self.small)], axis=1)
        p, plain = self.sums.p, X @ self.rows.mean
        step = max(1, _CELLS // (len(X) * max(p, 1)))
        for start in range(0, len(theta), step):
            at = np.arange(start, min(start + step, len(theta)))
            found = self._given(theta[at])
            L = self._interpolated(theta[at])
            moved = np.einsum("nj,mja->nma", L, H, optimize=True)
            left = wide - moved[:, :, :p]
            eta = plain + moved[:, :, p] + np.einsum("nmp,np->nm", left, found.b)
            extra = np.exp(2 * theta[at, -1])[:, None] * np.maximum(L @ variance.T, 0.0)
            extra += np.einsum("nmp,npq,nmq->nm", left, found.covariance, left, optimize=True)
            for t, spread in enumerate(self.spreads(theta[at])):
                new = np.flatnonzero(codes[t] < 0)
                r = R[t][new]
                extra[:, new] += np.einsum("mi,nij,mj->nm", r, spread.covariance, r, optimize=True)
            yield Lines(at, eta[:, :, None], np.ones((*eta.shape, 1)), extra)

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """b from its normal; levels given b as interpolated, and their own part by perturbed rows.

        The own part is σQ⁻¹(Λ^½e + Σ c_n e_n) with normal e, one solve for every θ.
        """
        n, p = len(theta), self.rows.p
        found, sd = self._given(theta), np.exp(theta[:, -1])
        noise = rng.standard_normal((*found.b.shape, 1))
        b = found.b + (np.linalg.cholesky(found.covariance) @ noise)[:, :, 0]
        ways = self._interpolated(theta)[:, :, None] * np.column_stack([-b, np.ones(n)])[:, None]
        z = [ways.reshape(n, -1) @ U.reshape(len(U), -1).T for U in self.levels.U]
        points, place = np.unique(theta, axis=0, return_inverse=True)
        for i, zeta in enumerate(self.zeta(points)):
            same = np.flatnonzero(place.reshape(-1) == i)
            schur = self.evidence.schur(zeta)
            of_rows = perturbed(schur.sums, self.factors)
            first, rest = draw(schur, of_rows, len(same), rng, normals)
            own = [first, *(rest[where] for where in self.sums.places)]
            for f, part in enumerate(own):
                z[f][same] += sd[same, None] * part.T
        at = p
        for factor in self.small:
            stop = at + factor.levels * factor.q
            z.append(b[:, at:stop])
            at = stop
        effects: dict[int, np.ndarray] = {}
        for factor, part in zip([*self.factors, *self.small], z, strict=True):
            shaped, start = part.reshape(n, factor.levels, factor.q), 0
            for t in factor.terms:
                effects[t] = shaped[:, :, start : start + self.terms[t].q]
                start += self.terms[t].q
        whole = tuple(effects[t] for t in range(len(self.terms)))
        return Drawn(self.rows.mean + b[:, :p], whole)

    @property
    def levels(self) -> Levels:
        """What is known of the big factors' levels, made when first asked for."""
        if self._levels is None:
            own = self.evidence, self.factors
            if self.domain.wide.any() and any(term.q > 1 for term in self.big):
                size = sum(K * q for K, q in zip(self.sums.levels, self.sums.q, strict=True))
                few = int(np.clip(_KEPT // (size * (self.sums.p + 1)), 8, _NODES))
                self._levels = Nearest(*own, self.domain, self.zeta(self.draws[:few]))
            else:
                self._levels = Smooth(*own, self.surrogate.shares, self.domain)
        return self._levels

    @property
    def unknown(self) -> str:
        """What it leaves that no error counts, as a clause; none where all is counted."""
        of_levels = 0.0 if self._levels is None else self._levels.unsolved
        return OVERLOOKED if self.overlooked else given_up(max(self.unsolved, of_levels))

    @property
    def levels_error(self) -> float:
        """What levels' sds are off by, as a share: of those that draws give."""
        return self.levels.covariances[0].error

    def _between(self, theta: np.ndarray) -> Values:
        zeta, _ = self.domain.within(self.zeta(theta))
        return self.surrogate.at(zeta)

    def _given(self, theta: np.ndarray) -> Outside:
        found = self._between(theta)
        return self.outside(theta, found.h, found.M)

    def _interpolated(self, theta: np.ndarray) -> np.ndarray:
        zeta, _ = self.domain.within(self.zeta(theta))
        return self.levels.interpolation(zeta)

    def _split(self, big: list[int]) -> Split:
        ends = np.cumsum([term.size for term in self.terms])
        places = [np.arange(e - t.size, e) for t, e in zip(self.terms, ends, strict=True)]
        zeta = np.concatenate([places[t] for t in big])
        omega = np.setdiff1d(np.arange(len(self.kinds)), zeta)
        return Split(zeta, omega, np.array(self.kinds)[zeta] == "log")


def _is_small(factor: Factor) -> bool:
    """Whether a factor's levels are columns beside X."""
    levels, most = WIDE
    size = factor.levels * factor.q
    return size <= FEW or (factor.levels <= levels and size <= most)


def _joined(factor: Factor, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]) -> np.ndarray:
    """Columns of a factor's terms at new rows, zero where the level is new, (m, q)."""
    parts = [np.where(codes[t][:, None] >= 0, R[t], 0.0) for t in factor.terms]
    return np.concatenate(parts, axis=1)


def _columns(factor: Factor, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]) -> np.ndarray:
    """A small factor's levels as columns at new rows, (m, Kq)."""
    level = codes[factor.terms[0]]
    found = np.zeros((len(level), factor.levels, factor.q))
    found[np.arange(len(level)), np.maximum(level, 0)] = _joined(factor, codes, R)
    return found.reshape(len(level), -1)
