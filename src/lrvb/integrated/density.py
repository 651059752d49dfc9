"""Rows' log densities as the sums over levels ask for them: columns and dispersions by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..likelihoods import Given, Likelihood
from .coordinates import LOG, Kind

Columns = tuple[np.ndarray, ...]  # of the rows: the response, and the family's extras


class Density:
    """log p(y | η, φ) of a likelihood; columns, η and dispersions φ broadcast against each other.

    Every dispersion is positive, and its logarithm a coordinate of θ.
    """

    def __init__(self, likelihood: Likelihood, extras: Sequence[str] = ()):
        self.likelihood, self.extras = likelihood, tuple(extras)
        self.names = tuple(dispersion.name for dispersion in likelihood.dispersions)

    @property
    def dispersions(self) -> tuple[Kind, ...]:
        """Kinds of φ as θ states them."""
        return tuple(LOG * len(self.names))

    @property
    def exponential(self) -> str:
        """How log p depends on e^η, as the class says that states log p itself; or nothing."""
        kind = type(self.likelihood)
        for base in kind.__mro__:
            if "exponential" in vars(base):
                return kind.exponential
            if "log_p" in vars(base) or "kernel" in vars(base):
                return ""
        return ""

    def constant(self, columns: Columns) -> float:
        """Σ_n of what depends neither on η nor on φ."""
        return float(np.sum(self.constants(columns)))

    def constants(self, columns: Columns) -> np.ndarray:
        """What depends neither on η nor on φ, of every row (N,)."""
        found = self.likelihood.constant(columns[0], self._given(columns))
        return np.broadcast_to(found, columns[0].shape)

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any] = ()) -> Any:
        """log p(y | η, φ) but for the constant."""
        return self.likelihood.kernel(columns[0], eta, self._given(columns, phi))

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any] = ()) -> tuple[Any, Any]:
        """Score ∂/∂η and information −∂²/∂η²."""
        return self.likelihood.derivatives(columns[0], eta, self._given(columns, phi))

    def _given(self, columns: Columns, phi: Sequence[Any] = ()) -> Given:
        given = dict(zip(self.extras, columns[1:], strict=True))
        return given | dict(zip(self.names, phi, strict=False))
