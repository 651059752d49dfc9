"""Weighted draws of θ, and what levels' effects are over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .importance import Weighted, resampled
from .inside import Effects, Evaluable, Inside

_AGAIN = 512  # draws at which moments of levels are made again, where they were not kept


class LevelMoments(NamedTuple):
    """Every term's effects, and their covariances (levels, q, a) with values at the draws."""

    effects: tuple[Effects, ...]
    cross: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Integral:
    """Weighted draws of all that was not summed out: theta (n, d), with their weights and verdict.

    node_error is what the log density is off by at the draws. first and second are `evaluate`'s moments
    at the draws, where they were kept, or at the points `sample` (k, d) from the posterior. noise (n, P) is
    what each of P probes alone would add to the log density, where it is known by their mean. doubt (n,) is a
    part of the log density that is known to no more than about its own size. near answers as `inside` does
    where the draws are, in less time, if there is such a thing.
    """

    theta: np.ndarray
    weighted: Weighted
    node_error: float = 0.0
    inside: Inside | None = None
    first: np.ndarray | None = field(default=None, repr=False)
    second: np.ndarray | None = field(default=None, repr=False)
    sample: np.ndarray | None = field(default=None, repr=False)
    noise: np.ndarray | None = field(default=None, repr=False)
    doubt: np.ndarray | None = field(default=None, repr=False)
    near: Evaluable | None = field(default=None, repr=False)

    @property
    def heavy(self) -> tuple[np.ndarray, np.ndarray]:
        """The draws that carry all but a millionth of the weight, and their weights."""
        at = self.weighted.heavy()
        return self.theta[at], self.weighted.weights[at] / self.weighted.weights[at].sum()

    @property
    def effects(self) -> tuple[Effects, ...]:
        """Every term's effects, in the order of the sds in θ."""
        return self.moments(np.zeros((len(self.theta), 0))).effects

    def moments(self, values: np.ndarray) -> LevelMoments:
        """Levels' effects, and their covariances with values (n, a) at the draws."""
        assert self.inside is not None
        theta, w = self.theta, self.weighted.weights
        first, second = self.first, self.second
        if self.sample is not None:
            return self._from_sample(values)
        if first is None or second is None:
            at = resampled(w, _AGAIN)
            theta, values, w = theta[at], values[at], np.full(_AGAIN, 1 / _AGAIN)
            _, first, second = self.inside.evaluate(theta)
        away = values - w @ values
        found = self.inside.unfold(theta, w, w @ first, w @ second)
        return LevelMoments(found, self.inside.expand(first.T @ (w[:, None] * away)))

    def _from_sample(self, values: np.ndarray) -> LevelMoments:
        """Moments as functions of θ by linear regression on the sample, averaged over all draws."""
        assert self.inside is not None
        assert self.sample is not None
        assert self.first is not None
        assert self.second is not None
        w = self.weighted.weights
        all_away, line = regression_on(self.weighted, self.theta, self.sample)
        level, slopes = line[:1], line[1:]
        found = self.inside.unfold(self.theta, w, (level @ self.first)[0], (level @ self.second)[0])
        covariance = all_away.T @ (w[:, None] * (values - w @ values))
        cross = self.inside.expand((slopes @ self.first).T @ covariance)
        return LevelMoments(found, cross)


def regression_on(
    weighted: Weighted, theta: np.ndarray, sample: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draws θ (n, d) in sds from their mean; the matrix (1 + d, k) of least squares on those of a sample."""
    center = weighted.weights @ theta
    sd = np.maximum(weighted.sd(theta), 1e-300)
    away = (sample - center) / sd
    return (theta - center) / sd, np.linalg.pinv(np.column_stack([np.ones(len(away)), away]))
