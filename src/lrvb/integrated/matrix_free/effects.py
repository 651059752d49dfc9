r"""Levels' posterior means and sds over θ, from a few points of ζ.

b are β and the levels of small factors. Given θ, z = U_y − U_x(b − its prior mean) + its own, with
U = Q⁻¹CᵀT and the own part's covariance σ²Q⁻¹. Both are smooth in ζ, so they are computed at the mode
and at two points along every axis (four where it is wide), and interpolated by polynomials in the shares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .covariances import Covariances, covariances
from .draws import perturbed
from .evidence import Evidence
from .location import Domain
from .schur import Schur, inverse
from .sums import Factor
from .surrogate import Shares

APART = (1.7,)  # sds from the mode at which the other points stand on each side of an axis
WIDE_APART = (1.2, 3.5)  # and on a wide one
STEP = 1e-4


class Summed(NamedTuple):
    """Of one factor's levels: means and sds (K, q); covariances with b and values; Σ E zzᵀ (q, q)."""

    mean: np.ndarray
    sd: np.ndarray
    with_b: np.ndarray
    with_values: np.ndarray
    square: np.ndarray


class Given(NamedTuple):
    """n points: weights (n,), interpolation (n, J), b less its prior mean, its covariance.

    sds (n, q) are each factor's, on the scale of the rows.
    """

    weights: np.ndarray
    L: np.ndarray
    b: np.ndarray
    covariance: np.ndarray
    sds: list[np.ndarray]


