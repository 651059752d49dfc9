"""Quantiles of a new count: a Poisson or binomial variable averaged over a normal linear predictor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import betainc, expit, gammaincc, ndtri

REACH = 6.5  # sds of η within which the average is taken
FEWEST, MOST = 33, 513  # nodes of the average


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
    # The trapezoid rule needs a step below the width of the rise, in sds of η.
    sharp = sd / counts.spread(mean + float(ndtri(prob)) * sd)
    sharp = np.where(np.isfinite(sharp), sharp, np.inf)
    nodes = np.clip(2 ** np.ceil(np.log2(1 + 2 * REACH * sharp)) + 1, FEWEST, MOST)
    result = np.empty(len(mean))
    for m in np.unique(nodes):
        rows = np.flatnonzero(nodes == m)
        result[rows] = _bisect(counts.take(rows), mean[rows], sd[rows], prob, int(m))
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
        open_ = high - low > 1
        if not open_.any():
            break
        middle = np.floor((low + high) / 2)
        total = np.zeros(len(mean))
        for node, weight in zip(x, weights, strict=True):
            total += weight * counts.cdf(middle, mean + sd * node)
        enough = total >= prob
        high = np.where(enough & open_, middle, high)
        low = np.where(~enough & open_, middle, low)
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
