"""Quantiles of a response averaged over a normal linear predictor, by bisection of its cdf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.special import ndtri

from .given import Given, take

if TYPE_CHECKING:
    from .base import Likelihood

REACH = 5.5  # sds of η within which the average is taken: all but 4e-8
STEPS = (1, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513)  # numbers of nodes of the average
FINE = 1e-12  # of its first bracket, to which the quantile of a continuous response is found


def averaged_quantile(
    likelihood: Likelihood,
    mean: np.ndarray,
    variance: np.ndarray,
    prob: Any,
    given: Given,
) -> np.ndarray:
    """The smallest y with E_η P(Y ≤ y | η) ≥ prob for η ~ N(mean, variance) of every row."""
    sd, prob = np.sqrt(variance), np.broadcast_to(np.asarray(prob, dtype=float), mean.shape)
    # A normal density times a rise of width 1/sharp: with steps of 1.1/√(1 + sharp²) the trapezoid rule is
    # off by exp(−16). Beyond the most nodes a quantile is off by 1 % of an sd of η at most.
    there = mean + ndtri(prob) * sd
    sharp = sd * likelihood.sharpness(there, given)
    wanted = np.where(sd > 0, 1 + 2 * REACH / 1.1 * np.sqrt(1 + sharp**2), 1)
    nodes = np.minimum(np.searchsorted(STEPS, wanted), len(STEPS) - 1)  # NaN comes last
    result = np.empty(len(mean))
    for step in np.unique(nodes):
        rows = np.flatnonzero(nodes == step)
        average = _Average(likelihood, mean[rows], sd[rows], take(given, rows), STEPS[step])
        result[rows] = _bisect(average, prob[rows])
    return result


def nodes_quantile(
    likelihood: Likelihood, eta: np.ndarray, prob: float, given: Given
) -> np.ndarray:
    """The smallest y with mean P(Y ≤ y | η) ≥ prob over equally probable nodes η (m, K) of every row.

    A dispersion in `given` may have a value for each node, (K,).
    """
    average = _Nodes(likelihood, eta, given)
    asked = np.full(len(eta), float(prob))
    typical = {**given, **{name: np.median(part) for name, part in average.of_nodes.items()}}
    low, high = _ends(likelihood, eta.min(1), eta.max(1), asked, typical)
    if not likelihood.light_tails:
        _widen(average, asked, low, high)
    return _halve(average, asked, low, high)


class _Averaged(Protocol):
    """P(Y ≤ y) of some rows, averaged over η."""

    likelihood: Likelihood

    def cdf(self, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """At one y for each of the rows asked for."""


class _Nodes:
    """y ↦ the mean of P(Y ≤ y | η) over nodes of η (m, K)."""

    def __init__(self, likelihood: Likelihood, eta: np.ndarray, given: Given):
        self.likelihood, self.eta = likelihood, eta
        of_rows = (*likelihood.extras,)
        self.of_nodes = {k: v for k, v in given.items() if k not in of_rows and np.ndim(v)}
        self.of_rows = {k: v for k, v in given.items() if k not in self.of_nodes}

    def cdf(self, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """At one y for each of the rows asked for."""
        given, total = take(self.of_rows, rows), np.zeros(len(rows))
        for k in range(self.eta.shape[1]):
            here = {name: part[k] for name, part in self.of_nodes.items()}
            total += self.likelihood.cdf(y, self.eta[rows, k], {**given, **here})
        return total / self.eta.shape[1]


class _Average:
    """y ↦ E_η P(Y ≤ y | η) of some rows."""

    def __init__(
        self,
        likelihood: Likelihood,
        mean: np.ndarray,
        sd: np.ndarray,
        given: Given,
        nodes: int,
    ):
        self.likelihood, self.mean, self.sd, self.given = likelihood, mean, sd, given
        self.x = np.linspace(-REACH, REACH, nodes) if nodes > 1 else np.zeros(1)
        weights = np.exp(-(self.x**2) / 2)
        self.weights = weights / weights.sum()

    def cdf(self, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """At one y for each of the rows asked for."""
        given, total = take(self.given, rows), np.zeros(len(rows))
        for node, weight in zip(self.x, self.weights, strict=True):
            eta = self.mean[rows] + self.sd[rows] * node
            total += weight * self.likelihood.cdf(y, eta, given)
        return total


def _bisect(average: _Average, prob: np.ndarray) -> np.ndarray:
    """Halve a bracket until its ends are neighbours."""
    return _halve(average, prob, *_bracket(average, prob))


def _halve(average: _Averaged, prob: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    discrete = average.likelihood.discrete
    near = np.ones_like(low) if discrete else FINE * (high - low)
    for _ in range(64):  # counts beyond 2⁵³ have no neighbours
        rows = np.flatnonzero(high - low > near)
        if not len(rows):
            break
        middle = (low[rows] + high[rows]) / 2
        middle = np.floor(middle) if discrete else middle
        enough = average.cdf(middle, rows) >= prob[rows]
        high[rows] = np.where(enough, middle, high[rows])
        low[rows] = np.where(enough, low[rows], middle)
    return high


def _bracket(average: _Average, prob: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values with P(Y ≤ low) < prob ≤ P(Y ≤ high): half of each tail is η's, half the response's.

    They are Bernstein's bounds, which hold for light tails; others are widened until they do.
    """
    likelihood, given = average.likelihood, average.given
    lowest = average.mean + ndtri(prob / 2) * average.sd
    highest = average.mean - ndtri((1 - prob) / 2) * average.sd
    low, high = _ends(likelihood, lowest, highest, prob, given)
    if not likelihood.light_tails:
        _widen(average, prob, low, high)
    return low, high


def _ends(
    likelihood: Likelihood, lowest: np.ndarray, highest: np.ndarray, prob: np.ndarray, given: Given
) -> tuple[np.ndarray, np.ndarray]:
    """Bernstein's bounds of Y at the lowest and at the highest η that matter."""
    above, below = (1 - prob) / 2, prob / 2
    top, wide = _moments(likelihood, highest, given)
    bottom, low_wide = _moments(likelihood, lowest, given)
    t = -np.log(above)
    high = top + np.sqrt(2 * wide * t) + t
    low = bottom - np.sqrt(-2 * low_wide * np.log(below))
    if likelihood.discrete:
        low, high = np.maximum(np.floor(low) - 1, -1.0), np.ceil(high)
    return low, high


def _moments(
    likelihood: Likelihood, eta: np.ndarray, given: Given
) -> tuple[np.ndarray, np.ndarray]:
    """The mean and, for Bernstein's bounds, the variance (of counts the mean, if that is more)."""
    mean, variance = likelihood.mean(eta, given), likelihood.variance(eta, given)
    if likelihood.light_tails:
        return mean, mean
    variance = np.where(np.isfinite(variance), variance, np.square(likelihood.scale(given)))
    return mean, np.maximum(mean, variance) if likelihood.discrete else variance


def _widen(average: _Averaged, prob: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Move the ends outward, in place, in steps that double, until they hold the quantile."""
    step = high - low
    for _ in range(100):
        rows = np.flatnonzero(np.isfinite(high))
        rows = rows[average.cdf(high[rows], rows) < prob[rows]]
        if not len(rows):
            break
        high[rows] += step[rows]
        step[rows] *= 2
    step = high - low
    for _ in range(100):
        rows = np.flatnonzero(np.isfinite(low))
        rows = rows[average.cdf(low[rows], rows) >= prob[rows]]
        if not len(rows):
            break
        low[rows] -= step[rows]
        step[rows] *= 2
