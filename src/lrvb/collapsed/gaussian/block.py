"""The Gaussian factor behind the seam: its collapsed value, gradient and curvature in m."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...statement.problem import Problem
from ..seam import LocalResponse, RowSums
from .arrow import Blocks, Prior
from .incidence import Vector
from .layout import Layout
from .least_squares import LOG_2PI, LeastSquares
from .optimum import NoOptimum, Setting, State, optimum
from .precisions import Precisions
from .tangents import Tangent, tangent

_TOL = 1e-10  # of the inner optimum, relative in variances and in sds of means


class Collapsed(NamedTuple):
    """The inner optimum at m: means, Σ's blocks, Σ_n ℓ, Σ_n ∂ℓ/∂s, and what tangents need."""

    m: np.ndarray
    mu: Vector
    blocks: Blocks
    logdet: float
    value: float
    scale: float
    inner: Any


class BlockSum:
    """max over q(w) of what contains w, as a function of the precisions' moments m.

    `setting` holds rows for an iterated optimum, or `LeastSquares` for a Gaussian response. β has
    prior mean `center` and precision P0 (held by `precisions`), whose log normaliser is `constant`.
    """

    def __init__(
        self,
        setting: Setting | LeastSquares,
        precisions: Precisions,
        center: np.ndarray,
        constant: float,
    ):
        self.setting, self.precisions, self.constant = setting, precisions, constant
        self.layout: Layout = setting.layout
        self.center = self.layout.zeros()
        self.center.rest[: self.layout.p] = center
        self.last: Collapsed | None = None
        self._known: tuple[np.ndarray, list[tuple[int, Tangent]]] | None = None  # m, tangents there

    def bind(self, problem: Problem, chunk_size: int | None = None) -> BlockSum:
        """Itself: it knows its rows."""
        return self

    def respond(self, m: np.ndarray, rows: np.ndarray | None = None) -> Iterator[LocalResponse]:
        """The coefficients are no rows of a plate: see `tilts` and `responses`."""
        raise NotImplementedError

    def collapse(self, m: np.ndarray) -> Collapsed:
        """The best Gaussian factor at m, starting from the last one."""
        if self.last is not None and np.array_equal(self.last.m, m):
            return self.last
        prior, s = self.precisions.prior(m), self.precisions.s(m)
        if isinstance(self.setting, LeastSquares):
            solution = self.setting.solve(prior, self.center, s)
            blocks, logdet = solution.Sigma.blocks, solution.Sigma.logdet
            value, scale = self.setting.value(solution, s), -0.5 * solution.square
            self.last = Collapsed(m, solution.mu, blocks, logdet, value, scale, solution)
            return self.last
        start = None if self.last is None else self._extrapolated(self.last, m)
        state = optimum(self.setting, prior, self.center, s, start, _TOL)
        scale = float(state.terms.s.sum())
        value, logdet = state.value, state.Sigma.logdet
        self.last = Collapsed(m, state.mu, state.Sigma.blocks, logdet, value, scale, state)
        return self.last

    def remembered(self) -> Any:
        """The last optimum and its tangents, for `recall` after an excursion."""
        return self.last, self._known

    def recall(self, remembered: Any) -> None:
        """Be again where `remembered` was taken."""
        self.last, self._known = remembered

    def evaluate(self, m: np.ndarray, order: int = 2) -> RowSums:
        """Value and gradient, and with `order=2` the curvature."""
        m = np.array(m)
        size = len(m)
        try:
            found = self.collapse(m)
            curvature = self._curvature(found, size) if order == 2 else None
        except NoOptimum:
            return RowSums(-np.inf, np.full(size, np.nan), np.zeros((size, size)), -1)
        where, layout = self.precisions, self.layout
        S = [self._second_moments(t, found) for t in range(len(where.terms))]
        gradient = np.zeros(size)
        for d in where.directions:
            gradient[d.at] = -0.5 * np.sum(d.basis * S[d.term])
        for at, multiplier in where.logdets:
            gradient[at] = multiplier
        if where.scale is not None:
            gradient[where.scale] = found.scale
        p = layout.p
        away = found.mu.rest[:p] - self.center.rest[:p]
        beta = away @ where.P0 @ away + np.sum(where.P0 * found.blocks.Zrr[:p, :p])
        coefficients = layout.size - p
        value = (
            found.value
            + sum(m[at] * multiplier for at, multiplier in where.logdets)
            + sum(m[d.at] * gradient[d.at] for d in where.directions)
            - 0.5 * coefficients * LOG_2PI
            - 0.5 * beta
            + self.constant
            + 0.5 * layout.size * (1 + LOG_2PI)
            - 0.5 * found.logdet
        )
        return RowSums(float(value), gradient, curvature, -1)

    def tilts(self, m: np.ndarray, at: np.ndarray) -> list[Vector]:
        """Cov(w, w_i) given the precisions, for positions i among the rest (β first)."""
        found, result = self.collapse(m), []
        for i in at:
            b = self.layout.zeros()
            b.rest[i] = 1.0
            result.append(self._tangent(found, b, None, 0.0).mu)
        return result

    def responses(self, m: np.ndarray) -> dict[int, Vector]:
        """∂μ/∂m by flat coordinate: how the means follow the precisions."""
        found = self.collapse(m)
        return {at: step.mu for at, step in self._steps(found)}

    def _extrapolated(self, last: Collapsed, m: np.ndarray) -> State:
        """Where the factor will be at m, as far as the tangents at the last m can tell."""
        state: State = last.inner
        if self._known is None or not np.array_equal(self._known[0], last.m):
            return state
        mu, relative = state.mu, np.zeros(self.layout.n)
        for at, step in self._known[1]:
            assert step.v is not None
            mu = mu + step.mu.times(m[at] - last.m[at])
            relative += (m[at] - last.m[at]) * step.v / state.v
        if np.abs(relative).max() > 1:  # too far for a straight line
            return state
        return state._replace(mu=mu, v=state.v * np.exp(relative))

    def _steps(self, found: Collapsed) -> list[tuple[int, Tangent]]:
        """The tangent of every coordinate of m that the factor depends on."""
        if self._known is not None and np.array_equal(self._known[0], found.m):
            return self._known[1]
        where, steps = self.precisions, []
        nearby = {} if self._known is None else {at: step.v for at, step in self._known[1]}
        away = found.mu - self.center
        for d in where.directions:
            change = where.change(d)
            b = change.times(away).times(-1.0)
            steps.append((d.at, self._tangent(found, b, change, 0.0, nearby.get(d.at))))
        if where.scale is not None:
            guess = nearby.get(where.scale)
            step = self._tangent(found, self.layout.zeros(), None, 1.0, guess)
            steps.append((where.scale, step))
        self._known = (found.m, steps)
        return steps

    def _tangent(
        self,
        found: Collapsed,
        b: Vector,
        change: Prior | None,
        ds: float,
        guess: np.ndarray | None = None,
    ) -> Tangent:
        if isinstance(self.setting, LeastSquares):
            return self.setting.tangent(found.inner, b, change, ds)
        return tangent(self.setting, found.inner, b, change, ds, guess)

    def _curvature(self, found: Collapsed, size: int) -> np.ndarray:
        where, H = self.precisions, np.zeros((size, size))
        for at, step in self._steps(found):
            for d in where.directions:
                z, dz = where.means(d.term, found.mu), where.means(d.term, step.mu)
                dS = where.covariances(d.term, step.blocks).sum(axis=0) + z.T @ dz + dz.T @ z
                H[d.at, at] = -0.5 * np.sum(d.basis * dS)
            if where.scale is not None:
                H[where.scale, at] = step.scale
        return (H + H.T) / 2

    def _second_moments(self, t: int, found: Collapsed) -> np.ndarray:
        """Σ_k E[z_k z_kᵀ] of a term."""
        z = self.precisions.means(t, found.mu)
        return z.T @ z + self.precisions.covariances(t, found.blocks).sum(axis=0)
