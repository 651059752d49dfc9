"""What if: the optimum's derivative in any number of the log joint, and in the weight of any row.

At the optimum η = ∂L̄/∂m. Where L̄ depends on ε as well, dm*/dε = Σ̂ ∂²L̄/∂m∂ε: the factorisation that gave
Σ̂ answers for every ε. Of a row's weight the mixed derivative is the row's score g_n = ∂ℓ̄_n/∂m. See: R.
Giordano, T. Broderick and M. Jordan, "Covariances, robustness, and variational Bayes", JMLR 19 (2018).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..collapsed.autodiff import row_density_program, row_sum_program, score_program
from ..collapsed.chunks import chunk_length, chunks, point_chunks
from ..errors import InvalidModel, NotConverged
from ..numerics.algebra import linear_response
from ..numerics.double import in_double
from ..numerics.lazy import jax
from ..statement.programs import shared
from ..statement.structure import Structure
from ..statement.tracing import reads_number
from .fitting import Fit, default_sum, fit
from .objective import Objective
from .response import Response

#: The relative change of a number by which differences are taken: their error is its square.
STEP = 1e-4

Numbers = Mapping[str, np.ndarray]


@in_double
def number_score(fit: Fit, direction: Numbers) -> np.ndarray:
    """∂²L̄/∂m∂ε (a,) where ε moves the model's numbers along `direction`.

    The global term is differentiated; rows that read the number by central differences of ∂L̄/∂m,
    which lets their local variables follow.
    """
    problem = fit.problem
    moved = {k: np.asarray(d, dtype=np.float64) for k, d in direction.items() if np.any(d)}
    if not moved:
        return np.zeros(problem.alpha.size)
    program = _cross_program(problem.structure, tuple(sorted(moved)))
    score = np.asarray(program(problem.traced, fit.m, moved))
    if problem.rows is not None and any(reads_number(problem.structure, k) for k in moved):
        h = _step(problem.traced, moved)
        up, down = (_row_gradient(_with_numbers(fit, moved, s * h), fit.m) for s in (1, -1))
        score = score + (up - down) / (2 * h)
    return score


@in_double
def covariance_change(response: Response, direction: Numbers, dm: np.ndarray) -> np.ndarray:
    """dΣ̂/dε (a, a) along `direction`, m following by dm = dm*/dε: a central difference."""
    fit = response.fit
    deta = np.linalg.solve(response.C.T, np.linalg.solve(response.C, dm))  # V⁻¹dm
    moved = {k: np.asarray(d, dtype=np.float64) for k, d in direction.items() if np.any(d)}
    sds = float(np.sqrt(deta @ response.Sigma @ deta))
    h = min(_step(fit.problem.traced, moved), STEP / sds if sds > 0 else np.inf)
    ends = []
    for step in (h, -h):
        objective = _objective(_with_numbers(fit, moved, step))
        point = objective.at(fit.eta + step * deta)
        if not np.isfinite(point.elbo) or point.H is None:
            raise InvalidModel(
                "A hyperparameter cannot be moved by a ten-thousandth of its value: the fit lies at "
                "the edge of its domain."
            )
        ends.append(np.asarray(linear_response(point.C, point.H)))
    return (ends[0] - ends[1]) / (2 * h)


@in_double
def refit_with(fit: Fit, numbers: Numbers) -> Fit:
    """The optimum with other values of the model's numbers, from the old one."""
    return _refit(
        replace(fit, problem=replace(fit.problem, traced={**fit.problem.traced, **numbers}))
    )


@in_double
def refit_weighted(fit: Fit, weights: np.ndarray) -> Fit:
    """The optimum with other weights of the rows, from the old one."""
    rows = require_rows(fit)
    return _refit(replace(fit, problem=replace(fit.problem, rows=replace(rows, weights=weights))))


def _refit(changed: Fit) -> Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConverged)
        return fit(
            changed.problem,
            init=changed,
            chunk_size=changed.chunk_size,
            local_sum=_strategy(changed),
        )


