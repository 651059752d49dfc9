"""Gamma: one positive variable."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..numerics.functions import module_of
from ..numerics.lazy import jnp
from ..numerics.packing import Slot
from ..numerics.scores import log_gamma_at
from ..numerics.special import digamma, gamma_entropy, gammaln, trigamma_excess
from .base import Family


class GammaStats(NamedTuple):
    """Slots of T(τ) = (τ, log τ); η, m and T share them."""

    x: Any
    log_x: Any


class Gamma(Family):
    """q(τ) ∝ exp(η·T(τ)),  η = (−rate, shape − 1)."""

    Stats = GammaStats
    slots = (Slot((), "{}", support="positive"), Slot((), "log({})"))
    parameters = ("shape", "rate")

    def log_partition(self, eta: GammaStats) -> Any:
        """log Γ(shape) − shape · log rate."""
        shape, rate = _shape_rate(eta)
        return gammaln(shape) - shape * jnp.log(rate)

    def valid(self, eta: GammaStats) -> Any:
        """Shape and rate are positive."""
        shape, rate = _shape_rate(eta)
        return (shape > 0) & (rate > 0) & jnp.isfinite(shape) & jnp.isfinite(rate)

    def start(self) -> GammaStats:
        """Gamma(1, 1)."""
        return GammaStats(np.full((), -1.0), np.zeros(()))

    def mean(self, eta: GammaStats) -> GammaStats:
        """(shape/rate, ψ(shape) − log rate)."""
        shape, rate = _shape_rate(eta)
        return GammaStats(shape / rate, digamma(shape) - jnp.log(rate))

    def factor(self, eta: GammaStats) -> Any:
        """Cholesky factor of [[a/b², 1/b], [1/b, ψ′(a)]], with ψ′(a) − 1/a computed as itself."""
        shape, rate = _shape_rate(eta)
        root = jnp.sqrt(shape)
        first = jnp.stack([root / rate, jnp.zeros_like(root)])
        second = jnp.stack([1 / root, jnp.sqrt(trigamma_excess(shape))])
        return jnp.stack([first, second])

    def entropy(self, eta: GammaStats) -> Any:
        """a − log b + log Γ(a) + (1 − a) ψ(a)."""
        shape, rate = _shape_rate(eta)
        return gamma_entropy(shape) - jnp.log(rate)

    def from_params(self, *, shape: Any, rate: Any) -> GammaStats:
        """From shape and rate."""
        return GammaStats(-np.asarray(rate, float), np.asarray(shape, float) - 1)

    def params(self, eta: GammaStats) -> dict[str, Any]:
        """Shape and rate."""
        shape, rate = _shape_rate(eta)
        return {"shape": shape, "rate": rate}

    def statistics(self, x: np.ndarray) -> GammaStats:
        """(τ, log τ)."""
        return GammaStats(x, module_of(x).log(x))

    def sample(self, eta: GammaStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Gamma draws, shape (n,)."""
        shape, rate = _shape_rate(eta)
        return rng.gamma(shape, 1 / rate, size=n)

    def unconstrained(self, eta: GammaStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log τ."""
        from scipy.special import psi  # slow to import, and needed for draws only

        shape, rate = _shape_rate(eta)
        return np.array([psi(shape) - np.log(rate)]), np.array([[0.0, 1.0]]), np.zeros((1, 1))

    def constrain(self, eta: GammaStats, u: np.ndarray) -> np.ndarray:
        """τ = exp u."""
        return np.exp(u[:, 0])

    def log_jacobian(self, eta: GammaStats, u: np.ndarray) -> np.ndarray:
        """dτ = τ du."""
        return u[:, 0]

    def at_scores(
        self,
        eta: GammaStats,
        score: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        *,
        own_mean: bool = False,
    ) -> np.ndarray:
        """Quantiles of the gamma whose log has this mean and sd, or E x of q and this sd."""
        kept = _shape_rate(eta)[0] if own_mean else None
        return np.exp(log_gamma_at(score, mean, sd, kept)[:, 0])


def _shape_rate(eta: GammaStats) -> tuple[Any, Any]:
    """Shape and rate."""
    return eta.log_x + 1, -eta.x
