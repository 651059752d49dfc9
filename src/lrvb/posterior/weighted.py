"""Weighted draws of a posterior: quantiles and joint draws that need no family and no copula."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from ..integrated.importance import resampled
from ..numerics.sobol import normal_points
from .estimate import Estimate

_AROUND = 64  # points of what is normal given a draw, around each
_GRID = np.linspace(-8, 8, 129)  # sds of a quantity at which a mixture of normals is cumulated


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Values (n, a) of an estimate's coordinates with normalised weights (n,).

    root (n, p, p) times its transpose is the covariance that the first p coordinates, normal given
    the draw, still have; p may be 0. verdicts are those of the named coordinates, where there are any.
    """

    values: np.ndarray
    weights: np.ndarray
    root: np.ndarray
    verdicts: tuple[str, ...] = ()

    @property
    def p(self) -> int:
        """Coordinates that are normal given the draw."""
        return self.root.shape[1]

    def intervals(self, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals of every coordinate."""
        ends = np.array([0.5 - prob / 2, 0.5 + prob / 2])
        within = np.zeros(self.values.shape)
        within[:, : self.p] = np.sqrt((self.root**2).sum(2))
        found = [
            mixture_quantiles(value, sd, self.weights, ends)
            for value, sd in zip(self.values.T, within.T, strict=True)
        ]
        lower, upper = np.reshape(found, (-1, 2)).T
        return lower, upper

    def combined(self, C: np.ndarray, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central intervals of sums of coordinates, C (k, a)."""
        ends = np.array([0.5 - prob / 2, 0.5 + prob / 2])
        own = np.einsum("kp,npq->nkq", C[:, : self.p], self.root)
        within = np.sqrt((own**2).sum(2))
        values = self.values @ C.T
        found = [
            mixture_quantiles(value, sd, self.weights, ends)
            for value, sd in zip(values.T, within.T, strict=True)
        ]
        lower, upper = np.reshape(found, (-1, 2)).T
        return lower, upper

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Values (N, a) of whole draws and their weights (N,).

        What is normal given a draw has the same points around each, with a normal's exact mean and
        covariance.
        """
        if not self.p:
            return self.values, self.weights
        e = normal_points(max(_AROUND, 4 * self.p), self.p)
        around = np.repeat(self.values[:, None], len(e), axis=1)
        around[:, :, : self.p] += np.einsum("npq,kq->nkp", self.root, e)
        weights = np.repeat(self.weights / len(e), len(e))
        return around.reshape(-1, around.shape[2]), weights

    def draw(self, estimate: Estimate, n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """n joint draws of every block, in proportion to the weights: systematic, in random order."""
        chosen = rng.permutation(resampled(self.weights, n, rng))
        values = self.values[chosen]
        noise = rng.standard_normal((n, self.p))
        values[:, : self.p] += np.einsum("npq,nq->np", self.root[chosen], noise)
        return {
            name: block.constrain(values[:, estimate.slices[name]])
            for name, block in estimate.blocks.items()
        }


def mixture_quantiles(
    mean: np.ndarray, sd: np.ndarray, weights: np.ndarray, prob: np.ndarray
) -> np.ndarray:
    """Quantiles (k,) of Σ w N(mean, sd²), (n,) each; of the draws themselves where sd is zero."""
    if not sd.any():
        order = np.argsort(mean)
        w = weights[order]
        return np.interp(prob, np.cumsum(w) - w / 2, mean[order])
    center = weights @ mean
    scale = np.sqrt(weights @ ((mean - center) ** 2 + sd**2))
    grid = center + scale * _GRID
    below = weights @ ndtr((grid - mean[:, None]) / np.maximum(sd, 1e-12 * scale)[:, None])
    rises = np.concatenate([[True], np.diff(below) > 0])
    return np.interp(prob, below[rises], grid[rises])


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Weighted quantiles, linear between the middles of the steps."""
    order = np.argsort(values)
    w = weights[order]
    return np.interp(p, np.maximum.accumulate(np.cumsum(w) - w / 2), values[order])
