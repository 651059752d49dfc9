"""The Gaussian factor behind the seam: the four questions about the moments m of the precisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...numerics.second_differences import STEP, around, first_differences, second_differences
from ...statement.problem import Problem
from ..seam import CollapsedSums, Densities, LocalResponse
from .arrow import Blocks
from .best_gaussian import BestGaussian, NoOptimum, NoResponse, RowsGiven, Tangent
from .functionals import CoefficientResponse, Functionals
from .layout import Layout
from .least_squares import LOG_2PI, LeastSquares
from .precisions import Precisions


class Tangents(NamedTuple):
    """The tangents, at m and a pull (p,), of every flat coordinate that the factor depends on."""

    m: np.ndarray
    pull: np.ndarray
    steps: list[tuple[int, Tangent]]


class BlockState(NamedTuple):
    """The best Gaussian at m and a pull (p,), and the last tangents known, of this or an earlier place."""

    m: np.ndarray
    pull: np.ndarray
    best: BestGaussian
    tangents: Tangents | None = None


class BlockSum:
    """max over q(w) of what contains w, as a function of the precisions' moments m.

    `rows` are `LeastSquares` for a Gaussian response, else `Reweighted`. β has prior mean `center` and
    precision P0 (held by `precisions`), whose log normaliser is `constant`. `pull` (p,) tilts the log
    joint by pullᵀβ; values leave that out. `gap` knows what the best Gaussian leaves out at a state, of
    rows that are not gaussian. Best Gaussians are found to `tol`, as `RowsGiven.solve` has it.
    """

    def __init__(
        self,
        rows: RowsGiven,
        precisions: Precisions,
        center: np.ndarray,
        constant: float,
        pull: np.ndarray | None = None,
        gap: Callable[[BlockSum, BlockState], float] | None = None,
        tol: float | None = None,
    ):
        self.rows, self.precisions, self.constant = rows, precisions, constant
        self.gap, self.tol = gap, tol
        self.layout: Layout = rows.layout
        self.center, self.pull = self.layout.zeros(), self.layout.zeros()
        self.center.rest[: self.layout.p] = center
        if pull is not None:
            self.pull.rest[: self.layout.p] = pull

    def pulled(self, pull: np.ndarray) -> BlockSum:
        """The same with the log joint tilted by pullᵀβ."""
        return self._with(pull=pull)

    def with_gap(self, gap: Callable[[BlockSum, BlockState], float]) -> BlockSum:
        """The same, whose second order is known."""
        return self._with(gap=gap)

    def within(self, tol: float) -> BlockSum:
        """The same, its best Gaussians to a tolerance."""
        return self._with(tol=tol)

    def _with(self, **changed: Any) -> BlockSum:
        p = self.layout.p
        kept = {"pull": self.pull.rest[:p], "gap": self.gap, "tol": self.tol}
        center = self.center.rest[:p]
        return BlockSum(self.rows, self.precisions, center, self.constant, **kept | changed)

    @property
    def joint(self) -> bool:
        """Whether all coefficients share one factor."""
        return self.rows.masks is None

    def bind(self, problem: Problem, chunk_size: int | None = None) -> BlockSum:
        """Itself: it knows its rows."""
        return self

    def evaluate(
        self, m: np.ndarray, order: int = 2, state: BlockState | None = None
    ) -> CollapsedSums:
        """Value and gradient, and with `order=2` the curvature."""
        size = len(m)
        try:
            state = self.collapse(m, state)
            curvature = None
            if order == 2:
                state = self._with_tangents(state)
                curvature = self._curvature(state)
        except (NoOptimum, NoResponse) as error:  # a rejected step, unless it is where a fit begins
            gradient = np.full(size, np.nan)
            return CollapsedSums(-np.inf, gradient, np.zeros((size, size)), error=error)
        precisions, layout, best = self.precisions, self.layout, state.best
        S = [self._second_moments(t, best) for t in range(len(precisions.terms))]
        gradient = np.zeros(size)
        for d in precisions.directions:
            gradient[d.at] = -0.5 * np.sum(d.basis * S[d.term])
        for at, multiplier in precisions.logdets:
            gradient[at] = multiplier
        if precisions.scale is not None:
            gradient[precisions.scale] = best.scale
        p = layout.p
        away = best.mu.rest[:p] - self.center.rest[:p]
        beta = away @ precisions.P0 @ away + np.sum(precisions.P0 * best.Sigma.blocks.Zrr[:p, :p])
        coefficients = layout.size - p
        value = (
            best.value
            + sum(m[at] * multiplier for at, multiplier in precisions.logdets)
            + sum(m[d.at] * gradient[d.at] for d in precisions.directions)
            - 0.5 * coefficients * LOG_2PI
            - 0.5 * beta
            + self.constant
            + 0.5 * layout.size * (1 + LOG_2PI)
            - 0.5 * best.Sigma.logdet
        )
        return CollapsedSums(float(value), gradient, curvature, state=state)

    def respond(
        self, m: np.ndarray, asked: Functionals | None = None, state: BlockState | None = None
    ) -> Iterator[LocalResponse]:
        """The functionals asked for and their response; those of the fitted rows by default."""
        asked = Functionals(self.layout.incidence) if asked is None else asked
        yield self.coefficients(m, state).of(asked)

    def density(self, points: np.ndarray, gradient: bool = False) -> Densities:
        """Values, and gradients where asked for, at many m (S, a): one optimum after another."""
        sums = [self.evaluate(m, 1) for m in points]
        slope = np.stack([s.gradient for s in sums]) if gradient else None
        return Densities(np.array([s.value for s in sums]), slope)

    def bends(
        self, m: np.ndarray, R: np.ndarray, state: BlockState | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """By differences of gradients and gaps at two points for each coordinate that moves the factor."""
        moving = self.precisions.moving
        columns = np.zeros((len(m), len(moving)))
        columns[moving] = root = np.linalg.cholesky(R[moving] @ R[moving].T)
        near = [self.evaluate(point, 1, state) for point in around(m, columns)]
        gaps = [np.nan if at.state is None else self.gap_at(at.state) for at in near]
        slope = np.linalg.solve(root.T, first_differences(np.array(gaps)))
        return second_differences(np.stack([at.gradient for at in near])), R[moving].T @ slope

    def gaps(self, points: np.ndarray) -> np.ndarray:
        """One optimum after another."""
        return self._gaps(points)

    def _gaps(self, points: np.ndarray, state: BlockState | None = None) -> np.ndarray:
        return np.array([self.gap_at(self.collapse(m, state)) for m in points])

    def gap_at(self, state: BlockState) -> float:
        """½ log |M| − ½ log |Σ| of a gaussian response: what separate factors leave out; else by `gap`."""
        if isinstance(self.rows, LeastSquares):
            return 0.5 * (state.best.Sigma.logdet - state.best.M.logdet)
        assert self.gap is not None
        return self.gap(self, state)

    def tilted_value(self, state: BlockState) -> float:
        """The value at a state, with the tilt."""
        return self.evaluate(state.m, 1, state).value + self.pull.dot(state.best.mu)

    def gap_bends(
        self, m: np.ndarray, velocity: np.ndarray, turn: np.ndarray, state: Any = None
    ) -> np.ndarray:
        """By second differences."""
        bow = 0.5 * STEP**2 * turn
        ends = [m + bow + STEP * velocity, m + bow - STEP * velocity, m[None]]
        values = self._gaps(np.concatenate(ends), state)
        k = len(velocity)
        return (values[:k] - 2 * values[-1] + values[k:-1]) / STEP**2

    def coefficients(self, m: np.ndarray, state: BlockState | None = None) -> CoefficientResponse:
        """The response of w itself, from which every functional's follows."""
        state = self._with_tangents(self.collapse(m, state))
        assert state.tangents is not None
        best, fixed = state.best, []
        for j in range(self.layout.p):
            b = self.layout.zeros()
            b.rest[j] = 1.0
            fixed.append(self.rows.tangent(best, b, None, 0.0).mu)
        return CoefficientResponse(
            mu=best.mu,
            V=best.Sigma.blocks,
            Sigma=self.conditional(state),
            fixed=tuple(fixed),
            R={at: step.mu for at, step in state.tangents.steps},
            size=len(m),
        )

    def conditional(self, state: BlockState) -> Blocks:
        """Σ̂_w|α in the blocks that rows touch."""
        return self.rows.conditional(state.best, self.precisions.prior(state.m))

    def collapse(self, m: np.ndarray, state: BlockState | None = None) -> BlockState:
        """The best Gaussian at m; a state at m has it, and from one nearby the search starts.

        It starts where the tangents at the other m say, if they are known there.
        """
        if state is None:
            return self.begun(m, None)
        if self._is_at(state, m):
            return state
        return self.begun(m, self.ahead(state, m))._replace(tangents=state.tangents)

    def ahead(self, state: BlockState, m: np.ndarray) -> BestGaussian:
        """Where the best Gaussian may be at m, by the tangents of a state nearby where it has them."""
        if state.tangents is None or not np.array_equal(state.tangents.m, state.m):
            return state.best
        steps = [(float(m[at] - state.m[at]), step) for at, step in state.tangents.steps]
        return self.rows.extrapolate(state.best, steps)  # type: ignore[no-any-return]

    def begun(self, m: np.ndarray, start: BestGaussian | None) -> BlockState:
        """The best Gaussian at m, from a start."""
        prior, s = self.precisions.prior(m), self.precisions.s(m)
        best = self.rows.solve(prior, prior.times(self.center) + self.pull, s, start, self.tol)
        return BlockState(np.array(m), self.pull.rest[: self.layout.p], best)

    def _is_at(self, known: BlockState | Tangents, m: np.ndarray) -> bool:
        """Whether that is known of this m, under this tilt."""
        pull = self.pull.rest[: self.layout.p]
        return np.array_equal(known.m, m) and np.array_equal(known.pull, pull)

    def _with_tangents(self, state: BlockState) -> BlockState:
        """The state with the tangents at its own m; those of an earlier one are a first guess."""
        known = state.tangents
        if known is not None and self._is_at(known, state.m):
            return state
        best, precisions, steps = state.best, self.precisions, []
        guesses = {} if known is None else {at: step.v for at, step in known.steps}
        away = best.mu - self.center
        for d in precisions.directions:
            change = precisions.change(d)
            b = change.times(away).times(-1.0)
            steps.append((d.at, self.rows.tangent(best, b, change, 0.0, guesses.get(d.at))))
        if precisions.scale is not None:
            at = precisions.scale
            zeros = self.layout.zeros()
            steps.append((at, self.rows.tangent(best, zeros, None, 1.0, guesses.get(at))))
        return state._replace(tangents=Tangents(state.m, state.pull, steps))

    def _curvature(self, state: BlockState) -> np.ndarray:
        precisions, mu, size = self.precisions, state.best.mu, len(state.m)
        assert state.tangents is not None
        H = np.zeros((size, size))
        for at, step in state.tangents.steps:
            for d in precisions.directions:
                z, dz = precisions.means(d.term, mu), precisions.means(d.term, step.mu)
                dS = precisions.covariances(d.term, step.blocks).sum(axis=0) + z.T @ dz + dz.T @ z
                H[d.at, at] = -0.5 * np.sum(d.basis * dS)
            if precisions.scale is not None:
                H[precisions.scale, at] = step.scale
        return (H + H.T) / 2

    def _second_moments(self, t: int, best: BestGaussian) -> np.ndarray:
        """Σ_k E[z_k z_kᵀ] of a term."""
        z = self.precisions.means(t, best.mu)
        return z.T @ z + self.precisions.covariances(t, best.Sigma.blocks).sum(axis=0)
