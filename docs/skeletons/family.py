"""A family in one file: copy it, rename it, change the formulas.

The example is the inverse gamma distribution of a variance v > 0. A family states its statistics
T(v), its log partition A(η), where A is finite, and where a fit may start. Means, covariances,
entropy and the way back from moments then come from A by differentiation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln

from lrvb.families import Family
from lrvb.numerics.packing import Slot


class InverseGammaStats(NamedTuple):
    """Slots of T(v) = (1/v, log v); η, m and T share them. A model reads m.v.inv_x, m.v.log_x."""

    inv_x: Any
    log_x: Any


class InverseGamma(Family):
    """q(v) ∝ exp(η·T(v)),  η = (−rate, −shape − 1)."""

    # ---- required: what the family is -------------------------------------------------------

    Stats = InverseGammaStats
    # Shape, public name and sign of each statistic: intervals of 1/v stay positive.
    slots = (Slot((), "1/{}", support="positive"), Slot((), "log({})"))
    parameters = ("shape", "rate")

    def log_partition(self, eta: InverseGammaStats) -> Any:
        """log Γ(shape) − shape · log rate."""
        shape, rate = _shape_rate(eta)
        return gammaln(shape) - shape * jnp.log(rate)

    def valid(self, eta: InverseGammaStats) -> Any:
        """Shape and rate are positive."""
        shape, rate = _shape_rate(eta)
        return (shape > 0) & (rate > 0) & jnp.isfinite(shape) & jnp.isfinite(rate)

    def start(self) -> InverseGammaStats:
        """InverseGamma(1, 1): vague, and well inside the domain."""
        return self.from_params(shape=1.0, rate=1.0)

    def from_params(self, *, shape: Any, rate: Any) -> InverseGammaStats:
        """From shape and rate."""
        return InverseGammaStats(-np.asarray(rate, float), -np.asarray(shape, float) - 1)

    def params(self, eta: InverseGammaStats) -> dict[str, Any]:
        """Shape and rate."""
        shape, rate = _shape_rate(eta)
        return {"shape": shape, "rate": rate}

    # ---- optional: a closed form, for speed. The laws compare it with ∇A. --------------------

    def mean(self, eta: InverseGammaStats) -> InverseGammaStats:
        """(shape/rate, log rate − ψ(shape))."""
        shape, rate = _shape_rate(eta)
        return InverseGammaStats(shape / rate, jnp.log(rate) - digamma(shape))

    # ---- for draws: T of a draw, draws from q, and coordinates without bounds ----------------

    def statistics(self, x: np.ndarray) -> InverseGammaStats:
        """(1/v, log v)."""
        return InverseGammaStats(1 / x, np.log(x))

    def sample(self, eta: InverseGammaStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Inverse gamma draws, shape (n,)."""
        shape, rate = _shape_rate(eta)
        return rate / rng.gamma(shape, size=n)

    def unconstrained(self, eta: InverseGammaStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """u = log v, which is the second statistic itself."""
        return np.array([self.mean(eta).log_x]), np.array([[0.0, 1.0]]), np.zeros((1, 1))

    def constrain(self, eta: InverseGammaStats, u: np.ndarray) -> np.ndarray:
        """The variance v = exp u."""
        return np.exp(u[:, 0])


def _shape_rate(eta: InverseGammaStats) -> tuple[Any, Any]:
    """Shape and rate."""
    return -eta.log_x - 1, -eta.inv_x
