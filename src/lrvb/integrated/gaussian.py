"""Gaussian rows: evidence and conditional moments of all coefficients, exact given θ.

θ holds each term's covariance and the log residual sd. With Q = CᵀC/σ² + P and the largest factor's
blocks D eliminated, everything is sums over rows made once and small matrices, vectorised over θ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..collapsed.gaussian.incidence import Vector
from ..collapsed.gaussian.layout import Grouping, Layout
from .inside import Drawn, Lines
from .normal import Moments, Normal
from .regression import Regression
from .terms import SdPrior, Term

_CELLS = 2**17  # numbers in the largest array of one chunk of θ: what fits a cache
_PRODUCT = 2**24  # entries up to which BᵀEB of all θ is one matrix product
_REACH = 40.0  # log sds this far from the rows' own scale are beyond double precision


class Conditional(NamedTuple):
    """Of n points: evidence (n,); means and covariances of the rest (n, r), (n, r, r); of levels.

    levels (n, G, q) and within (n, G, q, q) are of the eliminated factor; F (n, G, q, r) takes the
    rest to the levels: z = its mean − F·(rest − its mean).
    """

    value: np.ndarray
    rest: np.ndarray
    covariance: np.ndarray
    levels: np.ndarray
    within: np.ndarray
    F: np.ndarray


class Gaussian(Normal):
    """y = Xβ + Σ_t R_t z_t + ε: the log density of θ, and the coefficients given θ.

    Terms of one factor that is the largest are eliminated together; a flat prior of β is allowed. Without
    terms nothing is, and β alone is the rest.
    """

    def __init__(self, rows: Regression, terms: Sequence[Term], residual: SdPrior):
        super().__init__(rows, terms, residual)
        y = rows.columns[0] - rows.offset - rows.X @ rows.mean
        w = np.ones(len(y)) if rows.weights is None else rows.weights
        self.yy = float(w @ y**2)
        self.scale = rows.spread(y) or 1.0
        self.together: list[int] = []
        self.others: list[int] = []
        self.offsets: list[int] = []
        if not terms:
            p = rows.p
            self.G, self.q, self.r = 0, 1, p
            self.D, self.B = np.zeros((0, 1, 1)), np.zeros((0, 1, p))
            self.A = rows.X.T @ (w[:, None] * rows.X)
            self.by = Vector(np.zeros((0, 1)), rows.X.T @ (w * y))
            return
        # the factor with most coefficients is eliminated, with all terms that share its codes
        first = max(terms, key=lambda term: term.levels * term.q)
        self.together = [t for t, term in enumerate(terms) if _same(term.codes, first.codes)]
        self.others = [t for t in range(len(terms)) if t not in self.together]
        order = np.argsort(first.codes, kind="stable")
        R = np.concatenate([terms[t].R for t in self.together], axis=1)[order]
        own = Grouping(first.codes[order], R, first.levels)
        others = [
            Grouping(terms[t].codes[order], terms[t].R[order], terms[t].levels) for t in self.others
        ]
        layout = Layout(rows.X[order], own, others)
        self.D, B, self.A = layout.cross(w[order])
        self.G, self.q, self.r, self.offsets = layout.G, layout.q, layout.r, layout.offsets
        dense = B if isinstance(B, np.ndarray) else B.toarray()
        self.B = dense.reshape(self.G, self.q, self.r)
        self.by = layout.adjoint((w * y)[order])

    @property
    def work(self) -> float:
        """What one point costs, in evaluations of a row's density: flops of dense products."""
        return dense_work(self.G, self.q, self.r)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where it is beyond double precision."""
        result = np.full(len(theta), -np.inf)
        free = np.array(self.kinds) == "log"
        ok = np.flatnonzero((np.abs(theta[:, free] - self.start()[free]) < _REACH).all(1))
        for at in self._chunks(ok):
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # made −∞ there
                result[at] = self._solve(theta[at], moments=False).value
        return result

    def conditional(self, theta: np.ndarray) -> Conditional:
        """Evidence and moments at n points; β is among the rest with its prior mean taken off."""
        return self._solve(theta, moments=True)

    def beta(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Conditional means (n, p) and covariances (n, p, p) of β at n points."""
        p = self.rows.p
        mean, covariance = np.empty((len(theta), p)), np.empty((len(theta), p, p))
        for at in self._chunks(np.arange(len(theta))):
            c = self._solve(theta[at], moments=True, levels=False)
            mean[at] = self.rows.mean + c.rest[:, :p]
            covariance[at] = c.covariance[:, :p, :p]
        return mean, covariance

    def moments(
        self, theta: np.ndarray, weights: np.ndarray, values: np.ndarray | None = None
    ) -> Moments:
        """The weighted mixture over θ of all coefficients' conditional means and covariances.

        values (n, a) are whatever else is known at the points.
        """
        p, n = self.rows.p, len(theta)
        values = np.zeros((n, 0)) if values is None else values
        weights = weights / weights.sum()
        T = values - weights @ values
        sums: list[dict[str, np.ndarray]] = [
            {
                "first": np.zeros((term.levels, term.q)),
                "second": np.zeros((term.levels, term.q)),
                "beta": np.zeros((term.levels, term.q, p)),
                "values": np.zeros((term.levels, term.q, T.shape[1])),
                "square": np.zeros((term.q, term.q)),
            }
            for term in self.terms
        ]
        first, second = np.zeros(p), np.zeros(p)
        for at in self._chunks(np.arange(n), moments=True):
            w = weights[at]
            c = self._solve(theta[at], moments=True)
            b = c.rest[:, :p]
            first += w @ b
            second += w @ (b**2 + np.diagonal(c.covariance, axis1=1, axis2=2)[:, :p])
            for total, (z, own, cross) in zip(sums, self._by_term(c), strict=True):
                total["first"] += np.tensordot(w, z, axes=1)
                variance = np.diagonal(own, axis1=2, axis2=3)
                total["second"] += np.tensordot(w, z**2 + variance, axes=1)
                total["beta"] += np.einsum("n,ngi,np->gip", w, z, b, optimize=True)
                total["beta"] += np.tensordot(w, cross, axes=1)
                total["values"] += np.einsum("n,ngi,na->gia", w, z, T[at], optimize=True)
                total["square"] += np.einsum("n,ngi,ngj->ij", w, z, z, optimize=True)
                total["square"] += np.tensordot(w, own.sum(1), axes=1)
        return Moments(
            self.rows.mean + first,
            np.sqrt(second - first**2),
            tuple(total["first"] for total in sums),
            tuple(np.sqrt(total["second"] - total["first"] ** 2) for total in sums),
            tuple(total["beta"] - total["first"][:, :, None] * first for total in sums),
            tuple(total["values"] for total in sums),
            tuple(total["square"] for total in sums),
        )

    def _by_term(self, c: Conditional) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Of each term's levels: means (n, G, q), covariances (n, G, q, q) and those with β."""
        p = self.rows.p
        FS = np.einsum("ngir,nrs->ngis", c.F, c.covariance, optimize=True)
        whole = c.within + np.einsum("ngis,ngjs->ngij", FS, c.F, optimize=True)
        found: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        at = 0
        for t in self.together:
            here = slice(at, at + self.terms[t].q)
            found[t] = c.levels[:, :, here], whole[:, :, here, here], -FS[:, :, here, :p]
            at = here.stop
        for t, start in zip(self.others, self.offsets, strict=False):
            G, q = self.terms[t].levels, self.terms[t].q
            place = start + np.arange(G * q).reshape(G, q)
            own = c.covariance[:, place[:, :, None], place[:, None, :]]
            found[t] = c.rest[:, place], own, c.covariance[:, place, :p]
        return [found[t] for t in range(len(self.terms))]

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m new rows given n points: normal, with a single node."""
        for at in self._chunks(np.arange(len(theta)), moments=True, rows=len(X)):
            mean, variance = self.functionals(theta[at], X, codes, R)
            yield Lines(at, mean[:, :, None], np.ones((*mean.shape, 1)), variance)

    def functionals(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Conditional means and variances (n, m) of η = Xβ + Σ R_t z_t for m new rows, at n points.

        codes and R are each term's; a level of −1 is new, and adds its term's variance.
        """
        m = len(X)
        A = np.zeros((m, self.r))
        A[:, : X.shape[1]] = X
        fresh = [np.where(code < 0)[0] for code in codes]
        for t, start in zip(self.others, self.offsets, strict=False):
            known = np.flatnonzero(codes[t] >= 0)
            q = self.terms[t].q
            for i in range(q):
                A[known, start + codes[t][known] * q + i] += R[t][known, i]
        parts = [np.where(codes[t][:, None] >= 0, R[t], 0.0) for t in self.together]
        K = np.concatenate([np.zeros((m, 0)), *parts], axis=1)
        level = np.maximum(codes[self.together[0]], 0) if parts else np.zeros(0, dtype=int)
        mean, variance = np.empty((len(theta), m)), np.empty((len(theta), m))
        for at in self._chunks(np.arange(len(theta)), moments=True, rows=m):
            c = self._solve(theta[at], moments=True)
            mean[at] = X @ self.rows.mean + c.rest @ A.T
            if not parts:
                variance[at] = np.einsum("mr,nrs,ms->nm", A, c.covariance, A, optimize=True)
                continue
            W = A - np.einsum("mi,nmir->nmr", K, c.F[:, level])
            mean[at] += np.einsum("mi,nmi->nm", K, c.levels[:, level])
            variance[at] = np.einsum("nmr,nrs,nms->nm", W, c.covariance, W, optimize=True)
            variance[at] += np.einsum("mi,nmij,mj->nm", K, c.within[:, level], K, optimize=True)
            for t, spread in enumerate(self.spreads(theta[at])):
                new = R[t][fresh[t]]
                variance[np.ix_(at, fresh[t])] += np.einsum(
                    "mi,nij,mj->nm", new, spread.covariance, new, optimize=True
                )
        return mean, variance

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """The rest from its normal, then the eliminated levels given it."""
        n, p = len(theta), self.rows.p
        beta = np.empty((n, p))
        effects = [np.empty((n, term.levels, term.q)) for term in self.terms]
        for at in self._chunks(np.arange(n), moments=True):
            c = self._solve(theta[at], moments=True)
            noise = rng.standard_normal((len(at), self.r, 1))
            away = (np.linalg.cholesky(c.covariance) @ noise)[:, :, 0]
            beta[at] = self.rows.mean + (c.rest + away)[:, :p]
            own = np.linalg.cholesky(c.within) @ rng.standard_normal((*c.levels.shape, 1))
            z = c.levels - np.einsum("ngir,nr->ngi", c.F, away) + own[..., 0]
            first = 0
            for t in self.together:
                here = slice(first, first + self.terms[t].q)
                effects[t][at], first = z[:, :, here], here.stop
            for t, start in zip(self.others, self.offsets, strict=False):
                place = slice(start, start + self.terms[t].levels * self.terms[t].q)
                effects[t][at] = (c.rest + away)[:, place].reshape(len(at), *effects[t].shape[1:])
        return Drawn(beta, tuple(effects))

    def _chunks(
        self, points: np.ndarray, moments: bool = False, rows: int = 0
    ) -> Iterator[np.ndarray]:
        """Points in runs whose arrays stay small."""
        size = self.G * self.q**2 + self.r**2 + moments * self.G * self.q * self.r + rows * self.r
        n = max(1, _CELLS // size)
        for start in range(0, len(points), n):
            yield points[start : start + n]

    def _solve(self, theta: np.ndarray, moments: bool, levels: bool = True) -> Conditional:
        """Elimination at n points: E = (D/σ² + Λ)⁻¹, S = A/σ² + P − BᵀEB/σ⁴, evidence from both."""
        n, N, r = len(theta), self.n, self.r
        spreads = self.spreads(theta)
        tau = np.exp(-2 * theta[:, -1])
        prior = self.log_prior(theta, spreads)
        value = prior - N * (theta[:, -1] + np.log(2 * np.pi) / 2) - tau * self.yy / 2
        blocks = np.zeros((n, self.q, self.q))
        at = 0
        for t in self.together:
            here = slice(at, at + self.terms[t].q)
            blocks[:, here, here] = spreads[t].precision
            value -= self.G * spreads[t].logdet / 2
            at = here.stop
        Q = tau[:, None, None, None] * self.D + blocks[:, None]
        # a correlation of one, to rounding, leaves no finite number: a point of weight zero, as below
        with np.errstate(divide="ignore", invalid="ignore"):
            E, logdet = inverse_of(Q)
            S, rhs, reduced = self.schur(E, tau)
        value -= logdet.sum(1) / 2
        value += tau**2 * reduced / 2
        for t, start in zip(self.others, self.offsets, strict=False):
            q, G = self.terms[t].q, self.terms[t].levels
            place = start + q * np.arange(G)
            for i in range(q):
                for j in range(q):
                    S[:, place + i, place + j] += spreads[t].precision[:, i, j, None]
            value -= G * spreads[t].logdet / 2
        p = self.rows.p
        P, constant = self.prior_precision(theta)
        S[:, :p, :p] += P
        value += constant + p * np.log(2 * np.pi) / 2
        L = _cholesky(S)
        value -= np.log(np.diagonal(L, axis1=1, axis2=2)).sum(1)
        half = np.linalg.solve(L, rhs[:, :, None])[:, :, 0]
        value += (half**2).sum(1) / 2
        value = np.where(np.isnan(value), -np.inf, value)
        none = np.empty((n, 0))
        if not moments:
            return Conditional(value, none, none, none, none, none)
        root = np.linalg.solve(L, np.broadcast_to(np.eye(r), (n, r, r)))
        covariance = root.swapaxes(1, 2) @ root
        rest = np.einsum("nrs,ns->nr", covariance, rhs)
        if not levels:
            return Conditional(value, rest, covariance, none, none, none)
        F = tau[:, None, None, None] * np.einsum("ngij,gjr->ngir", E, self.B)
        levels_mean = tau[:, None, None] * np.einsum("ngij,gj->ngi", E, self.by.z)
        levels_mean -= np.einsum("ngir,nr->ngi", F, rest)
        return Conditional(value, rest, covariance, levels_mean, E, F)

    def schur(self, E: np.ndarray, tau: np.ndarray) -> tuple[np.ndarray, ...]:
        """A/σ² − BᵀEB/σ⁴ (n, r, r), its right side (n, r), and bᵀEb (n,), of n points."""
        n, r, G, q = len(tau), self.r, self.G, self.q
        b = self.by.z
        if G * q**2 * r**2 <= _PRODUCT:
            flat = E.reshape(n, G * q**2)
            BB, Bb, bb = self._products()
            inner, right, reduced = (flat @ BB).reshape(n, r, r), flat @ Bb, flat @ bb
        else:
            inner = np.empty((n, r, r))
            for k in range(n):
                EB = E[k] @ self.B
                inner[k] = np.tensordot(self.B, EB, axes=([0, 1], [0, 1]))
            Eb = np.einsum("ngij,gj->ngi", E, b)
            right = np.einsum("gir,ngi->nr", self.B, Eb)
            reduced = np.einsum("gi,ngi->n", b, Eb)
        t = tau[:, None, None]
        S = t * self.A - t**2 * inner
        return S, tau[:, None] * self.by.rest - tau[:, None] ** 2 * right, reduced

    def _products(self) -> tuple[np.ndarray, ...]:
        """Outer products within levels: of B with B, of B with b, of b with b, (Gq², …)."""
        if not hasattr(self, "_made"):
            b, size, r = self.by.z, self.G * self.q**2, self.r
            BB = np.einsum("gir,gjs->gijrs", self.B, self.B).reshape(size, r * r)
            Bb = np.einsum("gir,gj->gijr", self.B, b).reshape(size, r)
            self._made = BB, Bb, np.einsum("gi,gj->gij", b, b).reshape(size)
        return self._made


def dense_work(G: int, q: int, r: int) -> float:
    """What one point costs of G levels with q coefficients and r of the rest."""
    return (G * q**2 * r**2 + r**3) / 100 + G * q**3 + 100


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two terms have the same factor."""
    return a is b or np.array_equal(a, b)


def inverse_of(Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverses and log determinants of small symmetric matrices (..., q, q)."""
    if Q.shape[-1] == 1:
        return 1 / Q, np.log(Q[..., 0, 0])
    if Q.shape[-1] == 2:
        det = Q[..., 0, 0] * Q[..., 1, 1] - Q[..., 0, 1] ** 2
        E = np.empty_like(Q)
        E[..., 0, 0], E[..., 1, 1] = Q[..., 1, 1] / det, Q[..., 0, 0] / det
        E[..., 0, 1] = E[..., 1, 0] = -Q[..., 0, 1] / det
        return E, np.log(det)
    L = _cholesky(Q)
    root = np.linalg.inv(L)
    return root.swapaxes(-1, -2) @ root, 2 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(-1)


def _cholesky(S: np.ndarray) -> np.ndarray:
    """Lower factors (..., r, r); NaN for those that are not positive definite, here by rounding."""
    try:
        return np.linalg.cholesky(S)
    except np.linalg.LinAlgError:
        flat = S.reshape(-1, *S.shape[-2:])
        L = np.full_like(flat, np.nan)
        for k in range(len(flat)):
            try:
                L[k] = np.linalg.cholesky(flat[k])
            except np.linalg.LinAlgError:
                continue
        return L.reshape(S.shape)