class Levels(ABC):
    """U and levels' conditional variances at J points ζ (J, D), the mode first."""

    def __init__(self, evidence: Evidence, factors: Sequence[Factor], zeta: np.ndarray):
        self.factors, self.sums, self.zeta = factors, evidence.sums, zeta
        U: list[list[np.ndarray]] = [[] for _ in factors]
        own: list[list[np.ndarray]] = [[] for _ in factors]
        self._schurs: list[Schur] = []
        self._unsolved = 0.0
        sds: list[list[np.ndarray]] = []
        for j, z in enumerate(zeta):
            schur = evidence.schur(z)
            first, rest = evidence.coefficients(schur)
            self._unsolved = max(self._unsolved, schur.unsolved)
            parts = [first, *(rest[place] for place in self.sums.places)]
            blocks = [schur.E, *(inverse(K) for K in schur.K)]
            for f in range(len(factors)):
                U[f].append(parts[f])
                own[f].append(np.diagonal(blocks[f], axis1=1, axis2=2))
            sds.append([np.sqrt(np.diag(np.linalg.inv(P))) for P in schur.precisions])
            if j == 0 or evidence.exact:
                self._schurs.append(schur)
        self.U = [np.stack(part, axis=1) for part in U]  # (Kq, J, p + 1)
        self.own = [np.stack(part, axis=2) for part in own]  # (K, q, J), conditional variances
        self.sds = list(map(list, zip(*sds, strict=True)))  # of each factor at every point, (q,)

    @abstractmethod
    def interpolation(self, zeta: np.ndarray) -> np.ndarray:
        """Weights of the J points at n others, (n, J)."""

    @abstractmethod
    def _conditional(
        self, f: int, given: Given, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of m, the mean of z given θ and b: E m (Kq,), E mmᵀ by level (K, q, q), E m bᵀ, E m valuesᵀ."""

    def summed(self, f: int, given: Given, values: np.ndarray) -> Summed:
        """A factor's levels over weighted points; values (n, a) have mean zero."""
        K, q = self.sums.levels[f], self.sums.q[f]
        mean, square, with_b, with_values = self._conditional(f, given, values)
        sd = given.sds[f]
        share = np.einsum("n,ni,nk,nj->ikj", given.weights, sd, sd, given.L, optimize=True)
        square = square + self._mixed(f, share)
        shaped = mean.reshape(K, q)
        variance = np.diagonal(square, axis1=1, axis2=2) - shaped**2
        with_b = with_b - np.outer(mean, given.weights @ given.b)
        return Summed(
            shaped,
            np.sqrt(np.maximum(variance, 0.0)),
            with_b.reshape(K, q, -1),
            with_values.reshape(K, q, -1),
            square.sum(0),
        )

    def rows(
        self, levels: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of m rows: Σ_f R_f U_f at the J points (m, J, p + 1), and variances of Σ R z there (m, J)."""
        m, J = len(levels[0]), len(self.zeta)
        H, own = np.zeros((m, J, self.sums.p + 1)), np.zeros((m, J))
        for f, (level, r) in enumerate(zip(levels, R, strict=True)):
            at, q = np.maximum(level, 0), self.sums.q[f]
            known = np.where(level[:, None] >= 0, r, 0.0)
            for i in range(q):
                H += known[:, [i], None] * self.U[f][at * q + i]
                own += known[:, [i]] ** 2 * self.own[f][at, i]
        if len(self.covariances) > 1:
            return H, np.stack([found.rows(levels, R) for found in self.covariances], axis=1)
        ratio = np.divide(own, own[:, :1], out=np.ones_like(own), where=own[:, :1] > 0)
        return H, self.covariances[0].rows(levels, R)[:, None] * ratio

    @property
    def unsolved(self) -> float:
        """As a point's, of means and draws so far."""
        return max(self._unsolved, *(schur.unsolved for schur in self._schurs))

    def blocks(self, f: int, j: int) -> np.ndarray:
        """Q⁻¹ of a factor's levels at a point, (K, q, q).

        Where it is not exact it is that of the mode, scaled as levels' conditional variances are.
        """
        whole = self._blocks[min(j, len(self._blocks) - 1)][f]
        if len(self._blocks) > 1 or j == 0:
            return whole
        scale = np.sqrt(self.own[f][:, :, j] / self.own[f][:, :, 0])
        return whole * (scale[:, :, None] * scale[:, None, :])

    @cached_property
    def covariances(self) -> list[Covariances]:
        """Q⁻¹ at every point where it is exact, else at the mode."""
        first = self._covariances(self._schurs[0])
        if first.error:
            return [first]
        return [first, *map(self._covariances, self._schurs[1:])]

    def _covariances(self, schur: Schur) -> Covariances:
        return covariances(schur, perturbed(schur.sums, self.factors))

    @cached_property
    def _blocks(self) -> list[list[np.ndarray]]:
        return [found.blocks() for found in self.covariances]

    def _mixed(self, f: int, share: np.ndarray) -> np.ndarray:
        """Σ_j share_j ∘ Q⁻¹_j of a factor's levels, each Q⁻¹_j in units of its prior sds, (K, q, q)."""
        found = np.zeros_like(self.blocks(f, 0))
        for j in range(share.shape[2]):
            sd = self.sds[f][j]
            found += self.blocks(f, j) * (share[:, :, j] / np.outer(sd, sd))
        return found


class Smooth(Levels):
    """Polynomials in the shares through points along the axes of the domain."""

    def __init__(
        self, evidence: Evidence, factors: Sequence[Factor], shares: Shares, domain: Domain
    ):
        self.shares, self.domain = shares, domain
        D = len(domain.center)
        eye = np.eye(D)
        s = shares.of(domain.point(STEP * np.concatenate([eye, -eye])))
        self._center = shares.of(domain.center[None])[0]
        self._turn = np.linalg.inv((s[:D] - s[D:]) / (2 * STEP))
        offsets = [np.zeros(D)]
        for k in range(D):
            apart = WIDE_APART if domain.wide[k] else APART
            offsets += [side * step * eye[k] for side in (1, -1) for step in apart]
        zeta = domain.point(np.array(offsets))
        self._inverse = np.linalg.inv(self._features(zeta))
        super().__init__(evidence, factors, zeta)

    def interpolation(self, zeta: np.ndarray) -> np.ndarray:
        """Weights of the J points at n others, (n, J)."""
        return self._features(zeta) @ self._inverse

    def _conditional(
        self, f: int, given: Given, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        # means of interpolated products of U are U times small matrices
        w, L, b = given.weights, given.L, given.b
        n, p, J, q = len(w), b.shape[1], L.shape[1], self.sums.q[f]
        Lc = (L[:, :, None] * _extended(b)[:, None, :]).reshape(n, -1)
        A = np.zeros((J, p + 1, J, p + 1))
        A[:, :p, :, :p] = np.einsum("n,nj,nk,nab->jakb", w, L, L, given.covariance, optimize=True)
        A = A.reshape(J * (p + 1), -1) + Lc.T @ (w[:, None] * Lc)
        cross = np.zeros((J, p + 1, p))
        cross[:, :p] = -np.einsum("n,nj,nab->jab", w, L, given.covariance, optimize=True)
        cross = cross.reshape(-1, p) + Lc.T @ (w[:, None] * b)
        U = self.U[f].reshape(len(self.U[f]), -1)
        with_values = U @ (Lc.T @ (w[:, None] * values))
        return U @ (w @ Lc), _by_level(U @ A, U, q), U @ cross, with_values

    def _features(self, zeta: np.ndarray) -> np.ndarray:
        g = (self.shares.of(zeta) - self._center) @ self._turn
        wide = g[:, self.domain.wide]
        return np.column_stack([np.ones(len(g)), g, g**2, wide**3, wide**4])


class Nearest(Levels):
    """Every θ as the nearest of a few of its draws: for covariances that may be nearly anything."""

    def __init__(
        self, evidence: Evidence, factors: Sequence[Factor], domain: Domain, zeta: np.ndarray
    ):
        self.domain = domain
        super().__init__(evidence, factors, np.concatenate([domain.center[None], zeta]))

    def interpolation(self, zeta: np.ndarray) -> np.ndarray:
        """Which of the draws is nearest, (n, J)."""
        e, own = self.domain.distances(zeta), self.domain.distances(self.zeta)
        square = ((e[:, None] - own) ** 2).sum(2)
        return np.eye(len(own))[square.argmin(1)]

    def _conditional(
        self, f: int, given: Given, values: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        p, q = given.b.shape[1], self.sums.q[f]
        size = len(self.U[f])
        mean, square = np.zeros(size), np.zeros((self.sums.levels[f], q, q))
        with_b, with_values = np.zeros((size, p)), np.zeros((size, values.shape[1]))
        for j in range(len(self.zeta)):
            at = np.flatnonzero(given.L[:, j])
            if not len(at):
                continue
            w, b, U = given.weights[at], given.b[at], self.U[f][:, j]
            c, C = _extended(b), np.tensordot(w, given.covariance[at], axes=1)
            A = c.T @ (w[:, None] * c)
            A[:p, :p] += C
            cross = c.T @ (w[:, None] * b)
            cross[:p] -= C
            mean += U @ (w @ c)
            square += _by_level(U @ A, U, q)
            with_b += U @ cross
            with_values += U @ (c.T @ (w[:, None] * values[at]))
        return mean, square, with_b, with_values


def _extended(b: np.ndarray) -> np.ndarray:
    """(−b, 1), which U takes to the means of levels, (n, p + 1)."""
    return np.column_stack([-b, np.ones(len(b))])


def _by_level(a: np.ndarray, b: np.ndarray, q: int) -> np.ndarray:
    """Σ over columns of a_k b_kᵀ, (K, q, q)."""
    if q == 1:
        return np.einsum("ka,ka->k", a, b)[:, None, None]
    return a.reshape(-1, q, a.shape[1]) @ b.reshape(-1, q, b.shape[1]).swapaxes(1, 2)
