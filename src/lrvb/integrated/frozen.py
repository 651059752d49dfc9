"""Many rows in one factor: near a point their sums are known at nodes that stay where they are.

With many levels θ is known far better than any level's effects are, so that one grid for each group serves
wherever the posterior is. Where fixed effects have the columns of random ones, X = RA, they only move
the levels' prior: rows depend on w = z + Aβ alone, whatever θ is; so do thresholds that move together.
A dispersion with a part of log p for itself is the same at all nodes. Of all else (other columns and
dispersions) a node's sum of rows is a polynomial near the center, of degree four along each axis and two in
pairs, or with all products of degree three where coordinates are few. A point then costs an exponential
for each node, and no visit to the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .coordinates import Kind
from .factor import Factor
from .factor_density import Ends
from .inside import Evaluated
from .mode import differenced
from .regression import lifted
from .stencil import STEP, Monomial, polynomials, products

_CELLS = 2**16  # nodes × points at a time: what fits a processor's cache
_POINTS = 32  # of them
_PRODUCT = 2**18  # multiplications at a time: beyond it BLAS wakes other processors
_SAMPLE = 4096  # rows that are tried before all are
MOST = 5e7  # numbers that are kept


def shared(inside: Factor) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of θ (d,) that nodes follow exactly, and how effects would move η as they do, A (q, d).

    Those of the levels' covariance; coefficients, and a dispersion that moves η, with columns RA; one that
    has a part of log p for itself.
    """
    density, R, p, k = inside.rows.likelihood, inside.R, inside.p, inside.k
    none = np.zeros(inside.extra)
    moving, apart = np.r_[none, density.moving], np.r_[none > 0, density.apart]
    columns = np.zeros((len(R), p + k + len(moving)))
    columns[:, :p], columns[:, p + k :] = inside.rows.X, moving
    few = slice(None, None, max(1, len(R) // _SAMPLE))
    A = np.linalg.lstsq(R[few], columns[few], rcond=None)[0]
    size = np.abs(columns).max(0, initial=0.0)

    def left(rows: slice, of: np.ndarray) -> np.ndarray:
        off = np.abs(columns[rows][:, of] - R[rows] @ A[:, of]).max(0, initial=0.0)
        return np.asarray(off <= 1e-9 * size[of])

    found = np.r_[np.ones(p, dtype=bool), np.zeros(k, dtype=bool), moving != 0]
    found[found] = left(few, found.copy())
    found[found] = left(slice(None), found.copy())
    A = np.where(found, A, 0.0)
    found[p : p + k] = True
    found[p + k :] |= apart
    return found, A


class Frozen:
    """log p(y, θ) around a center: f = f₀ + Φc(θ) at every node, with features Φ that stay.

    spread (d,) are sds of θ, within a few of which the polynomials are needed; own (d,) tells which
    coordinates need none: all that nodes follow exactly, if it is not given. A `rough` one
    has polynomials of degree two, which will do to find a center.
    """

    def __init__(
        self,
        inside: Factor,
        center: np.ndarray,
        spread: np.ndarray,
        own: np.ndarray | None = None,
        rough: bool = False,
    ):
        self.inside, self.center, self.p = inside, center.copy(), inside.p
        self.spread, self.rough = spread, rough
        q = inside.q
        found, A = shared(inside)
        own = found if own is None else own
        self.A = np.where(own, A, 0.0)
        self.others = np.flatnonzero(~own)
        self._apart = self._counted()
        self.step = STEP * spread[self.others]
        self.precision = inside._precision(center[None])[0][0]
        ends = inside._ends(center[None])
        grid, f = self._heights(center, ends)
        self.K, self.nodes = f.shape[1], inside._nodes(grid)[0]  # (G, K, q)
        top = f.max(1)
        total = top + np.log(np.exp(f - top[:, None]).sum(1))
        cell = ((ends.high - ends.low)[0] / (inside.nodes - 1)).prod(-1)
        cell = cell * np.diagonal(ends.C[0], axis1=1, axis2=2).prod(-1)
        counts = inside.groups.counts
        self.level = float(counts @ (total + np.log(cell) - q * np.log(2 * np.pi) / 2))
        z = self.nodes
        features = [z[..., i] for i in range(q)]
        features += [z[..., i] * z[..., j] for i, j in inside._pairs]
        polynomials = self._polynomials(f, ends)
        self.monomials = list(polynomials)
        features += polynomials.values()
        self.features = np.stack([part.reshape(-1) for part in features])  # (F, GK)
        self.base = (f - total[:, None]).reshape(-1)

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.inside.kinds

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where an integrand has left its nodes, or is not known.

        So far out polynomials may be of any size, infinite too.
        """
        value = self._constant(theta)
        counts, one = self.inside.groups.counts, np.ones(self.K)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for at, groups, P in self._run(theta):
                value[at] += np.log(P @ one) @ counts[groups]
        return np.where(value < np.inf, value, -np.inf)

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point, by differences over an eighth of `spread`."""
        return differenced(self.log_density, 0.125 * self.spread)(theta)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z (n, Gq) and E z_i z_j (n, Gq(q + 1)/2) of every group."""
        inside, n, q = self.inside, len(theta), self.inside.q
        counts, pairs = inside.groups.counts, inside._pairs
        size = q + len(pairs)
        powers = self.features[:size].reshape(size, inside.G, self.K).transpose(1, 2, 0)
        value, found = self._constant(theta), np.empty((n, inside.G, size))
        for at, groups, P in self._run(theta):
            total = P @ np.ones(self.K)
            value[at] += np.log(total) @ counts[groups]
            raw = P.swapaxes(0, 1) @ powers[groups]
            found[at, groups] = raw.swapaxes(0, 1) / total[..., None]
        moved = self._moved(theta)[:, None]
        first, second = found[..., :q], found[..., q:]
        for row, (i, j) in enumerate(pairs):  # E (z − m)(z − m)ᵀ
            m, w = moved[..., i], moved[..., j]
            second[..., row] += m * w - m * first[..., j] - w * first[..., i]
        return Evaluated(value, (first - moved).reshape(n, -1), second.reshape(n, -1))

    def _heights(self, theta: np.ndarray, ends: Ends) -> tuple[object, np.ndarray]:
        """The grid, and the log integrand (G, K) at its nodes with the center's prior."""
        sums = self.inside._rows_at(theta[None])
        grid, f = self.inside._heights(sums, self.precision[None], ends)
        return grid, np.ascontiguousarray(f[0].reshape(self.inside.G, -1))

    def _polynomials(self, f: np.ndarray, ends: Ends) -> dict[Monomial, np.ndarray]:
        """Coefficients (G, K) of products of t, the others in steps."""

        def at(moves: np.ndarray) -> np.ndarray:
            theta = self.center.copy()
            theta[self.others] += moves * self.step
            return self._heights(theta, ends)[1] - f

        return polynomials(at, len(self.others), self.rough)

    def _coefficients(self, theta: np.ndarray) -> np.ndarray:
        """c (n, F) of the features."""
        precision, moved = self.inside._precision(theta)[0], self._moved(theta)
        columns = list(np.einsum("nij,nj->in", precision, moved))
        for i, j in self.inside._pairs:
            once = 0.5 if i == j else 1.0
            columns.append(-once * (precision[:, i, j] - self.precision[i, j]))
        t = (theta - self.center)[:, self.others] / self.step
        return np.column_stack([*columns, products(t, self.monomials)])

    def _moved(self, theta: np.ndarray) -> np.ndarray:
        """How far coordinates with the levels' columns move their means, (n, q)."""
        return (theta - self.center) @ self.A.T

    def _constant(self, theta: np.ndarray) -> np.ndarray:
        """What is the same for all nodes, of all groups together, (n,)."""
        precision, logdet = self.inside._precision(theta)
        moved = self._moved(theta)
        each = (np.einsum("ni,nij,nj->n", moved, precision, moved) + logdet) / 2
        known = self.level - self.inside._known
        known = known + self._part(theta) - self._part(self.center[None])
        return known - self.inside.groups.counts.sum() * each + self.inside._log_prior(theta)

    def _counted(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The different responses, and how many rows have each, where a dispersion is apart."""
        rows, groups = self.inside.rows, self.inside.groups
        if not rows.likelihood.apart.any():
            return None
        counts = groups.counts[groups.of] * (1.0 if rows.weights is None else rows.weights)
        y, place = np.unique(rows.columns[0], return_inverse=True)
        return y, np.bincount(place.reshape(-1), weights=counts)

    def _part(self, theta: np.ndarray) -> np.ndarray:
        """Of all rows' log p, what depends on a dispersion and not on η, (n,)."""
        if self._apart is None:
            return np.zeros(len(theta))
        (y, counts), rows = self._apart, self.inside.rows
        phi = lifted(rows.phi(theta[:, self.p + self.inside.k :]), 1)
        return rows.likelihood.part(y, phi) @ counts

    def _run(self, theta: np.ndarray) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """Some points and some groups at a time, with the integrand (n, groups, K) at the nodes."""
        coefficients, G, K = self._coefficients(theta), self.inside.G, self.K
        for begin in range(0, len(theta), _POINTS):
            at = slice(begin, begin + _POINTS)
            c = coefficients[at]
            most = max(1, min(_CELLS, _PRODUCT // c.shape[1]) // (K * len(c)))
            for start in range(0, G, most):
                end = min(start + most, G)
                nodes = slice(start * K, end * K)
                f = c @ self.features[:, nodes]
                f += self.base[nodes]
                np.exp(f, out=f)
                yield at, slice(start, end), f.reshape(len(c), -1, K)