@in_double
def row_scores(fit: Fit, rows: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """g_n = ∂ℓ̄_n/∂m (n, a) at the optimum, chunk by chunk, without the rows' weights."""
    require_rows(fit)
    problem = fit.problem
    program = score_program(problem.structure)
    for chunk in chunks(problem, _length(fit), rows):
        yield np.asarray(program(problem.traced, fit.m, chunk.columns))[: chunk.n]


@in_double
def row_curvature(fit: Fit, rows: np.ndarray) -> np.ndarray:
    """The sum (a, a) of H̃_n over some rows, with their weights."""
    require_rows(fit)
    problem = fit.problem
    program = row_sum_program(problem.structure, 2)
    total = np.zeros((problem.alpha.size,) * 2)
    for chunk in chunks(problem, _length(fit), rows):
        total += np.asarray(program(problem.traced, fit.m, chunk.columns, chunk.weights)[2])
    return total


def without(Sigma: np.ndarray, score: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """−(Σ̂⁻¹ + H̃_n)⁻¹g_n (a,): the Newton step of m when rows of this score and curvature are left out."""
    return -np.linalg.solve(np.eye(len(score)) + Sigma @ curvature, Sigma @ score)


@in_double
def row_densities(fit: Fit, points: np.ndarray) -> Iterator[np.ndarray]:
    """log ∫ p(x_n, z | α) dz (S, n) at points m = T(α) (S, a), chunk by chunk of the rows."""
    require_rows(fit)
    problem = fit.problem
    program = row_density_program(problem.structure)
    for chunk in chunks(problem, _length(fit)):
        parts = []
        for here, part in point_chunks(points, len(chunk.weights)):
            values = np.asarray(program(problem.traced, part, chunk.columns))
            parts.append(values[: here.stop - here.start, : chunk.n])
        yield np.concatenate(parts)


def require_rows(fit: Fit) -> Any:
    """The rows of a fit, which must be in memory."""
    rows = fit.problem.rows
    if rows is None:
        raise InvalidModel("This model has no rows, so that none can be left out.")
    if fit.problem.total is not None:
        raise InvalidModel(
            "The rows of this fit are in parts elsewhere; their influence is computed for rows in "
            "memory only. Fit a part of them, or prior_sensitivity, which needs no rows."
        )
    return rows


@shared
def _cross_program(structure: Structure, names: tuple[str, ...]) -> Callable[..., Any]:
    """(numbers, m, direction) → ∂/∂ε of the global term's gradient, ε along a direction of `names`."""

    def cross(numbers: Any, m: Any, direction: Any) -> Any:
        def gradient(moved: Any) -> Any:
            return jax.grad(functools.partial(structure.global_term, {**numbers, **moved}))(m)

        chosen = {name: numbers[name].astype(direction[name].dtype) for name in names}
        return jax.jvp(gradient, (chosen,), (direction,))[1]

    return cross


def _step(numbers: Numbers, direction: Numbers) -> float:
    """The length along a direction at which the number that moves most has changed by `STEP`."""
    return STEP * min(
        float(np.abs(numbers[k]).max() or 1.0) / float(np.abs(d).max())
        for k, d in direction.items()
    )


def _with_numbers(fit: Fit, direction: Numbers, step: float) -> Fit:
    moved = {k: fit.problem.traced[k] + step * d for k, d in direction.items()}
    return replace(fit, problem=replace(fit.problem, traced={**fit.problem.traced, **moved}))


def _row_gradient(fit: Fit, m: np.ndarray) -> np.ndarray:
    return _strategy(fit).bind(fit.problem, fit.chunk_size).evaluate(m, 1).gradient


def _objective(fit: Fit) -> Objective:
    rows = None
    if fit.problem.rows is not None:
        rows = _strategy(fit).bind(fit.problem, fit.chunk_size)
    return Objective(fit.problem, rows)


def _strategy(fit: Fit) -> Any:
    return fit.local_sum if fit.local_sum is not None else default_sum(fit.problem)


def _length(fit: Fit) -> int:
    problem = fit.problem
    width = problem.alpha.size * (problem.local.size + 2) + 64
    return chunk_length(problem, fit.chunk_size, width)
