"""Where a certificate draws from: linear response's normals with the tails of a t, and fits to draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ..engine.modes import Mode, share_of
from ..engine.response import Response
from ..integrated.importance import Refit
from ..integrated.proposals import Mixture, Proposal, SplitT, fit_blocks
from .estimate import estimate_of
from .target import Target, free_coordinates

FEW = 20  # coordinates up to which a proposal of two t's is fitted
STEP = 1e-5  # of a difference in coordinates, whose scale is one by construction
REACHED = 0.25  # of a mode's share of the evidence that draws must have found near it


class Around(NamedTuple):
    """An optimum in unconstrained coordinates: mean (k,), a root (k, k) of the covariance."""

    center: np.ndarray
    root: np.ndarray

    def t(self, wider: float = 1.0, df: float | None = None) -> SplitT:
        """Its normal with the tails of a t, lighter in many dimensions."""
        ones = np.ones(len(self.center))
        df = max(7.0, len(ones) / 2) if df is None else df
        return SplitT(self.center, wider * self.root, ones, ones, df)


def around(target: Target, response: Response) -> Around:
    """Linear response's normal of the target's coordinates, at another optimum too.

    There the coordinates may be others, which are carried over to first order.
    """
    estimate = estimate_of(response)
    free = free_coordinates(estimate)
    center, root = free.mean, free.root(estimate.Sigma)
    steps = STEP * np.eye(len(center))
    own = center + np.concatenate([0 * center[None], steps, -steps])
    there = target.carried(response.eta, own)
    if np.array_equal(there, own):
        return Around(center, root)
    ahead, back = np.split(there[1:], 2)
    root = (ahead - back).T / (2 * STEP) @ root
    return Around(there[0], np.linalg.cholesky(root @ root.T))  # which rounding does not turn


def around_all(places: list[Around], wider: float, df: float) -> Proposal:
    """The t's around several optima, of equal shares."""
    parts = tuple(place.t(wider, df) for place in places)
    return parts[0] if len(parts) == 1 else Mixture(parts, np.full(len(parts), 1 / len(parts)))


def missed(
    x: np.ndarray, weights: np.ndarray, places: list[Around], near: tuple[Mode, ...]
) -> float:
    """Share of the evidence of optima near the first that weighted draws (n, k) have not come to.

    `places` are the first optimum and those of `near`; each draw belongs to the one under whose normal
    it is likeliest. Evidence to one loop is rough, so that a part of its share is enough.
    """
    if not near:
        return 0.0
    log_p = []
    for center, root in places:
        scatter = root @ root.T
        L = np.linalg.cholesky(scatter + 1e-12 * np.diag(np.diag(scatter)))
        e = solve_triangular(L, (x - center).T, lower=True)
        log_p.append(-0.5 * (e**2).sum(0) - np.log(np.diag(L)).sum())
    nearest = np.argmax(log_p, axis=0)
    total = 1 + sum(np.exp(min(mode.gain, 700.0)) for mode in near)
    unseen = [
        mode
        for k, mode in enumerate(near, 1)
        if weights[nearest == k].sum() < REACHED * np.exp(min(mode.gain, 700.0)) / total
    ]
    return share_of(unseen)


def moments(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and a root of the covariance of draws (n, d)."""
    mean = weights @ x
    S = ((x - mean) * weights[:, None]).T @ (x - mean)
    sd = np.sqrt(np.diag(S))
    scaled = S / np.outer(sd, sd) + 1e-9 * np.eye(len(sd))
    return mean, sd[:, None] * np.linalg.cholesky(scaled)


def refitted(d: int) -> Refit:
    """How a proposal is fitted to weighted draws: two t's in few dimensions, otherwise one."""
    if d <= FEW:
        return lambda x, w: fit_blocks(x, w, 0)

    def one(x: np.ndarray, weights: np.ndarray) -> Proposal:
        mean, root = moments(x, weights)
        return SplitT(mean, 1.1 * root, np.ones(d), np.ones(d), max(7.0, d / 2))

    return one
