"""The exact posterior, assembled from a lattice of conditional Gaussians."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq


class Marginal(NamedTuple):
    """Distribution function Σ_g weight_g · kernel((c − location_g) / scale_g)."""

    weight: np.ndarray
    location: np.ndarray
    scale: np.ndarray | float
    kernel: Callable[[np.ndarray], np.ndarray]

    def cdf(self, value: float) -> float:
        """P(θ ≤ value)."""
        return float(self.weight @ self.kernel((value - self.location) / self.scale))


class Mixture(NamedTuple):
    """Global quantities at each lattice point g: weight (G,), mean (G, q), covariance (G, q, q)."""

    weight: np.ndarray
    mean: np.ndarray
    cov: np.ndarray


@dataclass(frozen=True)
class ExactPosterior:
    """Posterior moments that carry no Monte Carlo error.

    `mean`, `cov`, `skewness` are labelled by global quantity; `z_mean`, `z_sd` and `z_cov` (local ×
    global quantity) by row or group; `log_evidence` is log p(y), with every constant.
    """

    mean: pd.Series
    cov: pd.DataFrame
    skewness: pd.Series
    log_evidence: float
    z_mean: pd.Series
    z_sd: pd.Series
    z_cov: pd.DataFrame
    marginals: Mapping[str, Marginal] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """Names of the global quantities."""
        return list(self.mean.index)

    @property
    def sd(self) -> pd.Series:
        """Standard deviations of the global quantities."""
        return pd.Series(np.sqrt(np.diag(self.cov)), self.mean.index, name="sd")

    def cdf(self, name: str, value: float) -> float:
        """P(θ ≤ value | y) of the named quantity."""
        if name in self.marginals:
            return self.marginals[name].cdf(value)
        return self.marginals[f"log({name})"].cdf(np.log(value)) if value > 0 else 0.0

    def quantile(self, name: str, p: float) -> float:
        """Value below which the named quantity lies with probability p."""
        if not 0 < p < 1:
            raise ValueError(f"A quantile needs a probability inside (0, 1), not {p}.")
        if name not in self.marginals:
            return float(np.exp(self.quantile(f"log({name})", p)))
        center, sd = float(self.mean[name]), float(self.sd[name])
        width = 4.0
        while self.cdf(name, center - width * sd) > p or self.cdf(name, center + width * sd) < p:
            width *= 2
        bounds = center - width * sd, center + width * sd
        return float(brentq(lambda c: self.cdf(name, c) - p, *bounds, xtol=1e-13 * sd + 1e-300))

    def interval(self, name: str, prob: float = 0.94) -> tuple[float, float]:
        """Central interval that holds the named quantity with probability `prob`."""
        return self.quantile(name, (1 - prob) / 2), self.quantile(name, (1 + prob) / 2)


def global_moments(mixture: Mixture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (q,), covariance (q, q) and skewness (q,) of a mixture of Gaussians."""
    weight, mean, cov = mixture
    center = weight @ mean
    shift = mean - center
    total = (weight[:, None] * shift).T @ shift + np.tensordot(weight, cov, 1)
    spread = np.diagonal(cov, axis1=1, axis2=2)
    third = weight @ (shift**3 + 3 * shift * spread)
    return center, total, third / np.diag(total) ** 1.5


def local_moments(
    mixture: Mixture, mean: np.ndarray, var: np.ndarray, cov: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (n,), sd (n,) and covariance with the global quantities (n, q) of local variables.

    Given lattice point g they have mean and variance (G, n), and covariance with the global
    quantities `cov` (G, n, q), zero when left out.
    """
    weight = mixture.weight
    center = weight @ mean
    shift = mean - center
    sd = np.sqrt(weight @ (var + shift**2))
    cross = shift.T @ (weight[:, None] * (mixture.mean - weight @ mixture.mean))
    if cov is not None:
        cross = cross + np.tensordot(weight, cov, 1)
    return center, sd, cross


def assemble(
    names: Sequence[str],
    mixture: Mixture,
    local: tuple[np.ndarray, np.ndarray, np.ndarray],
    labels: Any,
    log_evidence: float,
    marginals: Mapping[str, Marginal],
) -> ExactPosterior:
    """Attach names; `local` is what `local_moments` returns and `labels` its index."""
    mean, cov, skewness = global_moments(mixture)
    index, rows = pd.Index(list(names)), pd.Index(labels)
    return ExactPosterior(
        mean=pd.Series(mean, index, name="mean"),
        cov=pd.DataFrame(cov, index, index),
        skewness=pd.Series(skewness, index, name="skewness"),
        log_evidence=log_evidence,
        z_mean=pd.Series(local[0], rows, name="mean"),
        z_sd=pd.Series(local[1], rows, name="sd"),
        z_cov=pd.DataFrame(local[2], rows, index),
        marginals=dict(marginals),
    )
