"""Row sums by differentiating the model's own local term, row by row and chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidModel
from ..families import Normal
from ..numerics.second_differences import around, second_differences
from ..statement.problem import Problem
from ..statement.structure import Structure
from .chunks import chunk_length, chunks, point_chunks
from .gaps import gap_bend_program, gap_program, gap_slope_program, row_bend_program
from .row_optimum import is_searched
from .row_programs import (
    bend_program,
    density_program,
    no_starts,
    product_program,
    response_program,
    row_sum_program,
)
from .seam import SMALL, BoundSum, CollapsedSums, Densities, LocalResponse
from .turning import CUBIC, Directions, autodiff_curvatures, autodiff_turns

#: Global coordinates beyond which no a × a matrix is formed: H̃ is multiplied, never held.
WIDE_GLOBAL = 3000
_REMEMBERED = 10**6  # rows whose optima are kept with a point, to start from nearby: 16 MB
_FEW = 64  # points whose values are found one by one, by the programs of the fit


@dataclass(frozen=True)
class AutodiffSum:
    """Row sums by differentiating the model's local term: always right, for any model."""

    def bind(self, problem: Problem, chunk_size: int | None = None) -> BoundSum:
        """The sum over this problem's rows."""
        a, d = problem.alpha.size, problem.local.size
        width = max(a * (d + 2) if a <= WIDE_GLOBAL else 0, d * d) + 64
        return _ChunkedSum(problem, chunk_length(problem, chunk_size, width), chunk_size)


