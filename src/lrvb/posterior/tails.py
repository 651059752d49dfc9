"""Tails of weighted draws, and of the density where no draw comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..numerics.hmc import standard_ranks
from ..numerics.pareto import EQUAL, FEWEST
from ..numerics.pareto import fit as fit_pareto

Function = Callable[[np.ndarray], np.ndarray]

NEAR, FAR = 20.0, 40.0  # sds from the center between which the fall is measured
SEVERAL = 65  # points from which the program of the draws is used, and none compiled
GROWS = 1.5  # a quantity has a tail along a ray where its distance from the center grows so much
HANGS = 0.1  # share of a variance that goes with what has no finite sd
TENTH = 10  # of the draws by distance, from which the farthest is foretold
BOUND = 10.0  # sds from the mean within which a statistic ends that has no tail on that side
STILL = 1.1  # its distance from the center at FAR over that at NEAR, where it has ended
COUNTS = np.log(1e-3)  # of p·x² far out, in units of the center's density and of the variance


def far_indices(
    log_density: Function,
    statistics: Function,
    center: np.ndarray,
    sd: np.ndarray,
    spread: np.ndarray,
) -> np.ndarray:
    """The tail index of every statistic along rays of single coordinates, (a,); 0 where it is light.

    log_density (n,) and statistics (n, a) are functions of points (n, k); rays lead from center (k,), in
    units of sd (k,).

    With x a statistic's distance from its value at the center, a density that falls like x^(−1/k) for
    each unit of log x has index k: no variance from ½ on. It is conditional on the other coordinates,
    so that it may be too small in several dimensions, never because draws are few. A tail counts where its
    squares would: a prior's that begins where the data leave e⁻⁵⁰ of the density moves no sd. `spread` (a,)
    are the sds of the statistics.
    """
    rays = np.concatenate([np.diag(sd), -np.diag(sd)])
    paths = center + steps_between(NEAR, FAR)[:, None, None] * rays
    points = paths.reshape(-1, len(center))
    more = np.repeat(center[None], max(0, SEVERAL - 1 - len(points)), axis=0)
    with np.errstate(all="ignore"):
        log_p = log_density(np.concatenate([center[None], points, more]))
    below = log_p[1 : 1 + len(points)].reshape(4, -1)
    return along_paths(paths, below, log_p[0], statistics, center, spread).indices.max(axis=0)


def ends(
    statistics: Function, center: np.ndarray, sd: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Whether a statistic has an end within ten sds below, and above, (a, 2), where no draws are a tail.

    Only of one that a single coordinate moves: its ray, from center (k,) in units of sd (k,), is then all
    that it can be. `spread` (a,) are the sds of the statistics.
    """
    k = len(center)
    rays = np.concatenate([np.diag(sd), -np.diag(sd)])
    paths = center + np.array([NEAR, FAR])[:, None, None] * rays
    with np.errstate(all="ignore"):
        moved = statistics(paths.reshape(-1, k)) - statistics(center[None])
        near, far = moved.reshape(2, 2 * k, -1)
        alone = ((near != 0) | (far != 0)).reshape(2, k, -1).any(axis=0).sum(axis=0) == 1
        still = (np.abs(far) <= STILL * np.abs(near)) & (np.abs(far) <= BOUND * spread)
        sides = [(still | (side * far <= 0)).all(axis=0) for side in (-1, 1)]
    return np.stack(sides, axis=1) & alone[:, None]


def steps_between(near: float, far: float) -> np.ndarray:
    """Two distances around each of two, (4,): what is between them tells a slope."""
    return np.array([near / 1.01, near * 1.01, far / 1.01, far * 1.01])


