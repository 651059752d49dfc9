r"""b = (β, small factors' levels) and the rows' evidence given what all other levels leave of them.

With P the prior precision of b, log p(y | θ) = −n log σ√2π − ½h − ½τ y'V⁻¹y + ½τ²M_yx(τM_xx + P)⁻¹M_xy
− ½ log |τM_xx + P| + …: small matrices at many points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Outside(NamedTuple):
    """At k points: log p(y | θ) (k,); mean of b less its prior mean (k, p), and covariance (k, p, p)."""

    value: np.ndarray
    b: np.ndarray
    covariance: np.ndarray


def condition(
    n: float, P: np.ndarray, constant: np.ndarray, h: np.ndarray, M: np.ndarray, log_sd: np.ndarray
) -> Outside:
    """b and evidence from P (k, p, p), log p(b)'s constant, h, M (k, p + 1, p + 1) and log σ (k,)."""
    p, tau = P.shape[1], np.exp(-2 * log_sd)
    Q = tau[:, None, None] * M[:, :p, :p] + P
    right = tau[:, None] * M[:, :p, p]
    value = constant + p * np.log(2 * np.pi) / 2 - n * (log_sd + np.log(2 * np.pi) / 2)
    value = value - h / 2 - tau * M[:, p, p] / 2
    finite = np.isfinite(Q).all((1, 2))
    Q[~finite] = np.eye(p)
    sign, logdet = np.linalg.slogdet(Q) if p else (np.ones(len(tau)), np.zeros(len(tau)))
    ok = finite & (sign > 0)
    Q[~ok] = np.eye(p)
    covariance = np.linalg.inv(Q)
    b = np.einsum("kij,kj->ki", covariance, right)
    value = value + np.einsum("ki,ki->k", right, b) / 2 - logdet / 2
    return Outside(np.where(ok, value, -np.inf), b, covariance)
