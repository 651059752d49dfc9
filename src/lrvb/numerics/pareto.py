"""Pareto smoothed importance weights and the tail index k̂ that judges them.

A. Vehtari, D. Simpson, A. Gelman, Y. Yao and J. Gabry, "Pareto smoothed importance sampling", JMLR 25
(2024); the fit is that of J. Zhang and M. A. Stephens, Technometrics 51 (2009).
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

_FEWEST = 5  # tail weights below which no index can be fitted


def smooth(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Normalised log weights (n,) with the largest min(n/5, 3√n) smoothed, and k̂.

    The tail is replaced by the expected order statistics of the fitted generalised Pareto, none
    above the largest raw weight. Weights without a spread have no tail: k̂ = −∞. A tail of a few
    weights cannot be judged: k̂ = ∞.
    """
    log_w = np.asarray(log_weights, dtype=np.float64) - np.max(log_weights)
    n = len(log_w)
    if np.ptp(log_w) < 1e-10:
        return log_w - logsumexp(log_w), -np.inf
    size = int(np.ceil(min(n / 5, 3 * np.sqrt(n))))
    order = np.argsort(log_w)
    threshold = max(log_w[order[-size - 1]], np.log(np.finfo(float).tiny))
    tail = order[log_w[order] > threshold]
    k = np.inf
    if len(tail) >= _FEWEST:
        excess = np.exp(log_w[tail]) - np.exp(threshold)
        k, sigma = fit(excess)
        if np.isfinite(k):
            quantile = np.arange(0.5, len(tail)) / len(tail)
            smoothed = np.log(np.exp(threshold) + _quantile(quantile, k, sigma))
            log_w[tail] = np.minimum(smoothed, 0.0)
    return log_w - logsumexp(log_w), float(k)


def fit(x: np.ndarray) -> tuple[float, float]:
    """Shape k and scale σ of a generalised Pareto distribution from sorted positive values (n,).

    A posterior mean over a grid, with a weak prior that draws k towards ½ with the weight of 10 values.
    """
    n = len(x)
    m = 30 + int(np.sqrt(n))
    b = 1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    b = b / (3 * x[int(n / 4 + 0.5) - 1]) + 1 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    log_profile = n * (np.log(-b / k) - k - 1)
    weights = np.exp(log_profile - logsumexp(log_profile))
    weights = np.where(weights >= 10 * np.finfo(float).eps, weights, 0.0)
    center = float(b @ weights / weights.sum())
    shape = float(np.log1p(-center * x).mean())
    return (n * shape + 5) / (n + 10), -shape / center


def _quantile(p: np.ndarray, k: float, sigma: float) -> np.ndarray:
    """Quantiles of the generalised Pareto distribution."""
    if abs(k) < 1e-12:
        return -sigma * np.log1p(-p)
    return sigma * np.expm1(-k * np.log1p(-p)) / k
