"""Starting responsibilities for a mixture, and the parameters they imply."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...errors import InvalidData, InvalidModel
from ...models.mixture_sweeps import SAFE, MixturePriors, update

STARTS = ("kmeans", "k-means++", "random", "random_from_data")


def responsibilities(
    X: np.ndarray,
    K: int,
    init: Any,
    weights: np.ndarray | None,
    random_state: np.random.RandomState,
) -> np.ndarray:
    """(N, K) starting responsibilities, from a named method or the array itself."""
    n = len(X)
    if not isinstance(init, str):
        try:
            R = np.asarray(init, dtype=float)
        except (TypeError, ValueError):
            raise InvalidModel(
                f"init={init!r} must be one of {STARTS} or an (N, K) array."
            ) from None
        if R.shape != (n, K):
            raise InvalidData(
                f"init has shape {R.shape}; responsibilities must have shape ({n}, {K}), one row "
                "per row of X and one column per component."
            )
        if (
            not np.isfinite(R).all()
            or (R < 0).any()
            or not np.allclose(R.sum(axis=1), 1, atol=1e-6)
        ):
            raise InvalidData("init must hold probabilities: every row non-negative with sum one.")
        return R
    if init not in STARTS:
        raise InvalidModel(f"init={init!r} must be one of {STARTS} or an (N, K) array.")
    if init == "random":
        R = random_state.uniform(size=(n, K))
        return R / R.sum(axis=1, keepdims=True)
    if init == "kmeans":
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        seed = random_state.randint(2**31 - 1)
        clusters = KMeans(n_clusters=K, n_init=1, random_state=seed)
        with warnings.catch_warnings():  # fewer clusters than K: the mixture has its own words
            warnings.simplefilter("ignore", ConvergenceWarning)
            clusters.fit(X, sample_weight=weights)
        return np.eye(K)[clusters.labels_]
    if init == "k-means++":
        from sklearn.cluster import kmeans_plusplus

        centers, _ = kmeans_plusplus(X, K, sample_weight=weights, random_state=random_state)
    else:
        chance = None if weights is None else (weights > 0) / np.count_nonzero(weights)
        centers = X[random_state.choice(n, size=K, replace=False, p=chance)]
    distance = np.stack([((X - c) ** 2).sum(axis=1) for c in centers], axis=1)
    return np.eye(K)[distance.argmin(axis=1)]


def start_from(
    X: np.ndarray, R: np.ndarray, weights: np.ndarray | None, priors: MixturePriors
) -> dict[str, dict[str, Any]]:
    """Usual parameters of q(μ), q(Λ), q(π) after one update from the responsibilities."""
    P = X.shape[1]
    R = R if weights is None else R * weights[:, None]
    N = R.sum(axis=0)
    means = (R.T @ X) / np.maximum(N, SAFE)[:, None]
    scatter = np.empty((len(N), P, P))
    for k, r in enumerate(R.T):
        centred = X - means[k]
        scatter[k] = (centred * r[:, None]).T @ centred
    return update(N, means, scatter, priors)
