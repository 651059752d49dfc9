"""Weighted draws of θ where levels are eliminated without matrices: a polynomial, checked and mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..direct import integrate_density
from ..effort import enough
from ..importance import Budget, resampled
from ..integral import Integral
from ..origins import overlooked
from ..wanting import MEAN_ERROR
from .model import MatrixFree
from .preparation import check, prepare, reprobe

CLOSE = 0.02  # error of a log density at the posterior's own draws
ROUNDS = 12  # of checks, and of more probes
CHECKED = 4  # draws a check
MOST_PROBES = 128
KEPT = 64


def integrate_matrix_free(
    inside: MatrixFree,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Integral:
    """θ of gaussian rows with many levels; what its probes leave uncertain comes with it."""
    start = prepare(inside)
    kinds = inside.kinds
    budget = budget or enough(len(kinds), min(term.levels for term in inside.terms))
    for k in range(ROUNDS):
        found = integrate_density(inside.log_density, kinds, start, budget, seed, progress)
        noise = inside.noise(found.theta)
        w = found.weighted.weights
        # tails are checked more often than they occur, and what weighs most always
        at = np.r_[resampled(np.sqrt(w), CHECKED - 1, seed + k), np.argmax(w)]
        if not check(inside, found.theta[at], CLOSE):
            continue
        probes = noise.shape[1]
        if inside.exact or probes >= MOST_PROBES or _shift(found, noise) < MEAN_ERROR / 2:
            break
        reprobe(inside, 2 * probes)
    seen = found.theta[found.weighted.heavy()]
    inside.overlooked = overlooked(inside.terms, seen, kinds, inside.exactly)
    order = np.random.default_rng(seed).permutation(KEPT)
    inside.draws = found.theta[resampled(found.weighted.weights, KEPT, seed)[order]]
    return replace(found, node_error=inside.error**2, noise=None if inside.exact else noise)


def _shift(found: Integral, noise: np.ndarray) -> float:
    """How far the probes' error moves means of θ, in sds."""
    w = found.weighted.weights
    away = found.theta - w @ found.theta
    sd = np.sqrt(w @ away**2)
    moved = (away / sd).T @ (w[:, None] * (noise - w @ noise))
    return float((moved.std(1) / np.sqrt(noise.shape[1])).max())
