"""The objective: the ELBO with local variables collapsed, as a function of the global η."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..collapsed.seam import SMALL, BoundSum
from ..errors import LrvbError
from ..statement.problem import Problem, global_program


@dataclass(frozen=True)
class Point:
    """The objective at η: m, the ELBO and ∂L̄/∂m with z collapsed; where asked for, C (V = CCᵀ) and H̃.

    `step` is the length |Cᵀ(∂L̄/∂m − η)| of the coordinate-ascent step, in mean-field sds; `state` what
    the seam may start from at a point nearby; `error` why there is no value, where the seam knows.
    """

    eta: np.ndarray
    m: np.ndarray
    C: np.ndarray
    elbo: float
    gradient: np.ndarray
    H: np.ndarray | None
    failed: int = -1
    step: float = np.inf
    state: Any = None
    error: LrvbError | None = None
    factors: Mapping[str, np.ndarray] | None = None  # the blocks of C, (copies, size, size) each

    @property
    def residual(self) -> np.ndarray:
        """∂E/∂m = ∂L̄/∂m − η, zero at the optimum."""
        return stationarity(self.eta, self.gradient)

    def permuted(self, order: np.ndarray) -> Point:
        """The same with coordinate `order[i]` in place i."""
        square = np.ix_(order, order)
        return replace(
            self,
            eta=self.eta[order],
            m=self.m[order],
            C=self.C[square],
            gradient=self.gradient[order],
            H=None if self.H is None else self.H[square],
            state=None,
        )


def stationarity(eta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """∂E/∂m = ∂L/∂m − η: the fixed point is where it vanishes, η = ∂L/∂m.

    Paper: eq:fixed_pt
    """
    return gradient - eta


class Objective:
    """The ELBO with local variables collapsed, as a function of the global η."""

    def __init__(self, problem: Problem, sum_over_rows: BoundSum | None):
        self.problem, self.rows = problem, sum_over_rows
        self.small = problem.alpha.size <= SMALL

    def at(self, eta: np.ndarray, order: int = 2, state: Any = None) -> Point:
        """Value and gradient, and with `order=2` the curvature; invalid η has ELBO −inf.

        `state` is that of a point nearby: a start for inner optima, on which nothing else depends.
        """
        if self.small:
            order = 2
        program = global_program(self.problem.structure, order)
        q, value, gradient, H = program(self.problem.traced, np.ascontiguousarray(eta))
        m, gradient = np.asarray(q.m), np.asarray(gradient)
        if not bool(q.valid):
            return Point(eta, m, np.zeros((0, 0)), -np.inf, gradient, None)
        elbo = float(value) + float(q.S)
        curvature = np.asarray(H) if order == 2 else None
        failed, reached, error = -1, None, None
        if self.rows is not None:
            sums = self.rows.evaluate(m, order, state)
            reached, error = sums.state, sums.error
            elbo, gradient, failed = elbo + sums.value, gradient + sums.gradient, sums.failed
            if curvature is not None:
                curvature = curvature + sums.curvature
        if failed >= 0 or not (np.isfinite(elbo) and np.isfinite(gradient).all()):
            elbo = -np.inf
        factors = {k: np.asarray(c) for k, c in q.C.items()}
        alpha = self.problem.alpha
        step = float(np.linalg.norm(alpha.whiten(factors, stationarity(eta, gradient))))
        C = alpha.dense(factors) if order == 2 else np.zeros((0, 0))
        return Point(eta, m, C, elbo, gradient, curvature, failed, step, reached, error, factors)
