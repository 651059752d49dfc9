"""Normal: one real variable."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..numerics.lazy import jnp
from ..numerics.packing import Slot
from .base import Family


class NormalStats(NamedTuple):
    """Slots of T(x) = (x, x²); η, m and T share them."""

    x: Any
    xx: Any


class Normal(Family):
    """q(x) ∝ exp(η·T(x)),  η = (mean/variance, −1/(2 variance))."""

    Stats = NormalStats
    slots = (Slot((), "{}"), Slot((), None))
    parameters = ("loc", "scale")

    def log_partition(self, eta: NormalStats) -> Any:
        """½ log(2π) − ½ log(−2η₂) − η₁²/(4η₂)."""
        return 0.5 * jnp.log(-jnp.pi / eta.xx) - eta.x**2 / (4 * eta.xx)

    def valid(self, eta: NormalStats) -> Any:
        """The precision −2η₂ is positive."""
        return (eta.xx < 0) & jnp.isfinite(eta.xx) & jnp.isfinite(eta.x)

    def start(self) -> NormalStats:
        """The standard normal."""
        return NormalStats(np.zeros(()), np.full((), -0.5))

    def mean(self, eta: NormalStats) -> NormalStats:
        """(μ, μ² + σ²)."""
        loc, variance = _moments(eta)
        return NormalStats(loc, loc**2 + variance)

    def factor(self, eta: NormalStats) -> Any:
        """C in the orthonormal basis ε, (ε² − 1)/√2 of x = μ + σε: nothing cancels when μ ≫ σ."""
        loc, variance = _moments(eta)
        scale = jnp.sqrt(variance)
        first = jnp.stack([scale, jnp.zeros_like(scale)])
        second = jnp.stack([2 * loc * scale, jnp.sqrt(2.0) * variance])
        return jnp.stack([first, second])

    def entropy(self, eta: NormalStats) -> Any:
        """½ log(2πe σ²)."""
        return 0.5 * jnp.log(-jnp.pi * jnp.e / eta.xx)

    def natural(self, m: NormalStats) -> NormalStats:
        """From E x and E x²."""
        variance = m.xx - m.x**2
        return NormalStats(m.x / variance, -0.5 / variance)

    def from_params(self, *, loc: Any, scale: Any) -> NormalStats:
        """From mean and standard deviation."""
        precision = 1 / np.square(scale)
        return NormalStats(np.asarray(loc) * precision, -0.5 * precision)

    def params(self, eta: NormalStats) -> dict[str, Any]:
        """Mean and standard deviation."""
        loc, variance = _moments(eta)
        return {"loc": loc, "scale": variance**0.5}

    def statistics(self, x: np.ndarray) -> NormalStats:
        """(x, x²)."""
        return NormalStats(x, x**2)

    def sample(self, eta: NormalStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Normal draws, shape (n,)."""
        loc, variance = _moments(eta)
        return rng.normal(loc, np.sqrt(variance), size=n)

    def unconstrained(self, eta: NormalStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x itself."""
        return np.array([_moments(eta)[0]]), np.array([[1.0, 0.0]]), np.zeros((1, 1))

    def constrain(self, eta: NormalStats, u: np.ndarray) -> np.ndarray:
        """x = u."""
        return u[:, 0]

    def log_jacobian(self, eta: NormalStats, u: np.ndarray) -> np.ndarray:
        """Zero."""
        return np.zeros(len(u))


def _moments(eta: NormalStats) -> tuple[Any, Any]:
    """Mean and variance."""
    variance = -0.5 / eta.xx
    return eta.x * variance, variance
