"""Quantiles of a new count: a Poisson or binomial variable averaged over a normal linear predictor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import betainc, expit, gammaincc, ndtri

REACH = 5.5  # sds of η within which the average is taken: all but 4e-8
STEPS = (13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513)  # numbers of nodes of the average


class Counts(Protocol):
    """A distribution of counts given η, for some rows."""

    def expected(self, eta: np.ndarray) -> np.ndarray:
        """E y."""

    def spread(self, eta: np.ndarray) -> np.ndarray:
        """sd of y in units of η: how sharply the distribution function rises is one over it."""

    def cdf(self, k: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """P(y ≤ k) for whole k, −1 allowed."""

    def take(self, rows: np.ndarray) -> Counts:
        """The same for a part of the rows."""


@dataclass(frozen=True)
class PoissonCounts:
    """y ~ Poisson(exp η)."""

    def expected(self, eta: np.ndarray) -> np.ndarray:
        """exp η."""
        return np.exp(eta)

    def spread(self, eta: np.ndarray) -> np.ndarray:
        """exp(−η/2)."""
        return np.exp(-eta / 2)

    def cdf(self, k: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """Γ(k + 1, exp η)/Γ(k + 1)."""
        return np.where(k < 0, 0.0, gammaincc(np.maximum(k, 0.0) + 1, np.exp(eta)))

    def take(self, rows: np.ndarray) -> PoissonCounts:
        """Itself."""
        return self


@dataclass(frozen=True)
class BinomialCounts:
    """y ~ Binomial(trials, σ(η))."""

    trials: np.ndarray

    def expected(self, eta: np.ndarray) -> np.ndarray:
        """trials · σ(η)."""
        return self.trials * expit(eta)

    def spread(self, eta: np.ndarray) -> np.ndarray:
        """(trials σ(1 − σ))^(-½)."""
        return 1 / np.sqrt(self.trials * expit(eta) * expit(-eta))

    def cdf(self, k: np.ndarray, eta: np.ndarray) -> np.ndarray:
        """The regularised incomplete beta function of 1 − σ(η)."""
        inside = np.clip(k, 0.0, self.trials - 1)
        value = betainc(self.trials - inside, inside + 1, expit(-eta))
        return np.where(k < 0, 0.0, np.where(k >= self.trials, 1.0, value))

    def take(self, rows: np.ndarray) -> BinomialCounts:
        """The trials of those rows."""
        return BinomialCounts(self.trials[rows])


def count_quantile(
    counts: Counts, mean: np.ndarray, variance: np.ndarray, prob: float
) -> np.ndarray:
    """The smallest k with E_η P(y ≤ k | η) ≥ prob for η ~ N(mean, variance) of every row."""
    sd = np.sqrt(variance)
    # A normal density times a rise of width 1/sharp: with steps of 1.1/√(1 + sharp²) the trapezoid rule is
    # off by exp(−16). Beyond the most nodes a quantile is off by 1 % of an sd of η at most.
    sharp = sd / counts.spread(mean + float(ndtri(prob)) * sd)
    wanted = 1 + 2 * REACH / 1.1 * np.sqrt(1 + sharp**2)
    nodes = np.minimum(np.searchsorted(STEPS, wanted), len(STEPS) - 1)  # NaN comes last
    result = np.empty(len(mean))
    for step in np.unique(nodes):
        rows = np.flatnonzero(nodes == step)
        result[rows] = _bisect(counts.take(rows), mean[rows], sd[rows], prob, STEPS[step])
    return result


def _bisect(
    counts: Counts, mean: np.ndarray, sd: np.ndarray, prob: float, nodes: int
) -> np.ndarray:
    """Halve a bracket that Bernstein's bounds of a count's tails give."""
    x = np.linspace(-REACH, REACH, nodes)
    weights = np.exp(-(x**2) / 2)
    weights /= weights.sum()
    low, high = _bracket(counts, mean, sd, prob)
    for _ in range(64):  # counts beyond 2⁵³ have no neighbours
        rows = np.flatnonzero(high - low > 1)
        if not len(rows):
            break
        part, middle = counts.take(rows), np.floor((low[rows] + high[rows]) / 2)
        total = np.zeros(len(rows))
        for node, weight in zip(x, weights, strict=True):
            total += weight * part.cdf(middle, mean[rows] + sd[rows] * node)
        enough = total >= prob
        high[rows] = np.where(enough, middle, high[rows])
        low[rows] = np.where(enough, low[rows], middle)
    return high


def _bracket(
    counts: Counts, mean: np.ndarray, sd: np.ndarray, prob: float
) -> tuple[np.ndarray, np.ndarray]:
    """Counts with P(y ≤ low) < prob ≤ P(y ≤ high): half of each tail is η's, half the count's."""
    above, below = (1 - prob) / 2, prob / 2
    top = counts.expected(mean - float(ndtri(above)) * sd)
    bottom = counts.expected(mean + float(ndtri(below)) * sd)
    t = -np.log(above)
    high = np.ceil(top + np.sqrt(2 * top * t) + t)
    low = np.floor(bottom - np.sqrt(-2 * bottom * np.log(below))) - 1
    return np.maximum(low, -1.0), high
