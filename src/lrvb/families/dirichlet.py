"""Dirichlet: one vector of probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..numerics.functions import module_of
from ..numerics.lazy import jnp
from ..numerics.packing import Slot
from ..numerics.scores import log_gamma_at
from ..numerics.special import digamma, gamma_entropy, gammaln, trigamma, trigamma_excess
from .base import Family, whole_number


class DirichletStats(NamedTuple):
    """Slot of T(π) = log π, shape (K,); η, m and T share it."""

    log_x: Any


class Dirichlet(Family):
    """q(π) ∝ exp(η·T(π)),  η = α − 1 with concentrations α."""

    Stats = DirichletStats
    parameters = ("concentration",)

    def __init__(self, dim: int, *, batch: tuple[int, ...] | int = ()):
        super().__init__(batch=batch)
        self.dim = whole_number(self, "dim", dim)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The log probabilities."""
        return (Slot((self.dim,), "log({})", support="negative"),)

    def log_partition(self, eta: DirichletStats) -> Any:
        """Σ_k log Γ(α_k) − log Γ(α₀), with α₀ = Σ_k α_k."""
        return log_partition(eta.log_x + 1)

    def valid(self, eta: DirichletStats) -> Any:
        """Concentrations are positive."""
        return valid(eta.log_x + 1)

    def start(self) -> DirichletStats:
        """The uniform distribution."""
        return DirichletStats(np.zeros(self.dim))

    def mean(self, eta: DirichletStats) -> DirichletStats:
        """ψ(α_k) − ψ(α₀)."""
        return DirichletStats(mean(eta.log_x + 1))

    def factor(self, eta: DirichletStats) -> Any:
        """See: `factor` below."""
        return factor(eta.log_x + 1)

    def entropy(self, eta: DirichletStats) -> Any:
        """See: `entropy` below."""
        return entropy(eta.log_x + 1)

    def from_params(self, *, concentration: Any) -> DirichletStats:
        """From concentrations α (K,)."""
        return DirichletStats(np.asarray(concentration, float) - 1)

    def params(self, eta: DirichletStats) -> dict[str, Any]:
        """Concentrations."""
        return {"concentration": eta.log_x + 1}

    def statistics(self, x: np.ndarray) -> DirichletStats:
        """log π."""
        return DirichletStats(module_of(x).log(x))

    def sample(self, eta: DirichletStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Dirichlet draws, shape (n, K)."""
        return rng.dirichlet(np.asarray(eta.log_x) + 1, size=n)

    def unconstrained(self, eta: DirichletStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log g_k of independent gammas with π = g/Σg."""
        return log_gammas(np.asarray(eta.log_x) + 1)

    def constrain(self, eta: DirichletStats, u: np.ndarray) -> np.ndarray:
        """π ∝ exp u, shape (n, K)."""
        weights = np.exp(u - u.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def contrasts(self) -> np.ndarray:
        """u_k − u_K = log(π_k/π_K) of all but the last."""
        return contrasts(self.dim)

    def lift(self, v: np.ndarray) -> np.ndarray:
        """u_K = 0."""
        return lift(v)

    def log_jacobian(self, eta: DirichletStats, u: np.ndarray) -> np.ndarray:
        """See: `log_jacobian` below."""
        return log_jacobian(u)

    def at_scores(
        self,
        eta: DirichletStats,
        score: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        *,
        own_mean: bool = False,
    ) -> np.ndarray:
        """Gammas whose logs have these means and sds, normalised."""
        return self.constrain(eta, log_gamma_at(score, mean, sd))

    def describe(self) -> Mapping[str, Any]:
        """Constructor arguments."""
        return {"dim": self.dim, "batch": list(self.batch)}


# ---- in the concentrations α (K,); Beta is K = 2 ------------------------------------------


def log_partition(alpha: Any) -> Any:
    """Σ_k log Γ(α_k) − log Γ(α₀)."""
    values = gammaln(_with_total(alpha))
    return jnp.sum(values[:-1]) - values[-1]


def valid(alpha: Any) -> Any:
    """All α_k are positive and finite."""
    return jnp.all((alpha > 0) & jnp.isfinite(alpha))


def mean(alpha: Any) -> Any:
    """ψ(α_k) − ψ(α₀)."""
    values = digamma(_with_total(alpha))
    return values[:-1] - values[-1]


def factor(alpha: Any) -> Any:
    r"""C with CCᵀ = D − ψ′(α₀) 11ᵀ, D = diag ψ′(α_k).

    C = D^½ (I − (1 − √(1−s)) wwᵀ), with w ∝ D^{−½}1 of length one and s = ψ′(α₀) Σ_k 1/ψ′(α_k).
    For large α, s is close to 1 and 1 − s = ψ′(α₀) (g(α₀) − Σ_k g(α_k)) with
    g(a) = 1/ψ′(a) − a = −a (ψ′(a) − 1/a)/ψ′(a).
    """
    extended = _with_total(alpha)
    excess = trigamma_excess(extended)
    information = 1 / (1 / extended + excess)  # 1/ψ′
    parts = jnp.where(extended[-1] < 1, information, -extended * excess * information)
    rest = (parts[-1] - jnp.sum(parts[:-1])) / information[-1]
    w = jnp.sqrt(information[:-1] / jnp.sum(information[:-1]))
    shrink = 1 - jnp.sqrt(jnp.maximum(rest, 0.0))
    projector = jnp.eye(alpha.shape[0]) - shrink * w[:, None] * w
    return projector / jnp.sqrt(information[:-1, None])


def entropy(alpha: Any) -> Any:
    """Σ_k S(α_k) − S(α₀) − (K − 1) ψ(α₀), S(a) the entropy of Gamma(a, 1): nothing cancels."""
    extended = _with_total(alpha)
    values = gamma_entropy(extended)
    own = jnp.sum(values[:-1]) - values[-1]
    return own - (alpha.shape[0] - 1) * digamma(extended)[-1]


def log_gammas(alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """u_k = log g_k of independent g_k ~ Gamma(α_k), as (mean, W, R).

    u = log π + log Σg, and Σg ~ Gamma(α₀) is independent of π: W = I and R = ψ′(α₀) 11ᵀ.
    """
    K = len(alpha)
    from scipy.special import psi  # slow to import, and needed for draws only

    rest = float(trigamma(np.asarray(alpha.sum())))
    return psi(alpha), np.eye(K), np.full((K, K), rest)


def contrasts(K: int) -> np.ndarray:
    """u_k − u_K of all but the last, (K − 1, K)."""
    return np.hstack([np.eye(K - 1), -np.ones((K - 1, 1))])


def lift(v: np.ndarray) -> np.ndarray:
    """u (n, K) with contrasts v (n, K − 1) and u_K = 0."""
    return np.hstack([v, np.zeros((len(v), 1))])


def log_jacobian(u: np.ndarray) -> np.ndarray:
    """Σ_k log π_k: dπ = Π_k π_k dv in the contrasts v of u, of which π is a function."""
    top = u.max(axis=1)
    s = top + np.log(np.exp(u - top[:, None]).sum(axis=1))
    return (u - s[:, None]).sum(axis=1)


def _with_total(alpha: Any) -> Any:
    """(α_1, …, α_K, α₀): special functions compile once for both."""
    return jnp.append(alpha, jnp.sum(alpha))
