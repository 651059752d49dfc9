"""Features φ(x) of a mixture's rows, and the weights by which they are expected log densities."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics.packing import multiplicity, pack_symmetric
from .densities import LOG_2PI


def feature_weights(mu: Any, Lambda: Any, log_pi: Any, xp: Any = np) -> Any:
    """W with E_q[log π_k + log N(x | μ_k, Λ_k⁻¹)] = W_k·φ(x), (..., K, φ), from the blocks' moments."""
    P = mu.x.shape[-1]
    constant = log_pi + 0.5 * (Lambda.logdet_x - P * LOG_2PI)
    constant -= 0.5 * xp.sum(Lambda.x * mu.xx, axis=(-2, -1))
    linear = xp.einsum("...ab,...b->...a", Lambda.x, mu.x)
    # ½xᵀΛx with the symmetric products packed: each off-diagonal entry counts twice
    square = -0.5 * pack_symmetric(Lambda.x) * multiplicity(P)
    return xp.concatenate([constant[..., None], linear, square], axis=-1)


def row_features(X: np.ndarray) -> np.ndarray:
    """φ of many rows (N, P), as `NormalMixture.features` has it."""
    first, second = np.triu_indices(X.shape[1])
    return np.concatenate([np.ones((len(X), 1)), X, X[:, first] * X[:, second]], axis=1)
