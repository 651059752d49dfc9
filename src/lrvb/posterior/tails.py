"""Tails of weighted draws, and of the density where no draw comes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..numerics.pareto import EQUAL, FEWEST
from ..numerics.pareto import fit as fit_pareto

Function = Callable[[np.ndarray], np.ndarray]

NEAR, FAR = 20.0, 40.0  # sds from the center between which the fall is measured
SEVERAL = 65  # points from which the program of the draws is used, and none compiled
GROWS = 1.5  # a quantity has a tail along a ray where its distance from the center grows so much
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
    steps = np.array([NEAR / 1.01, NEAR * 1.01, FAR / 1.01, FAR * 1.01])
    points = (center + steps[:, None, None] * rays).reshape(-1, len(center))
    more = np.repeat(center[None], max(0, SEVERAL - 1 - len(points)), axis=0)
    with np.errstate(all="ignore"):
        all_of_them = log_density(np.concatenate([center[None], points, more]))
        log_p = all_of_them[1 : 1 + len(points)].reshape(4, -1)
        away = np.abs(statistics(points) - statistics(center[None]))
        log_x = np.log(away).reshape(4, len(rays), -1)
        grown = (log_x[2] + log_x[3] - log_x[0] - log_x[1]) / 2
        # p(u) du for each unit of log x: du goes with the distance, as the small steps do
        stretch = np.log((log_x[3] - log_x[2]) / (log_x[1] - log_x[0])) - np.log(FAR / NEAR)
        fall = (log_p[0] + log_p[1] - log_p[2] - log_p[3])[:, None] / 2 + stretch
        index = grown / fall
        square = (log_p - all_of_them[0])[..., None] + 2 * (log_x - np.log(spread))
        counts = square.max(axis=0) > COUNTS
    usual = np.isfinite(index) & (grown > np.log(GROWS))
    return np.where(usual & counts & (index > 0), index, 0.0).max(axis=0)


def unseen_square(values: np.ndarray, index: float) -> float:
    """The share of the variance beyond the farthest of n draws (n,), if their tail has this index.

    A density that falls like x^(−1/k) for each unit of log x, 1/n of it beyond x, has x²/(n(1 − 2k)) of ∫x²p
    there.
    """
    away = (values - values.mean()) ** 2
    total = away.sum()
    return float(away.max() / total / max(1 - 2 * index, 1e-9)) if total > 0 else 0.0


def product_index(weights: np.ndarray, values: np.ndarray) -> float:
    """k̂ of the products of weights and values, −∞ where all values are zero.

    The smaller of two, of the largest min(n/5, 3√n) and of half as many: products that are bounded
    pile up below their bound, and where that lies among them no Pareto fits.
    """
    product = weights * values
    positive = np.sort(product[product > 0])
    n = len(positive)
    size = int(np.ceil(min(n / 5, 3 * np.sqrt(n))))
    if n < 2 or positive[-1] - positive[0] < EQUAL * positive[-1]:
        return -np.inf
    found = np.inf
    for length in (size, size // 2):
        tail = positive[-length:] - positive[-length - 1] if length else positive[:0]
        tail = tail[tail > 0]
        if len(tail) >= FEWEST:
            found = min(found, float(fit_pareto(tail / tail[-1])[0]))
    return found


def tail_index(values: np.ndarray, weights: np.ndarray) -> float:
    """Index of the heavier tail of weighted draws, of a generalised Pareto beyond their outer quantiles.

    From the 1 % to 20 % of an equally weighted resample, as many as 3√n; −1 without a spread.
    """
    n = int(np.clip(1 / (weights**2).sum(), 50, 4000))
    edges = np.cumsum(weights[order := np.argsort(values)])
    picked = np.minimum(
        np.searchsorted(edges, (np.arange(n) + 0.5) / n * edges[-1]), len(edges) - 1
    )
    x = values[order][picked]
    size = int(np.ceil(min(n / 5, 3 * np.sqrt(n))))
    found = -1.0
    for tail in (x[-size:] - x[-size - 1], x[size] - x[:size][::-1]):
        tail = np.unique(tail[tail > 0])
        if len(tail) >= 20 and tail[0] < tail[-1]:
            found = max(found, float(fit_pareto(tail)[0]))
    return found
