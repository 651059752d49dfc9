"""Location: a normal vector of which only the mean is free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ..errors import InvalidModel
from ..numerics.packing import Slot
from .base import Family


class LocationStats(NamedTuple):
    """The slot of T(x) = x, shape (p,); η, m and T share it."""

    x: Any


class Location(Family):
    """q(x) = N(m, V) with a known covariance V: η = V⁻¹m, and T(x) = x alone.

    Coefficients whose covariance was found together with their mean are reported so.
    """

    Stats = LocationStats
    parameters = ("loc",)

    def __init__(self, cov: Any, *, batch: tuple[int, ...] | int = ()):
        super().__init__(batch=batch)
        V = np.asarray(cov, dtype=np.float64)
        if V.ndim != 2 or V.shape[0] != V.shape[1] or not len(V):
            raise InvalidModel(
                f"Location: cov has shape {V.shape}; it must be (p, p), p at least 1."
            )
        if not (np.isfinite(V).all() and np.allclose(V, V.T, rtol=1e-8, atol=0)):
            raise InvalidModel("Location: cov must be a symmetric matrix of finite numbers.")
        try:
            self._root = np.linalg.cholesky(V)
        except np.linalg.LinAlgError as error:
            raise InvalidModel("Location: cov must be positive definite.") from error
        self.cov = V

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The vector."""
        return (Slot((len(self.cov),), "{}"),)

    def log_partition(self, eta: LocationStats) -> Any:
        """½ηᵀVη, with N(0, V) as the base measure."""
        return 0.5 * eta.x @ (self.cov @ eta.x)

    def valid(self, eta: LocationStats) -> Any:
        """Any finite η."""
        return jnp.isfinite(eta.x).all()

    def start(self) -> LocationStats:
        """Mean zero."""
        return LocationStats(np.zeros(len(self.cov)))

    def mean(self, eta: LocationStats) -> LocationStats:
        """Vη."""
        return LocationStats(self.cov @ eta.x)

    def factor(self, eta: LocationStats) -> Any:
        """The Cholesky factor of V."""
        return jnp.asarray(self._root)

    def entropy(self, eta: LocationStats) -> Any:
        """−½ηᵀVη: relative to N(0, V)."""
        return -self.log_partition(eta)

    def natural(self, m: LocationStats) -> LocationStats:
        """V⁻¹m."""
        return LocationStats(jnp.linalg.solve(self.cov, m.x))

    def from_params(self, *, loc: Any) -> LocationStats:
        """From the mean."""
        return LocationStats(np.linalg.solve(self.cov, np.asarray(loc, float)))

    def params(self, eta: LocationStats) -> dict[str, Any]:
        """The mean."""
        return {"loc": self.cov @ eta.x}

    def statistics(self, x: np.ndarray) -> LocationStats:
        """x itself."""
        return LocationStats(x)

    def sample(self, eta: LocationStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Normal draws, shape (n, p)."""
        return self.cov @ eta.x + rng.standard_normal((n, len(self.cov))) @ self._root.T

    def unconstrained(self, eta: LocationStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x itself."""
        p = len(self.cov)
        return np.asarray(self.cov @ eta.x), np.eye(p), np.zeros((p, p))

    def constrain(self, eta: LocationStats, u: np.ndarray) -> np.ndarray:
        """x = u."""
        return u

    def describe(self) -> Mapping[str, Any]:
        """The covariance, row by row."""
        return {"cov": [list(map(float, row)) for row in self.cov], "batch": list(self.batch)}

    def __repr__(self) -> str:
        return f"Location(dim={len(self.cov)})"

    def _key(self) -> Any:
        return self.cov.tobytes(), self.batch
