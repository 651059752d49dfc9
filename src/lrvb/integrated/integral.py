"""Weighted draws of θ, and what levels' effects are over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .factor_density import pairs_of
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
    where the draws are, in less time, if there is such a thing. With scale(theta) (n, k) moments of
    levels go as these and their squares too, rather than linearly in theta.
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
    scale: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)

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
        """Moments as functions of θ by linear regression on the sample, averaged over all draws.

        Products of means are quadratic in θ, whose second moments all draws know better than the sample.
        """
        assert self.inside is not None
        assert self.sample is not None
        assert self.first is not None
        assert self.second is not None
        w, known, sample = self.weighted.weights, self.theta, self.sample
        if self.scale is not None:
            known, sample = (
                np.column_stack([part, self.scale(part), self.scale(part) ** 2])
                for part in (known, sample)
            )
        center = w @ known
        sd = np.maximum(self.weighted.sd(known), 1e-300)
        away, sampled = (known - center) / sd, (sample - center) / sd
        level, *slopes = np.linalg.pinv(np.column_stack([np.ones(len(sampled)), sampled]))
        B = np.reshape(slopes, sampled.T.shape) @ self.first  # (d, Gq)
        missed = away.T @ (w[:, None] * away) - sampled.T @ (level[:, None] * sampled)
        second = level @ self.second + _products(B, missed, len(self.second[0]))
        found = self.inside.unfold(self.theta, w, level @ self.first, second)
        covariance = away.T @ (w[:, None] * (values - w @ values))
        return LevelMoments(found, self.inside.expand(B.T @ covariance))


def _products(B: np.ndarray, C: np.ndarray, size: int) -> np.ndarray:
    """bᵢᵀCbⱼ of each group's columns of B (d, Gq), for the pairs that its `size`/G second moments are of."""
    q = round(2 * size / max(1, B.shape[1])) - 1
    parts = B.reshape(len(B), -1, max(1, q))
    CB = np.tensordot(C, parts, axes=1)
    found = [(parts[..., i] * CB[..., j]).sum(0) for i, j in pairs_of(max(1, q))]
    return np.stack(found, axis=1).ravel()
