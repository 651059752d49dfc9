"""MultivariateNormal: one real vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..numerics.lazy import jnp, linalg
from ..numerics.packing import Slot, pack_symmetric, symmetric_root
from .base import Family, whole_number


class MultivariateNormalStats(NamedTuple):
    """Slots of T(x) = (x, xxᵀ), shapes (P,) and (P, P); η, m and T share them."""

    x: Any
    xx: Any


class MultivariateNormal(Family):
    """q(x) ∝ exp(η·T(x)),  η = (Λμ, −Λ/2) with precision matrix Λ = Σ⁻¹."""

    Stats = MultivariateNormalStats
    parameters = ("loc", "cov")

    def __init__(self, dim: int, *, batch: tuple[int, ...] | int = ()):
        super().__init__(batch=batch)
        self.dim = whole_number(self, "dim", dim)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The vector and its outer product."""
        P = self.dim
        return Slot((P,), "{}"), Slot((P, P), None, symmetric=True)

    def log_partition(self, eta: MultivariateNormalStats) -> Any:
        """½ P log 2π − ½ log|Λ| + ½ |Lᵀη₁|², with Σ = LLᵀ."""
        L, log_root = _root(eta)
        white = L.T @ eta.x
        return 0.5 * self.dim * jnp.log(2 * jnp.pi) + log_root + 0.5 * white @ white

    def valid(self, eta: MultivariateNormalStats) -> Any:
        """The precision matrix −2η₂ is positive definite."""
        return jnp.isfinite(_root(eta)[1]) & jnp.all(jnp.isfinite(eta.x))

    def start(self) -> MultivariateNormalStats:
        """The standard normal."""
        return MultivariateNormalStats(np.zeros(self.dim), -0.5 * np.eye(self.dim))

    def mean(self, eta: MultivariateNormalStats) -> MultivariateNormalStats:
        """(μ, μμᵀ + Σ)."""
        L, _ = _root(eta)
        loc = L @ (L.T @ eta.x)
        return MultivariateNormalStats(loc, jnp.outer(loc, loc) + L @ L.T)

    def factor(self, eta: MultivariateNormalStats) -> Any:
        """C in the orthonormal basis ε_i, ε_iε_j, (ε_i² − 1)/√2 of x = μ + Lε."""
        L, _ = _root(eta)
        loc = L @ (L.T @ eta.x)
        cross = loc[:, None] * L.T[:, None, :]  # (i, r, c): μ_r (Le_i)_c
        mixed = pack_symmetric(cross + jnp.swapaxes(cross, 1, 2)).T
        square = symmetric_root(L)
        return jnp.block([[L, jnp.zeros((self.dim, square.shape[1]))], [mixed, square]])

    def entropy(self, eta: MultivariateNormalStats) -> Any:
        """½ P log 2πe + ½ log|Σ|."""
        return 0.5 * self.dim * jnp.log(2 * jnp.pi * jnp.e) + _root(eta)[1]

    def natural(self, m: MultivariateNormalStats) -> MultivariateNormalStats:
        """From E x and E xxᵀ."""
        precision = jnp.linalg.inv(m.xx - jnp.outer(m.x, m.x))
        precision = (precision + precision.T) / 2
        return MultivariateNormalStats(precision @ m.x, -0.5 * precision)

    def from_params(self, *, loc: Any, cov: Any) -> MultivariateNormalStats:
        """From mean (P,) and covariance (P, P)."""
        precision = np.linalg.inv(np.asarray(cov, float))
        precision = (precision + precision.T) / 2
        return MultivariateNormalStats(precision @ np.asarray(loc, float), -0.5 * precision)

    def params(self, eta: MultivariateNormalStats) -> dict[str, Any]:
        """Mean and covariance."""
        cov = np.linalg.inv(-2 * np.asarray(eta.xx))
        cov = (cov + cov.T) / 2
        return {"loc": cov @ np.asarray(eta.x), "cov": cov}

    def statistics(self, x: np.ndarray) -> MultivariateNormalStats:
        """(x, xxᵀ)."""
        return MultivariateNormalStats(x, x[:, :, None] * x[:, None, :])

    def sample(self, eta: MultivariateNormalStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Normal draws, shape (n, P)."""
        q = self.params(eta)
        return q["loc"] + rng.normal(size=(n, self.dim)) @ np.linalg.cholesky(q["cov"]).T

    def unconstrained(
        self, eta: MultivariateNormalStats
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x itself."""
        P = self.dim
        return self.params(eta)["loc"], np.eye(P, self.size), np.zeros((P, P))

    def constrain(self, eta: MultivariateNormalStats, u: np.ndarray) -> np.ndarray:
        """x = u."""
        return u

    def log_jacobian(self, eta: MultivariateNormalStats, u: np.ndarray) -> np.ndarray:
        """Zero."""
        return np.zeros(len(u))

    def describe(self) -> Mapping[str, Any]:
        """Constructor arguments."""
        return {"dim": self.dim, "batch": list(self.batch)}


def _root(eta: MultivariateNormalStats) -> tuple[Any, Any]:
    """L = K⁻ᵀ with Σ = LLᵀ, and log|L|, from the Cholesky factor K of Λ: NaN if not definite."""
    K = jnp.linalg.cholesky(-2 * eta.xx)
    L = linalg.solve_triangular(K, jnp.eye(K.shape[-1]), lower=True).T
    return L, -jnp.sum(jnp.log(jnp.diagonal(K)))
