"""Margins of joint draws: a log-gamma variable of given mean and sd, at given normal scores."""

from __future__ import annotations

from typing import Any

import numpy as np

_NORMAL = 1e12  # shapes above: log-gamma and normal agree to 1e-6 of an sd


def log_gamma_at(score: np.ndarray, mean: Any, sd: Any, kept: Any = None) -> np.ndarray:
    """log g at the normal scores (n, k), where log g has these means and sds (k,) and g is a gamma.

    The gamma's shape a has ψ′(a) = sd²; with sd² = ψ′(a) and mean ψ(a) − log b, g is Gamma(a, b).
    With `kept` (k,), shapes of gammas that have this mean of log g, it is E g of those that is kept, and
    the mean of log g that moves with its spread, by ψ(a) − log a less the same of `kept`.
    """
    from scipy.special import psi  # slow to import, and needed for draws only

    mean, sd = np.broadcast_to(mean, score.shape[1]), np.broadcast_to(sd, score.shape[1])
    result = mean + sd * score
    for k in np.flatnonzero(sd > 0):
        shape = inverse_trigamma(float(sd[k]) ** 2)
        if shape < _NORMAL:
            result[:, k] = mean[k] - psi(shape) + _log_quantile(shape, score[:, k])
        if kept is not None:
            own = float(np.broadcast_to(kept, score.shape[1])[k])
            result[:, k] += psi(shape) - np.log(shape) - psi(own) + np.log(own)
    return result


def _log_quantile(shape: float, score: np.ndarray) -> np.ndarray:
    """log of the Gamma(a, 1) quantile at Φ(score), from the nearer tail, and below all numbers."""
    from scipy.special import gammainccinv, gammaincinv, gammaln, log_ndtr, ndtr

    lower = gammaincinv(shape, ndtr(np.minimum(score, 0.0)))
    upper = gammainccinv(shape, ndtr(-np.maximum(score, 0.0)))
    g = np.where(score < 0, lower, upper)
    # P(g) = gᵃ/Γ(a + 1) · (1 + O(g))
    tiny = (log_ndtr(score) + gammaln(shape + 1)) / shape
    return np.where(g > 1e-17, np.log(np.maximum(g, 1e-300)), tiny)


def inverse_trigamma(value: float) -> float:
    """a > 0 with ψ′(a) = value, by Newton on 1/ψ′, which is convex and nearly linear."""
    from scipy.special import polygamma

    a = 0.5 + 1 / value
    if a > _NORMAL:
        return a
    for _ in range(50):
        trigamma = float(polygamma(1, a))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, a))
        a += step
        if abs(step) < 1e-14 * a:
            break
    return a
