"""Rows of any likelihood: least squares whose weights follow the factor, by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .arrow import Blocks, Prior
from .best_gaussian import Tangent
from .conditional import conditional_blocks
from .incidence import Vector
from .layout import Layout
from .optimum import IteratedOptimum, optimum
from .row_terms import RowLikelihood
from .tangents import tangent

_TOL = 1e-10  # of the optimum, relative in variances and in sds of means

_FARTHEST = 2.0  # that a variance's logarithm may be from where it is known, at a start


class Reweighted(NamedTuple):
    """Rows, their layout and offset, and which blocks of w share a factor (None: all, jointly)."""

    layout: Layout
    rows: RowLikelihood
    offset: np.ndarray
    masks: tuple[np.ndarray, np.ndarray] | None

    def solve(
        self,
        prior: Prior,
        pull: Vector,
        s: float,
        start: IteratedOptimum | None = None,
        tol: float | None = None,
    ) -> IteratedOptimum:
        """The best q(w) to the tolerance, from a start or from the rows' own guesses."""
        return optimum(self, prior, pull, s, start, _TOL if tol is None else tol)

    def extrapolate(
        self, best: IteratedOptimum, steps: Sequence[tuple[float, Tangent]]
    ) -> IteratedOptimum:
        """Means along their tangents, variances along those of their logarithms.

        Where a variance would change by more than its own size, a straight line says nothing.
        """
        mu, relative = best.mu, np.zeros(self.layout.n)
        for length, step in steps:
            assert step.v is not None
            mu = mu + step.mu.times(length)
            relative += length * step.v / best.v
        if not np.abs(relative).max() <= 1:
            return best
        return best._replace(mu=mu, v=best.v * np.exp(relative))

    def combined(
        self,
        parts: Sequence[tuple[float, IteratedOptimum]],
        steps: Sequence[tuple[float, Tangent]],
    ) -> IteratedOptimum:
        """Of means, and of the logarithms of variances."""
        first = parts[0][1]
        mu, log_v = first.mu.times(0.0), np.zeros(self.layout.n)
        for weight, best in parts:
            mu = mu + best.mu.times(weight)
            log_v += weight * np.log(best.v)
        for length, step in steps:
            assert step.v is not None
            mu = mu + step.mu.times(length)
            log_v += length * step.v / first.v
        nearest = parts[-1][1]
        if not np.abs(log_v - np.log(nearest.v)).max() <= _FARTHEST:
            return nearest
        return nearest._replace(mu=mu, v=np.exp(log_v))

    def tangent(
        self,
        best: IteratedOptimum,
        b: Vector,
        change: Prior | None,
        ds: float,
        guess: np.ndarray | None = None,
    ) -> Tangent:
        """See `tangents`."""
        return tangent(self, best, b, change, ds, guess)

    def conditional(self, best: IteratedOptimum, prior: Prior) -> Blocks:
        """See `conditional`."""
        return conditional_blocks(self, best, prior)
