"""Quantiles of mixtures over draws, each part with three moments of its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

GRID = np.linspace(-7.0, 7.0, 57)  # sds at which a mixture is cumulated
NARROW = 0.3  # share of a variance between draws up to which secants are enough
SECANTS, SLOPES = 6, (0.2, 10.0)  # how many, and between which slopes of the normal scores
STRAIGHT = 1e-3  # skewness below which a part is normal
STEEPEST = 4.0  # skewness from which on it is that of this: moments of few nodes say no more
POINTS = 2**12  # of a mixture through a curve, in all
GOLDEN = (np.sqrt(5) - 1) / 2  # multiples of it fill the unit interval evenly


class Parts(NamedTuple):
    """m mixtures of n parts each with weights (n,): means, variances and third central moments (n, m).

    A part is normal, or where it has a third moment a shifted log-normal with the same three: of a level
    whose rows are all zeros, or all ones, even the fourth is then nearly right.
    """

    weights: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    third: np.ndarray | None = None

    def quantiles(self, prob: np.ndarray) -> np.ndarray:
        """At the probabilities prob (k,), (m, k).

        Where a mixture is nearly normal, secants of normal scores find them; else it is cumulated on a grid
        of its sds, and normal scores are joined by lines.
        """
        w, mean = self.weights, self.mean
        center = w @ mean
        between = w @ (mean - center) ** 2
        scale = np.maximum(np.sqrt(between + w @ self.variance), 1e-300)
        sd = np.maximum(np.sqrt(self.variance), 1e-3 * scale)
        skew = None if self.third is None else _skewness(self.third, sd)
        asked = ndtri(prob)
        if len(prob) <= 2 and (between < NARROW * scale**2).all():
            return np.stack([self._end(sd, skew, center, scale, p) for p in asked], axis=1)
        below = np.empty((mean.shape[1], len(GRID)))
        for j, x in enumerate(GRID):
            below[:, j] = w @ ndtr(_score((center + x * scale - mean) / sd, skew))
        score = ndtri(np.clip(below, 1e-16, 1 - 1e-16))
        rows = zip(center, scale, score, strict=True)
        return np.array([c + s * np.interp(asked, z, GRID) for c, s, z in rows])

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values (k, m) that stand for the mixture, with their weights (k,) and parts (k,).

        Every part is asked for quantiles that the parts after it fill up between.
        """
        n = len(self.weights)
        each = max(1, POINTS // n)
        part = np.repeat(np.arange(n), each)
        u = (np.tile(np.arange(each), n) + np.mod(0.5 + part * GOLDEN, 1.0)) / each
        z = ndtri(np.clip(u, 1e-12, 1 - 1e-12))[:, None]
        sd = np.sqrt(self.variance)
        if self.third is not None:
            z = _unscore(z, _skewness(self.third, sd)[part])
        return self.mean[part] + sd[part] * z, self.weights[part] / each, part

    def _end(
        self,
        sd: np.ndarray,
        skew: np.ndarray | None,
        center: np.ndarray,
        scale: np.ndarray,
        asked: float,
    ) -> np.ndarray:
        """Where the mixture's normal score is `asked`, (m,): from where one part of its moments has it."""
        at, slope = np.full(len(center), asked), np.ones(len(center))
        if self.third is not None:
            away = self.mean - center
            whole = self.weights @ (self.third + 3 * self.variance * away + away * away * away)
            one = _skewness(whole, scale)
            at, ahead = _unscore(at, one), _unscore(at + 1e-3, one)
            slope = np.clip(1e-3 / (ahead - at), *SLOPES)
        before: tuple[np.ndarray, np.ndarray] | None = None
        for _ in range(SECANTS):
            below = self.weights @ ndtr(_score((center + at * scale - self.mean) / sd, skew))
            score = ndtri(np.clip(below, 1e-16, 1 - 1e-16))
            if before is not None:
                moved = at - before[0]
                apart = np.abs(moved) > 1e-9
                found = (score - before[1]) / np.where(apart, moved, 1.0)
                slope = np.where(apart, np.clip(found, *SLOPES), slope)
            before = at, score
            at = at + (asked - score) / slope
        return center + at * scale


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, prob: np.ndarray) -> np.ndarray:
    """Quantiles (m, k) of points (n, m) with weights (n,), straight between the middles of their steps."""
    order = np.argsort(values, axis=0)
    heaps = weights[order]
    middles = np.cumsum(heaps, axis=0) - heaps / 2
    values = np.take_along_axis(values, order, axis=0)
    return np.array([np.interp(prob, a, b) for a, b in zip(middles.T, values.T, strict=True)])


def _skewness(third: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """third/sd³, within what a part may have."""
    with np.errstate(all="ignore"):
        unit = np.where(sd > 0, sd, 1.0)
        skew = np.where(sd > 0, third / (unit * unit * unit), 0.0)  # many times faster than unit**3
    return np.clip(skew, -STEEPEST, STEEPEST)


def _shape(skew: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a and √(e^(a²) − 1) of the log-normal with this skewness: (w + 2)√(w − 1) = |skew| with w = e^(a²)."""
    g = np.maximum(np.abs(skew), STRAIGHT)
    c = 2 * np.sinh(np.arcsinh(g / 2) / 3)  # √(w − 1), the root of c³ + 3c = |skew|
    return np.sqrt(np.log1p(c**2)), c


def _score(x: np.ndarray, skew: np.ndarray | None) -> np.ndarray:
    """The normal score of a part at x of its sds."""
    if skew is None:
        return x
    a, c = _shape(skew)
    side = np.sign(skew)
    z = side * (np.log(np.maximum(1 + side * x * c, 1e-300)) + a**2 / 2) / a
    return np.where(np.abs(skew) < STRAIGHT, x, z)


def _unscore(z: np.ndarray, skew: np.ndarray) -> np.ndarray:
    """The inverse of `_score`."""
    a, c = _shape(skew)
    side = np.sign(skew)
    x = side * np.expm1(side * a * z - a**2 / 2) / c
    return np.where(np.abs(skew) < STRAIGHT, z, x)
