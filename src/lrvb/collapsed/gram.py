"""Row sums by weighted Gram matrices, for terms linear in z and in features φ of the row.

If ℓ(m, z, φ) = Σ_k z_k A_k(m)·φ, then everything of size N enters through η_nk = A_k·φ_n, the sums
S_k = Σ_n z_nk φ_n and the Gram matrices G_kl = Σ_n V_n,kl φ_nφ_nᵀ, so that
H̃ = ∂²⟨A, S⟩/∂m² + Σ_kl J_kᵀ G_kl J_l with J = ∂A/∂m. The coefficients A are the derivative of the
model's own local term at unit features: no Hessian is written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidModel
from ..numerics.double import in_double
from ..statement.problem import Problem
from .autodiff import AutodiffSum
from .bilinear import require_bilinear, width_of
from .chunks import chunk_length, chunks, point_chunks
from .gram_bend import bend_program, spread_program, third_program
from .gram_programs import (
    assembly_program,
    coefficient_program,
    coefficients_program,
    gram_program,
    point_program,
    pullback_program,
)
from .gram_turns import along_program, curvature_program, thirds_program, turns_program
from .seam import BoundSum, CollapsedSums, Densities, LocalResponse
from .turning import Directions, autodiff_turns


@dataclass(frozen=True)
class GramSum:
    """Row sums at the speed of a matrix product; the model must declare `features`."""

    @in_double
    def bind(self, problem: Problem, chunk_size: int | None = None) -> BoundSum:
        """The sum over this problem's rows."""
        model = type(problem.model).__name__
        if problem.model.features is None or not problem.structure.conjugate:
            raise InvalidModel(
                f"{model} is not linear in its local variables and in features of the row; "
                "leave local_sum to its default."
            )
        require_bilinear(problem)
        width = width_of(problem.structure)
        return _GramBound(problem, chunk_length(problem, chunk_size, 3 * width), chunk_size)


class _GramBound:
    def __init__(self, problem: Problem, size: int, chunk_size: int | None = None):
        self.problem, self.size, self.chunk_size = problem, size, chunk_size
        self._kept = list(chunks(problem, size)) if problem.n <= size else None

    def evaluate(self, m: np.ndarray, order: int = 2, state: Any = None) -> CollapsedSums:
        problem, structure = self.problem, self.problem.structure
        A = coefficient_program(structure)(problem.traced, m)
        program = gram_program(structure, order)
        value, failed, first = 0.0, -1, 0
        S: Any = 0.0
        G: Any = 0.0
        for chunk in self._kept or chunks(problem, self.size):
            v, s, g, bad = program(problem.traced, A, chunk.columns, chunk.weights)
            value, S, G = value + float(v), S + np.asarray(s), G + np.asarray(g)
            if failed < 0 <= int(bad):
                failed = first + int(bad)
            first += chunk.n
        gradient, H = assembly_program(structure, order)(problem.traced, m, S, G)
        curvature = np.asarray(H) if order == 2 else None
        return CollapsedSums(value, np.asarray(gradient), curvature, failed)

    def respond(
        self, m: np.ndarray, asked: np.ndarray | None = None, state: Any = None
    ) -> Iterator[LocalResponse]:
        return AutodiffSum().bind(self.problem).respond(m, asked)

    def density(self, points: np.ndarray, gradient: bool = False) -> Densities:
        problem, structure = self.problem, self.problem.structure
        value = np.zeros(len(points))
        slope = np.zeros(points.shape if gradient else (0, points.shape[1]))
        program = point_program(structure, gradient)
        rows = min(self.size, problem.n)
        for here, part in point_chunks(points, rows):
            A = coefficients_program(structure)(problem.traced, part)
            v, S = np.zeros(len(part)), np.zeros(A.shape)
            for chunk in self._kept or chunks(problem, self.size):
                values, sums = program(problem.traced, A, chunk.columns, chunk.weights)
                v += np.asarray(values)
                if gradient:
                    S += np.asarray(sums)
            n = here.stop - here.start
            value[here] = v[:n]
            if gradient:
                pulled = pullback_program(structure)(problem.traced, part, S)
                slope[here] = np.asarray(pulled)[:n]
        return Densities(value, slope if gradient else None)

    def bend(self, m: np.ndarray, R: np.ndarray, state: Any = None) -> np.ndarray:
        problem, structure = self.problem, self.problem.structure
        A = coefficient_program(structure)(problem.traced, m)
        M = spread_program(structure)(problem.traced, m, R)
        sums = self._with_thirds(A, third_program(structure), M)
        return np.asarray(bend_program(structure)(problem.traced, m, R, *sums))

    def bends(
        self, m: np.ndarray, R: np.ndarray, state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.bend(m, R, state), self.gap_slope(m, R, state)

    def turns(self, m: np.ndarray, S: np.ndarray, moved: Directions) -> np.ndarray:
        problem, structure = self.problem, self.problem.structure
        if moved:  # numbers that rows read may move features as well as coefficients
            return autodiff_turns(problem, self.chunk_size, m, S, moved)
        A = coefficient_program(structure)(problem.traced, m)
        along = along_program(structure)(problem.traced, m, S)
        sums = self._with_thirds(A, thirds_program(structure), along)
        return np.asarray(turns_program(structure)(problem.traced, m, S, *sums))

    def curvatures(self, m: np.ndarray, S: np.ndarray) -> Iterator[np.ndarray]:
        problem = self.problem
        program = curvature_program(problem.structure)
        for chunk in self._kept or chunks(problem, self.size):
            yield np.asarray(program(problem.traced, m, S, chunk.columns))[: chunk.n]

    def _with_thirds(self, A: Any, thirds: Callable[..., Any], along: Any) -> tuple[Any, Any, Any]:
        """Sums over all rows of features, of their products, and of third moments along directions."""
        problem = self.problem
        S: Any = 0.0
        G: Any = 0.0
        D: Any = 0.0
        for chunk in self._kept or chunks(problem, self.size):
            rows = (chunk.columns, chunk.weights)
            _, s, g, _ = gram_program(problem.structure, 2)(problem.traced, A, *rows)
            S, G = S + np.asarray(s), G + np.asarray(g)
            D = D + np.asarray(thirds(problem.traced, A, along, *rows))
        return S, G, D

    def gaps(self, points: np.ndarray) -> np.ndarray:
        return np.zeros(len(points))  # linear in z

    def gap_slope(self, m: np.ndarray, R: np.ndarray, state: Any = None) -> np.ndarray:
        return np.zeros(R.shape[1])

    def gap_bends(
        self, m: np.ndarray, velocity: np.ndarray, turn: np.ndarray, state: Any = None
    ) -> np.ndarray:
        return np.zeros(len(velocity))
