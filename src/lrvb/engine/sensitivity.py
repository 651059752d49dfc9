"""What if: scores and curvatures of rows, steps and fits without some of them.

At the optimum η = ∂L̄/∂m. Where L̄ depends on ε as well, dm*/dε = Σ̂ ∂²L̄/∂m∂ε: the factorisation that gave
Σ̂ answers for every ε. Of a row's weight the mixed derivative is the row's score g_n = ∂ℓ̄_n/∂m; of numbers
of the model see `engine.numbers`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ..collapsed.chunks import chunk_length, chunks, point_chunks
from ..collapsed.partitions import PartitionedSum, require_unchanged
from ..collapsed.row_programs import (
    no_starts,
    row_density_program,
    row_sum_program,
    score_program,
)
from ..data.tables import Rows
from ..errors import InvalidModel, NotConverged
from ..numerics.double import in_double
from ..statement.programs import valid_means_program
from .fitting import Fit, default_sum, fit
from .newton import curved, trust_region_step
from .objective import Objective
from .response import Response

Numbers = Mapping[str, np.ndarray]
T = TypeVar("T")
_STEPS = 6  # of Newton's, each half as long as the last at most


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


def map_parts(fit: Fit, function: Callable[[Fit], T]) -> Iterator[T]:
    """function of the fit with the rows of each part alone, in memory, computed where the part is."""
    if fit.problem.total is None:
        yield function(fit)
        return
    over = fit.local_sum
    assert isinstance(over, PartitionedSum)
    bare = replace(fit.problem, rows=None, total=None, data=None)
    alone = replace(fit, problem=bare, local_sum=over.inner)
    visit = functools.partial(_of_part, over.marks, alone, function)
    for found in over.parts.map(visit):
        if found is not None:
            yield found


def _of_part(
    marks: tuple[int, ...], fit: Fit, function: Callable[[Fit], T], number: int, rows: Rows | None
) -> T | None:
    require_unchanged(marks, number, rows)
    if rows is None:
        return None
    return function(replace(fit, problem=replace(fit.problem, rows=rows)))


def gathered(fit: Fit, rows: np.ndarray) -> Fit:
    """The fit with some of its rows alone, in this order; those in parts elsewhere are fetched."""
    problem = fit.problem
    if problem.total is None:
        return replace(fit, problem=replace(problem, rows=_taken(require_rows(fit), rows)))
    over = fit.local_sum
    assert isinstance(over, PartitionedSum)
    order = np.argsort(rows, kind="stable")
    ends = np.cumsum((0, *over.lengths))
    cuts = np.searchsorted(rows[order], ends[1:-1])
    wanted = [part - ends[i] for i, part in enumerate(np.split(rows[order], cuts))]
    visit = functools.partial(_chosen, over.marks, wanted)
    found = [part for part in over.parts.map(visit) if part is not None]
    columns = {
        name: np.concatenate([np.asarray(part.columns[name]) for part in found])
        for name in found[0].columns
    }
    weights = np.concatenate([_weights(part) for part in found])
    here = _taken(Rows(columns, weights=weights), np.argsort(order, kind="stable"))
    return replace(
        fit, problem=replace(problem, rows=here, total=None, data=None), local_sum=over.inner
    )


def _chosen(
    marks: tuple[int, ...], wanted: Sequence[np.ndarray], number: int, rows: Rows | None
) -> Rows | None:
    require_unchanged(marks, number, rows)
    return None if rows is None or not len(wanted[number]) else _taken(rows, wanted[number])


def _taken(rows: Rows, at: np.ndarray) -> Rows:
    columns = {name: np.asarray(column)[at] for name, column in rows.columns.items()}
    return Rows(columns, weights=_weights(rows)[at])


def _weights(rows: Rows) -> np.ndarray:
    return np.ones(rows.n) if rows.weights is None else np.asarray(rows.weights, dtype=np.float64)


@in_double
def row_scores(
    fit: Fit, rows: np.ndarray | None = None, m: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """g_n = ∂ℓ̄_n/∂m (n, a) at the optimum, or at m, chunk by chunk, without the rows' weights."""
    require_rows(fit)
    problem = fit.problem
    program = score_program(problem.structure)
    for chunk in chunks(problem, _length(fit), rows):
        here = fit.m if m is None else m
        yield np.asarray(program(problem.traced, here, chunk.columns))[: chunk.n]


