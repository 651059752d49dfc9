"""Categorical: one choice among K."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidModel
from ..numerics.lazy import jax, jnp
from ..numerics.packing import Slot
from .base import Family, whole_number


class CategoricalStats(NamedTuple):
    """Slot of T(z) = z, an indicator vector of shape (K,); η, m and T share it."""

    x: Any


class Categorical(Family):
    """q(z) ∝ exp(η·z) on indicator vectors z; η are logits, and η + const is the same q."""

    Stats = CategoricalStats
    parameters = ("probs",)

    def __init__(self, dim: int, *, batch: tuple[int, ...] | int = ()):
        super().__init__(batch=batch)
        self.dim = whole_number(self, "dim", dim)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The probabilities."""
        return (Slot((self.dim,), "{}", support="positive"),)

    def log_partition(self, eta: CategoricalStats) -> Any:
        """log Σ_k exp η_k."""
        return jax.nn.logsumexp(eta.x)

    def valid(self, eta: CategoricalStats) -> Any:
        """No logit is NaN or +∞, and not all are −∞."""
        return jnp.all(eta.x < jnp.inf) & jnp.any(eta.x > -jnp.inf)

    def start(self) -> CategoricalStats:
        """Equal probabilities."""
        return CategoricalStats(np.full(self.dim, -np.log(self.dim)))

    def mean(self, eta: CategoricalStats) -> CategoricalStats:
        """Probabilities p."""
        return CategoricalStats(jax.nn.softmax(eta.x))

    def factor(self, eta: CategoricalStats) -> Any:
        """C = diag √p − p √pᵀ: singular, as V = diag p − ppᵀ is."""
        p = jax.nn.softmax(eta.x)
        return (jnp.eye(self.dim) - p[:, None]) * jnp.sqrt(p)

    def entropy(self, eta: CategoricalStats) -> Any:
        """−Σ_k p_k log p_k."""
        log_p = jax.nn.log_softmax(eta.x)
        return -jnp.sum(jnp.exp(log_p) * jnp.where(log_p > -jnp.inf, log_p, 0.0))

    def natural(self, m: CategoricalStats) -> CategoricalStats:
        """log p."""
        return CategoricalStats(jnp.log(m.x))

    def from_params(self, *, probs: Any) -> CategoricalStats:
        """From probabilities (K,)."""
        with np.errstate(divide="ignore"):
            return CategoricalStats(np.log(np.asarray(probs, float)))

    def params(self, eta: CategoricalStats) -> dict[str, Any]:
        """Probabilities."""
        p = np.exp(np.asarray(eta.x) - np.max(eta.x))
        return {"probs": p / p.sum()}

    def statistics(self, x: np.ndarray) -> CategoricalStats:
        """z itself."""
        return CategoricalStats(x)

    def sample(self, eta: CategoricalStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Indicator vectors, shape (n, K)."""
        return rng.multinomial(1, self.params(eta)["probs"], size=n).astype(float)

    def unconstrained(self, eta: CategoricalStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Not available: a choice has no coordinates in ℝᵏ."""
        raise InvalidModel(
            "Categorical: a choice among alternatives has no continuous coordinates, so joint "
            "draws leave it out; ask for its probabilities (posterior.mean or posterior.local)."
        )

    def constrain(self, eta: CategoricalStats, u: np.ndarray) -> np.ndarray:
        """Not available: see `unconstrained`."""
        raise InvalidModel(
            "Categorical: a choice among alternatives has no continuous coordinates."
        )

    def log_jacobian(self, eta: CategoricalStats, u: np.ndarray) -> np.ndarray:
        """Not available: see `unconstrained`."""
        return np.asarray(self.constrain(eta, u))

    def describe(self) -> Mapping[str, Any]:
        """Constructor arguments."""
        return {"dim": self.dim, "batch": list(self.batch)}
