"""Wishart: one positive definite matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..numerics.functions import module_of
from ..numerics.lazy import jnp, linalg
from ..numerics.packing import Slot, congruence, pack_symmetric, packed_index, symmetric_root
from ..numerics.scores import log_gamma_at
from ..numerics.special import digamma, gamma_entropy, gammaln, trigamma_excess
from .base import Family, whole_number


class WishartStats(NamedTuple):
    """Slots of T(Λ) = (Λ, log|Λ|), shapes (P, P) and (); η, m and T share them."""

    x: Any
    logdet_x: Any


class Wishart(Family):
    """q(Λ) ∝ exp(η·T(Λ)),  η = (−½W⁻¹, (ν − P − 1)/2): E Λ = νW with dof ν and scale W."""

    Stats = WishartStats
    parameters = ("dof", "scale")

    def __init__(self, dim: int, *, batch: tuple[int, ...] | int = ()):
        super().__init__(batch=batch)
        self.dim = whole_number(self, "dim", dim)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The matrix and its log determinant."""
        P = self.dim
        entries = Slot((P, P), "{}", symmetric=True, support="positive")
        return entries, Slot((), "logdet({})")

    def log_partition(self, eta: WishartStats) -> Any:
        """½ν log|W| + ½νP log 2 + ¼P(P−1) log π + Σ_i log Γ((ν − i)/2)."""
        _, logdet = _root(eta)
        half = self._halves(eta)
        return (
            half[0] * (logdet + self.dim * jnp.log(2.0))
            + self._log_volume()
            + jnp.sum(gammaln(half))
        )

    def valid(self, eta: WishartStats) -> Any:
        """W⁻¹ is positive definite and ν > P − 1."""
        half = self._halves(eta)
        return jnp.isfinite(_root(eta)[1]) & (half[-1] > 0) & jnp.isfinite(half[0])

    def start(self) -> WishartStats:
        """Expectation I, with P + 1 degrees of freedom."""
        P = self.dim
        return WishartStats(-0.5 * (P + 1) * np.eye(P), np.zeros(()))

    def mean(self, eta: WishartStats) -> WishartStats:
        """(νW, Σ_i ψ((ν − i)/2) + P log 2 + log|W|)."""
        L, logdet = _root(eta)
        half = self._halves(eta)
        log_mean = jnp.sum(digamma(half)) + self.dim * jnp.log(2.0) + logdet
        return WishartStats(2 * half[0] * (L @ L.T), log_mean)

    def factor(self, eta: WishartStats) -> Any:
        """C in the standardised entries of L⁻¹ΛL⁻ᵀ, and what they leave unexplained of log|Λ|.

        Its last pivot, Σ_i ψ′((ν − i)/2) − 2P/ν, is summed without cancellation: see `_excess`.
        """
        P = self.dim
        half = self._halves(eta)
        root = jnp.sqrt(2 * half[0])
        entries = root * symmetric_root(_root(eta)[0])
        explained = pack_symmetric(np.eye(P)) * (jnp.sqrt(2.0) / root)
        last = jnp.append(explained, jnp.sqrt(jnp.sum(_excess(half))))
        return jnp.vstack([jnp.pad(entries, ((0, 0), (0, 1))), last])

    def entropy(self, eta: WishartStats) -> Any:
        """−E log q, as a sum of entropies of Gamma((ν − i)/2): nothing cancels for large ν."""
        P = self.dim
        half = self._halves(eta)
        order = jnp.arange(P)
        terms = gamma_entropy(half) + order / 2 + digamma(half) * (P - 1 - order) / 2
        scale = 0.5 * (P + 1) * (_root(eta)[1] + P * jnp.log(2.0))
        return scale + self._log_volume() + jnp.sum(terms)

    def from_params(self, *, dof: Any, scale: Any) -> WishartStats:
        """From degrees of freedom ν and scale matrix W (P, P)."""
        inverse = np.linalg.inv(np.asarray(scale, float))
        inverse = (inverse + inverse.T) / 2
        return WishartStats(-0.5 * inverse, (np.asarray(dof, float) - self.dim - 1) / 2)

    def params(self, eta: WishartStats) -> dict[str, Any]:
        """Degrees of freedom and scale matrix."""
        scale = np.linalg.inv(-2 * np.asarray(eta.x))
        return {"dof": 2 * eta.logdet_x + self.dim + 1, "scale": (scale + scale.T) / 2}

    def statistics(self, x: np.ndarray) -> WishartStats:
        """(Λ, log|Λ|)."""
        return WishartStats(x, module_of(x).linalg.slogdet(x)[1])

    def sample(self, eta: WishartStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws by Bartlett's decomposition, shape (n, P, P)."""
        P = self.dim
        diagonal = 0.5 * np.log(rng.chisquare(self._dof(eta) - np.arange(P), size=(n, P)))
        below = rng.normal(size=(n, P * (P - 1) // 2))
        return self.constrain(eta, np.concatenate([diagonal, below], axis=1))

    def unconstrained(self, eta: WishartStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""u = (log A_jj, A_ij for i > j) with Λ = L A Aᵀ Lᵀ, L = chol W, A lower triangular.

        Under q they are independent (Bartlett): A_jj² ~ χ²_{ν−j}, A_ij ~ N(0, 1). Of S = AAᵀ and
        log|Λ|, log A_jj correlates with S_jj and log|Λ| only, A_ij with S_ij only.
        """
        P, nu = self.dim, self._dof(eta)
        L = np.linalg.cholesky(self.params(eta)["scale"])
        from scipy.special import poch, psi  # slow to import, and needed for draws only

        half = np.asarray((nu - np.arange(P)) / 2)
        center = 0.5 * (psi(half) + np.log(2.0))
        excess = _excess(half)
        share = excess / (2 * excess.sum())  # of log|Λ|, beyond the entries of S
        row, column = np.tril_indices(P, -1)
        explained = np.sqrt(2.0) * poch(half, 0.5)[column]  # E A_jj = Cov(A_ij, S_ij)
        where = packed_index(P)
        W = np.zeros((self.size - 1, self.size))
        W[:P, np.diag(where)] = (np.eye(P) - 2 * share[:, None]) / (2 * nu)
        W[:P, -1] = share
        W[np.arange(P, self.size - 1), where[row, column]] = explained / nu
        W[:, :-1] = W[:, :-1] @ congruence(np.linalg.inv(L))
        R = np.zeros((self.size - 1, self.size - 1))
        R[:P, :P] = (np.diag(excess) - 2 * np.outer(share, excess)) / 4
        R[np.arange(P, len(R)), np.arange(P, len(R))] = 1 - explained**2 / nu
        return np.concatenate([center, np.zeros(row.size)]), W, R

    def constrain(self, eta: WishartStats, u: np.ndarray) -> np.ndarray:
        """Λ = (LA)(LA)ᵀ, shape (n, P, P)."""
        root = np.linalg.cholesky(self.params(eta)["scale"]) @ self._factor(u)
        return root @ np.swapaxes(root, 1, 2)

    def carried(self, eta: WishartStats, other: WishartStats, u: np.ndarray) -> np.ndarray:
        """Of A′ = L′⁻¹LA, so that L′A′ = LA."""
        L, onto = (np.linalg.cholesky(self.params(one)["scale"]) for one in (eta, other))
        A = np.linalg.solve(onto, L @ self._factor(u))
        diagonal = np.log(np.diagonal(A, axis1=1, axis2=2))
        return np.concatenate([diagonal, A[(slice(None), *np.tril_indices(self.dim, -1))]], axis=1)

    def _factor(self, u: np.ndarray) -> np.ndarray:
        """A (n, P, P) of coordinates."""
        P = self.dim
        A = np.zeros((len(u), P, P))
        A[:, np.arange(P), np.arange(P)] = np.exp(u[:, :P])
        A[(slice(None), *np.tril_indices(P, -1))] = u[:, P:]
        return A

    def log_jacobian(self, eta: WishartStats, u: np.ndarray) -> np.ndarray:
        """P log 2 + Σ_j (P + 1 − j) log A_jj + (P + 1) log|L|, j = 0, …, P − 1."""
        P = self.dim
        logdet = np.linalg.slogdet(self.params(eta)["scale"])[1] / 2
        return P * np.log(2.0) + u[:, :P] @ (P + 1.0 - np.arange(P)) + (P + 1) * logdet

    def at_scores(
        self,
        eta: WishartStats,
        score: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        *,
        own_mean: bool = False,
    ) -> np.ndarray:
        """Bartlett's factors: A_jj² gammas whose logs have twice these means and sds, A_ij normal."""
        P = self.dim
        u = mean + sd * score
        kept = np.asarray(self._halves(eta)) if own_mean else None
        u[:, :P] = log_gamma_at(score[:, :P], 2 * mean[:P], 2 * sd[:P], kept) / 2
        return self.constrain(eta, u)

    def describe(self) -> Mapping[str, Any]:
        """Constructor arguments."""
        return {"dim": self.dim, "batch": list(self.batch)}

    def _dof(self, eta: WishartStats) -> Any:
        return 2 * eta.logdet_x + self.dim + 1

    def _halves(self, eta: WishartStats) -> Any:
        """(ν − i)/2 for i = 0, …, P − 1."""
        return eta.logdet_x + 0.5 * (self.dim + 1 - np.arange(self.dim))

    def _log_volume(self) -> float:
        return 0.25 * self.dim * (self.dim - 1) * float(np.log(np.pi))


def _root(eta: WishartStats) -> tuple[Any, Any]:
    """L = K⁻ᵀ with W = LLᵀ, and log|W|, from the Cholesky factor K of W⁻¹: NaN if not definite."""
    K = jnp.linalg.cholesky(-2 * eta.x)
    L = linalg.solve_triangular(K, jnp.eye(K.shape[-1]), lower=True).T
    return L, -2 * jnp.sum(jnp.log(jnp.diagonal(K)))


def _excess(half: Any) -> Any:
    """ψ′((ν − i)/2) − 2/ν for i = 0, …, P − 1, given (ν − i)/2."""
    order = np.arange(half.shape[0])
    return trigamma_excess(half) + order / (2 * half[0] * half)
