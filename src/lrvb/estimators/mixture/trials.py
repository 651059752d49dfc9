"""Several cheap starts of a mixture: a few sweeps on a sample of the rows each, ranked by the ELBO.

A mixture's ELBO has local optima, and one k-means start finds the best of them too seldom. Sweeps on
a tenth of the rows (at least `LEAST`) cost less than the fit itself, which then begins near its optimum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...models.mixture_sweeps import MixturePriors, Parameters, swept
from .responsibilities import responsibilities, start_from

FEWEST, MANY = 8, 48  # starts that are tried: `ENTRIES` over those of the sample, within these
ENTRIES = 60_000
LEAST, MOST = 2000, 20_000  # rows that they are tried on: a tenth of all, within these
FIRST, SECOND = 10, 40  # sweeps of every trial, and more of the best few
FEW = 6  # trials that get the second round
SAME = 1.0  # nats within which two trials count as the same optimum


class Trials(NamedTuple):
    """Starts for the fit, the best first; how many were tried, and how many reached the best."""

    starts: list[Parameters]
    n_starts: int
    n_best: int


def try_starts(
    X: np.ndarray,
    K: int,
    init: str,
    weights: np.ndarray | None,
    priors: MixturePriors,
    rng: np.random.RandomState,
) -> Trials:
    """The best few of many starts of (N, P) standardised rows; later ones stand in for failures."""
    X, weights = _sample(X, K, weights, rng)
    methods = _methods(init, K, X.size)
    starts = [responsibilities(X, K, method, weights, rng) for method in methods]
    first = swept(X, weights, priors, _begin(X, starts, weights, priors), FIRST)
    order = first.ranked()
    last = swept(X, weights, priors, first.of(order[:FEW]), SECOND)
    best = last.ranked()
    finished = np.concatenate([last.elbo, first.elbo[order[FEW:]]])
    reached = int(np.sum(finished >= last.elbo[best[0]] - SAME))
    return Trials([last.of(t) for t in best], len(starts), reached)


def _begin(
    X: np.ndarray, starts: list[np.ndarray], weights: np.ndarray | None, priors: MixturePriors
) -> Parameters:
    """The parameters of every start, stacked."""
    each = [start_from(X, R, weights, priors) for R in starts]
    return {b: {k: np.stack([p[b][k] for p in each]) for k in q} for b, q in each[0].items()}


def _methods(init: str, K: int, entries: int) -> list[str]:
    """One component has one optimum; k-means alone would return to the same one too often."""
    if K == 1:
        return [init]
    trials = min(max(ENTRIES // entries, FEWEST), MANY)
    if init != "kmeans":
        return [init] * trials
    others = ["k-means++", "random_from_data"] * trials
    return ["kmeans", *others[: trials - 1]]


def _sample(
    X: np.ndarray, K: int, weights: np.ndarray | None, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray | None]:
    """A tenth of the rows of positive weight, at least 50 a component, counting for all of them."""
    size = max(min(len(X) // 10, MOST), LEAST, 50 * K)
    counted = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0)
    if len(counted) > size:
        share = len(counted) / size
        counted = np.sort(rng.choice(counted, size, replace=False))
        return X[counted], (np.ones(size) if weights is None else weights[counted]) * share
    return (X, None) if weights is None else (X[counted], weights[counted])
