"""Pareto smoothed importance weights and the tail index k̂ that judges them.

A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, "Pareto smoothed importance sampling", JMLR 25
(2024); the fit is that of J. Zhang and M. A. Stephens, Technometrics 51 (2009).
"""

from __future__ import annotations

import numpy as np

EQUAL = 1e-6  # of log weights: those that differ by less are equal, whatever is averaged
FEWEST = 5  # tail weights below which no index can be fitted
_ENTRIES = 2**19  # of the grid that a tail is fitted on, at a time


def smooth(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Normalised log weights (n,), smoothed, and k̂. See: smooth_columns."""
    found, k = smooth_columns(np.asarray(log_weights, dtype=np.float64)[:, None])
    return found[:, 0], float(k[0])


def smooth_columns(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normalised log weights (n, c), in each column the largest min(n/5, 3√n) smoothed, and k̂ (c,).

    The tail is replaced by the expected order statistics of the fitted generalised Pareto, none
    above the largest raw weight. Weights without a spread have no tail: k̂ = −∞. A tail of a few
    weights, or a single weight, cannot be judged: k̂ = ∞.
    """
    log_w = log_weights - log_weights.max(axis=0)
    n = len(log_w)
    flat = (np.ptp(log_w, axis=0) < EQUAL) & (n > 1)
    k = np.where(flat, -np.inf, np.inf)
    first = max(n - tail_size(n) - 1, 0)
    order = np.argpartition(log_w, first, axis=0)[first:]
    order = np.take_along_axis(order, np.take_along_axis(log_w, order, 0).argsort(axis=0), 0)
    top = np.take_along_axis(log_w, order, 0)
    threshold = np.maximum(top[0], np.log(np.finfo(float).tiny))
    lengths = np.where(flat, 0, (top > threshold).sum(axis=0))
    for length in np.unique(lengths[lengths >= FEWEST]):
        alike = np.flatnonzero(lengths == length)
        quantile = (np.arange(0.5, length) / length)[:, None]
        step = max(1, _ENTRIES // (length * _grid(length)))
        for at in np.split(alike, range(step, len(alike), step)):
            base = np.exp(threshold[at])
            k[at], sigma = fit(np.exp(top[-length:, at]) - base)
            there = np.isfinite(k[at])
            at, base, sigma = at[there], base[there], sigma[there]
            smoothed = np.log(base + _quantile(quantile, k[at], sigma))
            log_w[order[-length:, at], at] = np.minimum(smoothed, 0.0)
    return log_w - np.log(np.exp(log_w).sum(axis=0)), k


def tail_size(n: int) -> int:
    """How many of n weights are the tail."""
    return int(np.ceil(min(n / 5, 3 * np.sqrt(n))))


def fit(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shape k and scale σ of generalised Pareto distributions from sorted positive values (n, …).

    A posterior mean over a grid, with a weak prior that draws k towards ½ with the weight of 10 values.
    """
    n = len(x)
    m = _grid(n)
    b = (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))).reshape(-1, *(1,) * (x.ndim - 1))
    b = b / (3 * x[int(n / 4 + 0.5) - 1]) + 1 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    log_profile = n * (np.log(-b / k) - k - 1)
    weights = np.exp(log_profile - log_profile.max(axis=0))
    weights = weights / weights.sum(axis=0)
    weights = np.where(weights >= 10 * np.finfo(float).eps, weights, 0.0)
    center = (b * weights).sum(axis=0) / weights.sum(axis=0)
    shape = np.log1p(-center * x).mean(axis=0)
    return (n * shape + 5) / (n + 10), -shape / center


def _grid(n: int) -> int:
    """Points of the grid that n values are fitted on."""
    return 30 + int(np.sqrt(n))


def _quantile(p: np.ndarray, k: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Quantiles of generalised Pareto distributions."""
    small = np.abs(k) < 1e-12
    safe = np.where(small, 1.0, k)
    logs = np.log1p(-p)
    return np.where(small, -sigma * logs, sigma * np.expm1(-safe * logs) / safe)
