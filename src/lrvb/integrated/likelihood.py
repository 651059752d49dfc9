"""What the sums over levels ask of a row's likelihood: log p(y | η, φ) and its derivatives in η."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from scipy.special import gammaln

from .coordinates import Kind

Columns = tuple[np.ndarray, ...]  # of the rows: the response, and trials where a family has them

_STEP = 1e-4  # of central differences: first derivatives to 1e-8, second to 1e-7


class Likelihood(Protocol):
    """Rows' log densities; columns, eta and dispersions broadcast against each other.

    dispersions are the kinds of φ as θ states them, such as ("log",) of a shape.
    """

    dispersions: tuple[Kind, ...]

    def constant(self, columns: Columns) -> float:
        """Σ_n of what depends neither on η nor on φ."""

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> Any:
        """log p(y | η, φ) but for the constant."""

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> tuple[Any, Any]:
        """Score ∂/∂η and information −∂²/∂η²."""


class Differenced:
    """Derivatives of a log density by central differences, for likelihoods that state none."""

    dispersions: tuple[Kind, ...] = ()

    def constant(self, columns: Columns) -> float:
        """Nothing is left out of log p."""
        return 0.0

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> Any:
        """log p(y | η, φ)."""
        raise NotImplementedError

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> tuple[Any, Any]:
        """Score and information from log p at η and η ± 1e-4."""
        low = self.log_p(columns, eta - _STEP, phi)
        middle = self.log_p(columns, eta, phi)
        high = self.log_p(columns, eta + _STEP, phi)
        return (high - low) / (2 * _STEP), (2 * middle - low - high) / _STEP**2


class Poisson:
    """y ~ Poisson(e^η)."""

    dispersions: tuple[Kind, ...] = ()

    def constant(self, columns: Columns) -> float:
        """−Σ log y!."""
        return -float(gammaln(columns[0] + 1).sum())

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> Any:
        """yη − e^η."""
        return columns[0] * eta - np.exp(eta)

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> tuple[Any, Any]:
        """y − e^η and e^η."""
        mean = np.exp(eta)
        return columns[0] - mean, mean


class Binomial:
    """y of `trials` succeed, each with probability 1/(1 + e^−η); columns are y and trials."""

    dispersions: tuple[Kind, ...] = ()

    def constant(self, columns: Columns) -> float:
        """Σ log binomial coefficients."""
        y, n = columns
        return float((gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)).sum())

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> Any:
        """yη − n log(1 + e^η)."""
        y, n = columns
        return y * eta - n * (np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))))

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> tuple[Any, Any]:
        """y − nπ and nπ(1 − π)."""
        y, n = columns
        small = np.exp(-np.abs(eta))
        probability = np.where(eta >= 0, 1.0, small) / (1 + small)
        return y - n * probability, n * (small / (1 + small) ** 2)


class NegativeBinomial(Differenced):
    """Counts with mean e^η and variance mean + mean²/φ; φ is the shape, log φ a coordinate of θ."""

    dispersions: tuple[Kind, ...] = ("log",)

    def constant(self, columns: Columns) -> float:
        """−Σ log y!."""
        return -float(gammaln(columns[0] + 1).sum())

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> Any:
        """log Γ(y + φ) − log Γ(φ) + y η + φ log φ − (y + φ) log(e^η + φ)."""
        y, shape = columns[0], phi[0]
        log_total = np.logaddexp(eta, np.log(shape))
        rising = gammaln(y + shape) - gammaln(shape)
        return rising + y * (eta - log_total) + shape * (np.log(shape) - log_total)

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any]) -> tuple[Any, Any]:
        """y − (y + φ)π and (y + φ)π(1 − π), π = e^η/(e^η + φ)."""
        y, shape = columns[0], phi[0]
        odds = eta - np.log(shape)
        small = np.exp(-np.abs(odds))
        share = np.where(odds >= 0, 1.0, small) / (1 + small)
        return y - (y + shape) * share, (y + shape) * (small / (1 + small) ** 2)