@in_double
def row_curvature(fit: Fit, rows: np.ndarray) -> np.ndarray:
    """The sum (a, a) of H̃_n over some rows, with their weights."""
    require_rows(fit)
    problem = fit.problem
    program = row_sum_program(problem.structure, 2)
    total = np.zeros((problem.alpha.size,) * 2)
    for chunk in chunks(problem, _length(fit), rows):
        starts = no_starts(problem.structure, len(chunk.weights))
        found = program(problem.traced, fit.m, chunk.columns, chunk.weights, starts)
        total += np.asarray(found[2])
    return total


def without(response: Response, score: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """η (a,) one Newton step of the fixed point away, when rows of this score and curvature are left out.

    δη = −g_n + (H̃ − H̃_n)δm with δm = −(Σ̂⁻¹ + H̃_n)⁻¹g_n. Its means are nearer to the refit's than m* + δm: a
    conjugate update is linear in η, however much a row weighs.
    """
    return np.asarray(response.eta + newton_change(response, -score, curvature))


@in_double
def settled(fit: Fit, weights: np.ndarray, eta: np.ndarray, enough: float) -> np.ndarray | None:
    """m with other weights of the rows, by exact Newton steps from an η foretold; None where they fail.

    Each is one pass over all rows. They end with one of at most `enough` sds, after which the square of that
    is left; they fail where a point has no value or is below no maximum, or steps do not halve.
    """
    problem = fit.problem
    problem = replace(problem, rows=replace(require_rows(fit), weights=weights))
    objective = Objective(problem, _strategy(fit).bind(problem, fit.chunk_size))
    radius, last = np.sqrt(problem.alpha.size), np.inf
    for _ in range(_STEPS):
        point = objective.at(eta, state=fit.point.state)
        if point.H is None or not np.isfinite(point.elbo):
            return None
        model = curved(point.residual, point.C, point.H)
        length = model.decrement  # inf where there is no maximum
        if not length < last / 2:
            return None
        eta, last = eta + trust_region_step(model, radius).delta, length
        if length <= enough:
            m = means_at(fit, eta[None])[0]
            return m if np.isfinite(m).all() else None
    return None


def newton_change(response: Response, residual: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """δη = r + (H̃ − H̃_n)δm with δm = (Σ̂⁻¹ + H̃_n)⁻¹r: towards ∂L̄₋ₙ/∂m = η where r is what is left of it."""
    Sigma = response.Sigma
    dm = np.linalg.solve(np.eye(len(residual)) + Sigma @ curvature, Sigma @ residual)
    assert response.fit.curved is not None
    return np.asarray(residual + (response.fit.curved.H - curvature) @ dm)


@in_double
def means_at(fit: Fit, etas: np.ndarray) -> np.ndarray:
    """m (S, a) at natural parameters (S, a); NaN where those are outside the domain."""
    means, valid = valid_means_program(fit.problem.structure)(etas)
    return np.where(np.asarray(valid)[:, None], np.asarray(means), np.nan)


@in_double
def row_densities(
    fit: Fit, points: np.ndarray, rows: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """log ∫ p(x_n, z | α) dz (S, n) at points m = T(α) (S, a), chunk by chunk of the rows.

    At any other m it is ℓ̄_n(m), the row's term and entropy at their best q(z).
    """
    require_rows(fit)
    problem = fit.problem
    program = row_density_program(problem.structure)
    for chunk in chunks(problem, _length(fit), rows):
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
            "The rows of this fit are in parts elsewhere; fits without some of them need rows in memory. "
            "Fit a part of them, or ask for influence, robust sds and loo, which visit the parts."
        )
    return rows


def _strategy(fit: Fit) -> Any:
    return fit.local_sum if fit.local_sum is not None else default_sum(fit.problem)


def _length(fit: Fit) -> int:
    problem = fit.problem
    width = problem.alpha.size * (problem.local.size + 2) + 64
    return chunk_length(problem, fit.chunk_size, width)
