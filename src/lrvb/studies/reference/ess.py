"""How many independent draws a Markov chain is worth."""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

CHUNK = 2**22  # numbers transformed at a time


def effective_sample_size(draws: np.ndarray) -> np.ndarray:
    r"""Effective sample size n/τ of each quantity, τ = 1 + 2 Σ_t ρ_t.

    `draws` has shape (n, ...), one chain along the first axis; returns shape (...). The sum over
    autocorrelations ends by Geyer's initial monotone sequence: sums of neighbours
    Γ_t = ρ_2t + ρ_2t+1 of a reversible chain are positive and decreasing, so each is bounded by
    those before it, and what follows the first that is not positive is left out. A constant has
    NaN; a chain whose neighbours oppose each other may be worth more than n.
    """
    draws = np.asarray(draws, float)
    n = len(draws)
    columns = draws.reshape(n, -1)
    width = max(CHUNK // max(n, 1), 1)
    tau = [_tau(columns[:, k : k + width]) for k in range(0, columns.shape[1], width)]
    return (n / np.concatenate([np.empty(0), *tau])).reshape(draws.shape[1:])


def autocovariance(draws: np.ndarray) -> np.ndarray:
    """Σ_s (x_s − x̄)(x_s+t − x̄) / n at every lag t, along the first axis of (n, q)."""
    n = len(draws)
    size = next_fast_len(2 * n, real=True)  # room enough that no lag wraps around
    spectrum = rfft(draws - draws.mean(0), size, axis=0)
    return irfft(spectrum.real**2 + spectrum.imag**2, size, axis=0)[:n] / n


def _tau(columns: np.ndarray) -> np.ndarray:
    """Integrated autocorrelation time of each column, (n, q) → (q,)."""
    cov = autocovariance(columns)
    pairs = cov[0 : len(cov) // 2 * 2 : 2] + cov[1::2]
    bounded = np.maximum(np.minimum.accumulate(pairs, axis=0), 0)
    moving = np.ptp(columns, axis=0) > 0
    return np.where(moving, 2 * bounded.sum(0) / np.where(moving, cov[0], 1) - 1, np.nan)
