"""Starts of a mixture from clumps: one component on few rows that lie close, or are equal, in a column.

Where rows repeat a value a component may stand on it. Such an optimum is so narrow that no start around
another comes there, and holds so little evidence that nobody would miss it, were its precision not so large
that an sd needs it: a share p at Δ sds adds pΔ² to a variance.
"""

from __future__ import annotations

import numpy as np

from .mixture_features import feature_weights, row_features
from .mixture_sweeps import MixturePriors, Parameters, Swept, moments, swept, updated

TRIALS = 96  # starts: components times clumps of all columns
TERMS = 5e8  # of the sweeps of all of them, which take about a third of a second
FEWEST, SHARE = 4, 1 / 32  # rows of a clump: so many, or such a share of all
FIRST, SECOND = 10, 60  # sweeps of every start, and more of those that are not far below
BELOW = 40.0  # nats below the answer, from which on no distance makes up for it
FAR = 3.0  # sds of a precision, within which draws around the answer come
LEAST = -10.0  # of log pΔ²: 1e-3 matters, and an ELBO may be some nats short of the evidence
SAME = 0.05  # nats up to which two of them are one optimum, if their components have the same rows
MOST = 6  # of them that are handed on


def from_clumps(
    params: Parameters, X: np.ndarray, weights: np.ndarray | None, priors: MixturePriors
) -> list[Parameters]:
    """Parameters near optima with a component on a clump of rows X (N, P), those an sd needs most first.

    Every component of the answer `params` is moved to every clump in turn, and the others share its rows.
    """
    K = len(params["mu"]["loc"])
    if K == 1 or priors.flat_scale:  # a flat prior has no optimum on equal rows
        return []
    w = np.ones(len(X)) if weights is None else weights
    X, w = _distinct(X, w)
    answer = {b: {k: np.asarray(v)[None] for k, v in q.items()} for b, q in params.items()}
    phi = row_features(X)
    density = phi @ feature_weights(*moments(answer))[0].T
    R = np.exp(density - density.max(axis=1, keepdims=True))
    R /= R.sum(axis=1, keepdims=True)
    trials = min(TRIALS, TERMS / (FIRST * K * phi.size))
    clumps = _clumps(X, w, int(np.ceil(trials / (K * X.shape[1]))))
    moved = [_moved(R, here, k) for here in clumps for k in range(K)]
    sums = np.einsum("tnk,nf->tkf", np.stack([R, *moved]), w[:, None] * phi)
    first = swept(X, w, priors, updated(sums, priors), FIRST)
    near = first.elbo > first.elbo[0] - BELOW
    last = swept(X, w, priors, first.of(near), SECOND)
    return [last.of(t) for t in _apart(last, priors)[:MOST]]


def _distinct(X: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows that differ, each with the weight of all that are equal."""
    rows, at = np.unique(X, axis=0, return_inverse=True)
    return rows, np.bincount(at.ravel(), weights=w)


def _clumps(X: np.ndarray, w: np.ndarray, several: int) -> list[np.ndarray]:
    """Masks (N,) of rows nearest some of a column's values, as near as those that are few at one of them."""
    size = max(FEWEST, SHARE * w.sum())

    found: dict[bytes, np.ndarray] = {}
    for x in X.T:
        order = np.argsort(x, kind="stable")
        level = (np.arange(several) + 0.5) / several * w.sum()
        for center in np.unique(x[order[np.searchsorted(np.cumsum(w[order]), level)]]):
            away = np.abs(x - center)
            near = np.argsort(away, kind="stable")
            last = min(np.searchsorted(np.cumsum(w[near]), size), len(x) - 1)
            here = away <= away[near[last]]
            if not here.all():
                found[here.tobytes()] = here
    return list(found.values())


def _moved(R: np.ndarray, here: np.ndarray, k: int) -> np.ndarray:
    """Responsibilities with component k on some rows, and its others given to the others in proportion."""
    rest = R.copy()
    rest[:, k] = 0
    total = rest.sum(axis=1, keepdims=True)
    even = np.full(R.shape[1], 1 / (R.shape[1] - 1))
    even[k] = 0
    rest = np.where(total > 0, rest / np.where(total > 0, total, 1), even)
    rest[here] = np.eye(R.shape[1])[k]
    return rest


def _apart(last: Swept, priors: MixturePriors) -> list[int]:
    """Trials that a precision's variance may need, other than each other, those it needs most first.

    The first is the answer. An entry that is r times as large is about (r − 1)√(ν/2) sds away.
    """
    q = last.parameters["Lambda"]
    rows = np.sort(q["dof"] - priors.dof, axis=1)
    precision = np.sort(q["dof"][:, :, None] * np.diagonal(q["scale"], axis1=2, axis2=3), axis=1)
    away = (precision / precision[0] - 1).max(axis=(1, 2))
    away *= np.sqrt(q["dof"][0].max() / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        added = last.elbo - last.elbo[0] + 2 * np.log(away)
    kept: list[int] = []
    for t in np.argsort(-added, kind="stable"):
        same = (np.abs(last.elbo[kept] - last.elbo[t]) < SAME) & (
            np.abs(rows[kept] - rows[t]).max(axis=1) < 1.0
        )
        if last.alive[t] and away[t] > FAR and added[t] > LEAST and not same.any():
            kept.append(int(t))
    return kept
