"""Beta: one probability, the first of a Dirichlet pair."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..numerics.functions import module_of
from ..numerics.lazy import jnp
from ..numerics.packing import Slot
from ..numerics.scores import log_gamma_at
from . import dirichlet
from .base import Family


class BetaStats(NamedTuple):
    """Slots of T(π) = (log π, log(1 − π)); η, m and T share them."""

    log_x: Any
    log1m_x: Any


class Beta(Family):
    """q(π) ∝ exp(η·T(π)),  η = (a − 1, b − 1)."""

    Stats = BetaStats
    slots = (
        Slot((), "log({})", support="negative"),
        Slot((), "log(1-{})", support="negative"),
    )
    parameters = ("a", "b")

    def log_partition(self, eta: BetaStats) -> Any:
        """log B(a, b)."""
        return dirichlet.log_partition(_pair(eta))

    def valid(self, eta: BetaStats) -> Any:
        """a and b are positive."""
        return dirichlet.valid(_pair(eta))

    def start(self) -> BetaStats:
        """The uniform distribution."""
        return BetaStats(np.zeros(()), np.zeros(()))

    def mean(self, eta: BetaStats) -> BetaStats:
        """(ψ(a) − ψ(a + b), ψ(b) − ψ(a + b))."""
        m = dirichlet.mean(_pair(eta))
        return BetaStats(m[0], m[1])

    def factor(self, eta: BetaStats) -> Any:
        """See: `dirichlet.factor`."""
        return dirichlet.factor(_pair(eta))

    def entropy(self, eta: BetaStats) -> Any:
        """See: `dirichlet.entropy`."""
        return dirichlet.entropy(_pair(eta))

    def from_params(self, *, a: Any, b: Any) -> BetaStats:
        """From the two concentrations."""
        return BetaStats(np.asarray(a, float) - 1, np.asarray(b, float) - 1)

    def params(self, eta: BetaStats) -> dict[str, Any]:
        """The two concentrations."""
        return {"a": eta.log_x + 1, "b": eta.log1m_x + 1}

    def statistics(self, x: np.ndarray) -> BetaStats:
        """(log π, log(1 − π))."""
        return BetaStats(module_of(x).log(x), module_of(x).log1p(-x))

    def sample(self, eta: BetaStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Beta draws, shape (n,)."""
        return rng.beta(eta.log_x + 1, eta.log1m_x + 1, size=n)

    def unconstrained(self, eta: BetaStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log g₁ and log g₂ of independent gammas with π = g₁/(g₁ + g₂)."""
        return dirichlet.log_gammas(np.array([eta.log_x + 1, eta.log1m_x + 1], dtype=float))

    def constrain(self, eta: BetaStats, u: np.ndarray) -> np.ndarray:
        """π = 1/(1 + exp(u₂ − u₁))."""
        return np.exp(-np.logaddexp(0.0, u[:, 1] - u[:, 0]))

    def contrasts(self) -> np.ndarray:
        """u₁ − u₂ = logit π."""
        return dirichlet.contrasts(2)

    def lift(self, v: np.ndarray) -> np.ndarray:
        """u₂ = 0."""
        return dirichlet.lift(v)

    def log_jacobian(self, eta: BetaStats, u: np.ndarray) -> np.ndarray:
        """See: `dirichlet.log_jacobian`."""
        return dirichlet.log_jacobian(u)

    def at_scores(
        self,
        eta: BetaStats,
        score: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        *,
        own_mean: bool = False,
    ) -> np.ndarray:
        """From gammas whose logs have these means and sds."""
        return self.constrain(eta, log_gamma_at(score, mean, sd))


def _pair(eta: BetaStats) -> Any:
    """Concentrations (a, b)."""
    return jnp.stack([eta.log_x + 1, eta.log1m_x + 1])
