"""Weights of draws that have what is known of a normal: control variates of importance sampling.

With G the normal of the draws' own mean and covariance, and H the polynomials up to degree two that are
orthonormal under it, (G/q)·H has the means (1, 0, …) under q, which draws are from. Shares v of them, the
nearest to 1/n, that give these means and sum to one make Σ vp/q f the regression estimate of ∫ pf: what of
(p/q)f is a sum of such controls has no error. Where the posterior is nearly normal, that is most of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .importance import Weighted

_DRAWS = 8  # for each control, below which these would follow the draws' own noise
_LEAST = 0.1  # share of a draw over 1/n, below which they would turn weights around
_K_HAT = 0.7  # of the weights, from which on a few draws decide what controls do


def calibrated(found: Weighted) -> Weighted:
    """The draws with such weights; as they are where too few of them tell."""
    n, d = found.x.shape
    if n < _DRAWS * (d + 1) * (d + 2) / 2 or not found.k_hat < _K_HAT:
        return found
    A = np.column_stack([np.ones(n), _controls(found)])
    missed = np.r_[1.0, 1.0, np.zeros(A.shape[1] - 2)] - A.mean(axis=0)
    Q, R = np.linalg.qr(A)
    share = 1 + n * (Q @ np.linalg.solve(R.T, missed))
    if not (np.isfinite(share).all() and share.min() > _LEAST):
        return found
    weights, total = found.weights * share, float(found.raw @ share)
    known = replace(found, weights=weights / weights.sum(), controls=Q)
    return replace(
        known,
        log_evidence=found.log_evidence + float(np.log(total)),
        log_evidence_error=float(known.error(found.raw[:, None])[0]) / total,
    )


def _controls(found: Weighted) -> np.ndarray:
    """(G/q)·H at the draws, (n, (d + 1)(d + 2)/2)."""
    x = found.x
    away = x - found.mean(x)
    root = np.linalg.cholesky((away * found.weights[:, None]).T @ away)
    e = np.linalg.solve(root, away.T).T
    d = x.shape[1]
    i, j = np.tril_indices(d, -1)
    H = np.column_stack([np.ones(len(e)), e, (e**2 - 1) / np.sqrt(2), e[:, i] * e[:, j]])
    log_g = -0.5 * (e**2).sum(1) - np.log(np.diag(root)).sum() - d / 2 * np.log(2 * np.pi)
    return np.exp(log_g - found.log_q)[:, None] * H
