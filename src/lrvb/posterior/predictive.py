"""What is asked of rows: functions of their variables, and data that the model might have made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..collapsed.autodiff import AutodiffSum
from ..collapsed.chunks import chunks
from ..collapsed.row_programs import natural_program
from ..data.tables import Row
from ..engine.response import Response
from ..errors import InvalidModel, LrvbError
from ..families import Tilted
from ..numerics.lazy import jax, jnp
from ..numerics.program import Program
from ..statement.expectation import Values
from ..statement.parameters import require_methods
from .locals import row_positions


def row_functions(response: Response, f: Callable[[Any, Any, Any], Any], rows: Any) -> np.ndarray:
    r"""Mean, linear-response sd and mean-field sd of f(m, z, row) for each row, (3, n, …).

    f is an expectation, written with the moments of global and of local variables. With J its
    derivatives, Var = J_zΣ̂_z|αJ_zᵀ + (J_zR + J_α)Σ̂(J_zR + J_α)ᵀ. See: eq:nuisance_lrvb_est
    """
    fit = response.fit
    problem, m = fit.problem, jnp.asarray(fit.m)
    if problem.rows is None:
        raise InvalidModel("The model has no rows, so there is no function of them to ask for.")
    alpha, local, structure = problem.alpha, problem.local, problem.structure

    def value(m: Any, z: Any, columns: Any) -> Any:
        row = structure.row(columns)
        return jnp.asarray(f(alpha.moments(m), local.moments(z), row), dtype=jnp.float64)

    def jets(z: Any, columns: Any) -> Any:
        return value(m, z, columns), *jax.jacrev(value, (0, 1))(m, z, columns)

    positions = row_positions(rows, problem.n)
    at = np.arange(problem.n) if positions is None else positions
    bound = (fit.local_sum or AutodiffSum()).bind(problem, fit.chunk_size)
    parts, first = [], 0
    for part in bound.respond(fit.m, positions, fit.point.state):
        here = at[first : first + len(part.z)]
        first += len(part.z)
        columns = {k: jnp.asarray(np.asarray(c)[here]) for k, c in problem.rows.columns.items()}
        try:
            mean, J_m, J_z = map(np.asarray, jax.jit(jax.vmap(jets))(jnp.asarray(part.z), columns))
        except LrvbError:
            raise
        except Exception as error:
            first_line = str(error).partition("\n")[0].rstrip(".")[:200]
            raise InvalidModel(
                f"The function of a row cannot be differentiated ({type(error).__name__}: {first_line}). "
                "Write it as f(m, z, row) with the model's moments and jax.numpy."
            ) from error
        total = np.einsum("n...d,nda->n...a", J_z, part.R) + J_m
        lrvb = np.einsum("n...d,nde,n...e->n...", J_z, part.Sigma, J_z)
        lrvb = lrvb + np.einsum("n...a,ab,n...b->n...", total, response.Sigma, total)
        mfvb = np.einsum("n...d,nde,n...e->n...", J_z, part.V, J_z)
        mfvb = mfvb + np.einsum("n...a,ab,n...b->n...", J_m, response.V, J_m)
        parts.append(np.stack([mean, np.sqrt(lrvb), np.sqrt(mfvb)]))
    return np.concatenate(parts, axis=1)


def predictive(
    response: Response, draws: Mapping[str, np.ndarray], rng: np.random.Generator, rows: Any
) -> np.ndarray:
    """Data of the rows from `sample_row`, (S, n, …): global draws (S, …), then z given each of them.

    Given α, q(z_n) is the row's own optimum at the point moments T(α); where rows are linear in z
    that is p(z_n | x_n, α) itself.
    """
    fit = response.fit
    problem, model = fit.problem, fit.problem.model
    if not callable(getattr(model, "sample_row", None)):
        raise InvalidModel(
            f"{type(model).__name__} has no sample_row(self, t, z, row, rng), which draws one row's data "
            "from the raw variables; write it, with NumPy."
        )
    if problem.rows is None:
        raise InvalidModel(f"{type(model).__name__} has no rows to draw.")
    for family in (*problem.alpha.blocks.values(), *problem.local.blocks.values()):
        require_methods(family, ("statistics", "sample"), "predictive draws")
    at = row_positions(rows, problem.n)
    at = np.arange(problem.n) if at is None else at
    program, results = natural_program(problem.structure), []
    tilted = _tilted_program(problem)
    for s in range(len(next(iter(draws.values())))):
        t = {name: np.asarray(values[s]) for name, values in draws.items()}
        m, drawn = _point_moments(problem, t), list[Any]()
        for chunk in chunks(problem, 4096, at):
            eta, z = program(problem.traced, m, chunk.columns)
            grids = tilted(eta, z, chunk.columns).items()
            inverted = {k: _inverted(np.asarray(x), np.asarray(q), rng) for k, (x, q) in grids}
            etas = np.asarray(eta)
            for k in range(chunk.n):
                n = int(at[len(drawn)])
                known = {name: values[k] for name, values in inverted.items()}
                drawn.append(_drawn_row(problem, Values(t), etas[k], known, n, rng))
        results.append(drawn)
    return np.asarray(results)


def _tilted_program(problem: Any) -> Program:
    """(η, z, columns) → for every tilted block a grid and log q on it, (rows, copies, nodes) each."""
    structure, local = problem.structure, problem.local
    steps = np.linspace(-12.0, 12.0, 1025)

    def one(eta: Any, z: Any, columns: Any) -> Any:
        row, found = structure.row(columns), {}
        for name, family in local.blocks.items():
            if isinstance(family, Tilted):
                here = local.slices[name]
                q = family.unflatten(eta[here].reshape(-1, 2), natural=True)
                m = family.unflatten(z[here].reshape(-1, 2))
                x = m.x[:, None] + jnp.sqrt(m.xx - m.x**2)[:, None] * steps
                tilt = jax.vmap(jax.vmap(family.at(row).log_likelihood))(x)
                found[name] = (x, q.x[:, None] * x + q.xx[:, None] * x**2 + tilt)
        return found

    return Program(jax.vmap(one))


def _inverted(x: np.ndarray, log_q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One draw for each grid (rows, copies, nodes), by inverting its distribution function."""
    q = np.exp(log_q - log_q.max(axis=-1, keepdims=True))
    below = np.cumsum(q, axis=-1)
    level = rng.uniform(size=q.shape[:-1])[..., None] * below[..., -1:]
    place = np.minimum((below < level).sum(axis=-1), q.shape[-1] - 1)[..., None]
    inside = rng.uniform(-0.5, 0.5, size=place.shape) * (x[..., 1:2] - x[..., :1])
    return (np.take_along_axis(x, place, axis=-1) + inside)[..., 0]