class Tails(NamedTuple):
    """Indices of statistics on paths, zero where light, and shares of variances beyond NEAR sds, (rays, a).

    ∫x²p beyond x is x³p/(1/k − 2), where p is what is left of the center's, and that is a normal's.
    """

    indices: np.ndarray
    beyond: np.ndarray

    def unseen(self, values: np.ndarray) -> np.ndarray:
        """Shares beyond the farthest of draws (n, a), of one path or the worst of all: (a,).

        ∫x²p beyond x goes like x^−(1/k − 2), from the farthest draw to NEAR sds too.
        """
        away = np.abs(values - values.mean(axis=0)).max(axis=0)
        spread = np.maximum(values.std(axis=0), 1e-300)
        share = np.minimum(away / spread / NEAR, 1.0)
        power = np.maximum(1 / np.maximum(self.indices, 1e-3) - 2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = self.beyond * share**-power
        return np.where((self.beyond > 0) & (share > 0), found, 0.0)


def along_paths(
    points: np.ndarray,
    log_p: np.ndarray,
    top: float | np.ndarray,
    statistics: Function,
    center: np.ndarray,
    spread: np.ndarray,
    endless: bool = False,
) -> Tails:
    """Tails of every statistic on paths whose log densities are log_p (4, rays).

    points (4, rays, k) are at `steps_between` NEAR and FAR, `top` is the log density at the center, of all or
    of each path. A density that rises has no index, or with `endless` an infinite one.
    """
    with np.errstate(all="ignore"):
        away = np.abs(statistics(points.reshape(-1, len(center))) - statistics(center[None]))
        log_x = np.log(away).reshape(*log_p.shape, -1)
        grown = (log_x[2] + log_x[3] - log_x[0] - log_x[1]) / 2
        # p(u) du for each unit of log x: du goes with the distance, as the small steps do
        stretch = np.log((log_x[3] - log_x[2]) / (log_x[1] - log_x[0])) - np.log(FAR / NEAR)
        fall = (log_p[0] + log_p[1] - log_p[2] - log_p[3])[:, None] / 2 + stretch
        index = grown / fall
        if endless:
            index = np.where(fall > 0, index, np.inf)
        square = (log_p - top)[..., None] + 2 * (log_x - np.log(spread))
        counts = square.max(axis=0) > COUNTS
        usual = ~np.isnan(fall) & (grown > np.log(GROWS)) & (endless | np.isfinite(index))
        index = np.where(usual & counts & (index > 0), index, 0.0)
        beyond = np.exp(square[:2].mean(axis=0)) * NEAR / np.sqrt(2 * np.pi)
        beyond = np.where(index > 0, beyond / np.maximum(1 / index - 2, 1e-9), 0.0)
    return Tails(index, beyond)


def hanging(values: np.ndarray, endless: np.ndarray) -> np.ndarray:
    """Which of values (n, q) hang together with those that have no finite sd, `endless` (q,): (q,).

    Those of which a tenth of the variance or more goes with one of them, by the rank correlation of the
    values or of their distances from the median: a scale may widen what it does not move. The rest of
    the variance is then √0.9 of the sd or more, wherever the tail ends.
    """
    found = endless.copy()
    for far in values[:, endless].T:
        along = standard_ranks(far[:, None])
        for moved in (values, np.abs(values - np.median(values, axis=0))):
            found |= (along.T @ standard_ranks(moved))[0] ** 2 >= HANGS
    return found


def unseen_square(values: np.ndarray, index: float) -> float:
    """The share of the variance beyond the farthest of n draws (n,), if their tail has this index.

    A density that falls like x^(−1/k) for each unit of log x, 1/n of it beyond x, has x²/(n(1 − 2k)) of ∫x²p
    there. x is where the farthest draw is, or should be by the tenth: m/n of the density is beyond x·m^(−k).
    """
    away = (values - values.mean()) ** 2
    total = away.sum()
    if not total > 0:
        return 0.0
    m = min(TENTH, len(away))
    farthest = max(away.max(), np.partition(away, -m)[-m] * m ** (2 * index))
    return float(farthest / total / max(1 - 2 * index, 1e-9))


class Products(NamedTuple):
    """The tail of products of weights and values: its k̂, and what the largest of so many should be.

    Beyond the quantile 1 − 1/m of m values u + x, with x of a generalised Pareto (k, σ), are
    u + (σ/k)(m^k/(1 − k) − 1) of their sum. So many draws have that once, or not at all.
    """

    k_hat: float
    largest: float


def product_tail(weights: np.ndarray, values: np.ndarray) -> Products:
    """The tail of the products of weights and values; k̂ = −∞ where all values are zero.

    The smaller k̂ of two, of the largest min(n/5, 3√n) and of half as many: products that are bounded
    pile up below their bound, and where that lies among them no Pareto fits.
    """
    product = weights * values
    positive = np.sort(product[product > 0])
    n = len(positive)
    size = int(np.ceil(min(n / 5, 3 * np.sqrt(n))))
    if n < 2 or positive[-1] - positive[0] < EQUAL * positive[-1]:
        return Products(-np.inf, 0.0)
    found = Products(np.inf, np.inf)
    for length in (size, size // 2):
        start = positive[-length - 1] if length else 0.0
        tail = positive[-length:] - start if length else positive[:0]
        tail = tail[tail > 0]
        if len(tail) >= FEWEST:
            k, sigma = map(float, fit_pareto(tail / tail[-1]))
            if k < found.k_hat:
                beyond = sigma * (len(tail) ** k / (1 - k) - 1) / k if k < 1 else np.inf
                found = Products(k, float(start + tail[-1] * beyond))
    return found


def tail_index(
    values: np.ndarray, weights: np.ndarray, ended: np.ndarray | tuple[bool, bool] = (False, False)
) -> float:
    """Index of the heavier tail of weighted draws, of a generalised Pareto beyond their outer quantiles.

    From the 1 % to 20 % of an equally weighted resample, as many as 3√n; −1 without a spread. `ended` tells
    the sides, below and above, on which there is no tail.
    """
    n = int(np.clip(1 / (weights**2).sum(), 50, 4000))
    edges = np.cumsum(weights[order := np.argsort(values)])
    picked = np.minimum(
        np.searchsorted(edges, (np.arange(n) + 0.5) / n * edges[-1]), len(edges) - 1
    )
    x = values[order][picked]
    size = int(np.ceil(min(n / 5, 3 * np.sqrt(n))))
    found = -1.0
    outer = x[size] - x[:size][::-1], x[-size:] - x[-size - 1]
    for tail, without in zip(outer, ended, strict=True):
        tail = np.unique(tail[tail > 0])
        if not without and len(tail) >= 20 and tail[0] < tail[-1]:
            found = max(found, float(fit_pareto(tail)[0]))
    return found