class _ChunkedSum:
    def __init__(self, problem: Problem, size: int, chunk_size: int | None = None):
        self.problem, self.size, self.chunk_size = problem, size, chunk_size
        self._kept = list(chunks(problem, size)) if problem.n <= size else None

    def evaluate(self, m: np.ndarray, order: int = 2, state: Any = None) -> CollapsedSums:
        problem = self.problem
        program = row_sum_program(problem.structure, order)
        keeps = is_searched(problem.structure) and problem.n <= _REMEMBERED
        size = len(m) if order == 2 else 0
        value, gradient, curvature, failed = 0.0, np.zeros(len(m)), np.zeros((size, size)), -1
        first, reached = 0, []
        pending: list[Any] = []
        for i, chunk in enumerate(self._kept or chunks(problem, self.size)):
            starts = self._starts(state, i, len(chunk.weights))
            found = program(problem.traced, m, chunk.columns, chunk.weights, starts)
            pending.append((first, found))
            if keeps:
                reached.append(found[-1])
            first += chunk.n
            if len(pending) > 1:  # one chunk is prepared while another is computed
                value, gradient, curvature, failed = _add(
                    pending.pop(0), value, gradient, curvature, failed
                )
        for part in pending:
            value, gradient, curvature, failed = _add(part, value, gradient, curvature, failed)
        known = tuple(reached) if keeps else None
        return CollapsedSums(value, gradient, curvature if order == 2 else None, failed, known)

    def _starts(self, state: Any, i: int, n: int) -> np.ndarray:
        """Where the optima of a chunk's rows are searched from: those that `state` remembers, if any."""
        starts = no_starts(self.problem.structure, n)
        if state is not None and i < len(state) and state[i].shape == starts.shape:
            return state[i]  # of chunks of another length it is not known whose they are
        return starts

    def respond(
        self, m: np.ndarray, asked: np.ndarray | None = None, state: Any = None
    ) -> Iterator[LocalResponse]:
        program = response_program(self.problem.structure)
        for chunk in chunks(self.problem, self.size, asked):
            parts = program(self.problem.traced, m, chunk.columns)
            yield LocalResponse(*(np.asarray(part)[: chunk.n] for part in parts))

    def products(self, m: np.ndarray, v: np.ndarray) -> np.ndarray:
        """H̃v for several v (k, a), without H̃."""
        program = product_program(self.problem.structure)
        total = np.zeros(v.shape)
        for chunk in self._kept or chunks(self.problem, self.size):
            total += np.asarray(program(self.problem.traced, m, v, chunk.columns, chunk.weights))
        return total

    def density(self, points: np.ndarray, gradient: bool = False) -> Densities:
        program = density_program(self.problem.structure, gradient)
        value = np.zeros(len(points))
        slope = np.zeros(points.shape if gradient else (0, points.shape[1]))
        for chunk in self._kept or chunks(self.problem, self.size):
            for here, part in point_chunks(points, len(chunk.weights)):
                v, g = program(self.problem.traced, part, chunk.columns, chunk.weights)
                n = here.stop - here.start
                value[here] += np.asarray(v)[:n]
                if gradient:
                    slope[here] += np.asarray(g)[:n]
        if gradient:
            return Densities(value, slope)
        return Densities(self._completed(points, value))

    def _completed(self, points: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Values with those that are NaN found one by one, or where they are many with gradients."""
        left = np.flatnonzero(np.isnan(value))
        if len(left) > _FEW:
            value[left] = self.density(points[left], gradient=True).value
        else:
            order = 2 if points.shape[1] <= SMALL else 1  # as the fit has asked
            for i in left:
                sums = self.evaluate(points[i], order)
                value[i] = sums.value if sums.failed < 0 and np.isfinite(sums.value) else -np.inf
        return value

    def bend(self, m: np.ndarray, R: np.ndarray, state: Any = None) -> np.ndarray:
        structure = self.problem.structure
        if not structure.conjugate:
            return self._searched(row_bend_program(_one_normal(structure)), len(m), state, m, R)
        if structure.local.size > CUBIC:
            gradient = self.density(around(m, R), gradient=True).gradient
            assert gradient is not None
            return second_differences(gradient)
        return self._sum(bend_program(structure), len(m), m, R)

    def bends(
        self, m: np.ndarray, R: np.ndarray, state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.bend(m, R, state), self.gap_slope(m, R, state)

    def turns(self, m: np.ndarray, S: np.ndarray, moved: Directions) -> np.ndarray:
        return autodiff_turns(self.problem, self.chunk_size, m, S, moved)

    def curvatures(self, m: np.ndarray, S: np.ndarray) -> Iterator[np.ndarray]:
        return autodiff_curvatures(self.problem, self.chunk_size, m, S)

    def gaps(self, points: np.ndarray) -> np.ndarray:
        total, structure = np.zeros(len(points)), self.problem.structure
        if structure.conjugate:
            return total
        program = gap_program(_one_normal(structure))
        for chunk in self._kept or chunks(self.problem, self.size):
            alone = [(slice(0, 1), points)] if len(points) == 1 else None
            for here, part in alone or point_chunks(points, len(chunk.weights)):
                v = program(self.problem.traced, part, chunk.columns, chunk.weights)
                total[here] += np.asarray(v)[: here.stop - here.start]
        return total

    def gap_slope(self, m: np.ndarray, R: np.ndarray, state: Any = None) -> np.ndarray:
        structure = self.problem.structure
        if structure.conjugate:
            return np.zeros(R.shape[1])
        return self._searched(gap_slope_program(_one_normal(structure)), len(m), state, m) @ R

    def gap_bends(
        self, m: np.ndarray, velocity: np.ndarray, turn: np.ndarray, state: Any = None
    ) -> np.ndarray:
        structure = self.problem.structure
        if structure.conjugate:
            return np.zeros(len(velocity))
        program = gap_bend_program(_one_normal(structure))
        return self._searched(program, len(velocity), state, m, velocity, turn)

    def _searched(
        self, program: Callable[..., Any], size: int, state: Any, *given: np.ndarray
    ) -> np.ndarray:
        """The sum over the chunks of a program that searches for the rows' optima, near those of `state`."""

        def starts(i: int, n: int) -> tuple[np.ndarray]:
            return (self._starts(state, i, n),)

        return self._sum(program, size, *given, beside=starts)

    def _sum(
        self,
        program: Callable[..., Any],
        size: int,
        *given: np.ndarray,
        beside: Callable[[int, int], tuple[np.ndarray, ...]] = lambda i, n: (),
    ) -> np.ndarray:
        """The sum over the chunks of a program whose answer is a vector."""
        total = np.zeros(size)
        for i, chunk in enumerate(self._kept or chunks(self.problem, self.size)):
            rows = (chunk.columns, chunk.weights, *beside(i, len(chunk.weights)))
            total += np.asarray(program(self.problem.traced, *given, *rows))
        return total


def _one_normal(structure: Structure) -> Structure:
    """The structure, of which the second order knows what q(z) leaves out."""
    blocks = structure.local.blocks.values()
    if [type(f) for f in blocks] != [Normal] or structure.local.size > 2:
        raise InvalidModel(
            "The second order needs rows that are linear in their local variables, or that have "
            "one normal variable; this model's are neither."
        )
    return structure


def _add(part: Any, value: float, gradient: Any, curvature: Any, failed: int) -> Any:
    first, (v, g, h, bad, _) = part
    bad = int(bad)
    if bad >= 0 and failed < 0:
        failed = first + bad
    return value + float(v), gradient + np.asarray(g), curvature + np.asarray(h), failed