def _point_moments(problem: Any, t: Mapping[str, np.ndarray]) -> np.ndarray:
    """Flat T(α) of one draw of the global variables."""
    parts = []
    for name, family in problem.alpha.blocks.items():
        one = family.single()
        copies = t[name].reshape(family.copies, *t[name].shape[len(family.batch) :])
        parts.append(np.asarray(one.flatten(one.statistics(copies))).ravel())
    return np.concatenate(parts)


def _drawn_row(
    problem: Any,
    t: Values,
    eta: np.ndarray,
    known: Mapping[str, np.ndarray],
    n: int,
    rng: np.random.Generator,
) -> Any:
    """One row's data from its variables, drawn from q at η where they are not drawn yet."""
    row = Row({k: np.asarray(c[n]) for k, c in problem.rows.columns.items()}, None)
    values = {}
    for name, family in problem.local.blocks.items():
        if name in known:
            values[name] = known[name].reshape(family.batch)
            continue
        one = family.at(row).single()
        copies = eta[problem.local.slices[name]].reshape(family.copies, family.size)
        drawn = [one.sample(one.Stats(*map(np.asarray, one.unflatten(c, natural=True))), rng, 1)[0]
                 for c in copies]  # fmt: skip
        values[name] = np.reshape(drawn, (*family.batch, *np.shape(drawn[0])))
    return problem.model.sample_row(t, Values(values), row, rng)
