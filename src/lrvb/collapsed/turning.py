r"""How the curvature of rows turns with m and with the model's numbers, of every row in one visit.

Let x = (m, ε), ε moving the model's numbers, and let z follow: R = dz/dx, E = dη_z/dx. Because z is at its
optimum, third derivatives of the collapsed row need no second derivative of z:

  D³ℓ̄[u, v, w] = D³ℓ[(u, Ru), (v, Rv), (w, Rw)] + κ₃[Eu, Ev, Ew],

κ₃ the third cumulants of q(z). So ∂(sᵀH̃s)/∂x of one direction s, all of m and all numbers together, is one
gradient of a second derivative along (s, Rs).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..numerics.algebra import response_root
from ..numerics.lazy import jax, jnp
from ..statement.meanfield import MeanField
from ..statement.problem import Problem
from ..statement.programs import shared
from ..statement.structure import Structure
from .chunks import Chunk, chunk_length, chunks
from .row_optimum import WIDE, cross, local_hessians, response
from .row_programs import row_parts

Directions = dict[str, np.ndarray]
CUBIC = 9  # local coordinates up to which a row's third cumulants are held


def autodiff_turns(
    problem: Problem, chunk_size: int | None, m: np.ndarray, S: np.ndarray, moved: Directions
) -> np.ndarray:
    """Σ_n w_n of `turn_program`, (h + k, a + h), chunk by chunk."""
    program = turn_program(problem.structure)
    h = count(moved)
    total = np.zeros((h + len(S), len(m) + h))
    width = (len(m) + h) * (2 * problem.local.size + 2) + 4 * len(S) * (problem.local.size + 2)
    chunk: Chunk
    for chunk in chunks(problem, chunk_length(problem, chunk_size, width + 64)):
        rows = (chunk.columns, chunk.weights)
        total += np.asarray(program(problem.traced, moved, m, S, *rows))
    return total


def autodiff_curvatures(
    problem: Problem, chunk_size: int | None, m: np.ndarray, S: np.ndarray
) -> Iterator[np.ndarray]:
    """`curvature_program` of all rows, chunk by chunk."""
    program = curvature_program(problem.structure)
    width = (len(m) + len(S)) * (problem.local.size + 2) + 64
    for chunk in chunks(problem, chunk_length(problem, chunk_size, width)):
        yield np.asarray(program(problem.traced, m, S, chunk.columns))[: chunk.n]


def count(moved: Directions) -> int:
    """How many numbers ε there are."""
    return len(next(iter(moved.values()))) if moved else 0


def numbers_at(numbers: Any, moved: Any, epsilon: Any) -> Any:
    """The model's numbers, moved along each direction by its ε."""
    away = {k: numbers[k] + jnp.tensordot(epsilon, d, 1) for k, d in moved.items()}
    return {**numbers, **away}


@shared
def turn_program(structure: Structure) -> Callable[..., Any]:
    """(traced, moved, m, S (k, a), columns, weights) → ∂²L̄/∂x∂ε (h, a + h), then ∂(sᵀH̃s)/∂x (k, a + h)."""
    d = structure.local.size

    def turns(traced: Any, moved: Any, m: Any, S: Any, columns: Any, weights: Any) -> Any:
        a, h = m.size, count(moved)
        x = jnp.concatenate([m, jnp.zeros(h)])
        few = len(S) and 0 < d <= CUBIC

        def term(x: Any, z: Any, row: Any) -> Any:
            numbers = numbers_at(traced, moved, x[a:])
            return structure.local_term(numbers, x[:a], z, structure.row(row))

        def total(x: Any, z: Any) -> Any:
            return weights @ jax.vmap(term, (None, 0, 0))(x, z, columns)

        if few and structure.conjugate:  # η_z is known, and one quadrature tells z, R and κ₃
            z, R, E, kappa = jax.vmap(functools.partial(_linear, structure, term, x))(columns)
            eta = None
        else:
            q = row_parts(structure, traced, m, columns)
            z, follow = q.z, functools.partial(_follow, structure, term, x)
            R, E, eta = jax.vmap(follow)(z, q.C, columns)  # (n, d, a + h) twice, (n, d)
            kappa = jax.vmap(functools.partial(_thirds, structure))(columns, eta) if few else None

        def mixed(u: Any) -> Any:
            return jax.jvp(jax.grad(total), (x, z), (u, R @ u))[1]

        def turn(s: Any) -> Any:
            s = jnp.concatenate([s, jnp.zeros(h)])
            along = (s, R @ s)

            def second(x: Any, z: Any) -> Any:
                first = functools.partial(_slope, total, along)
                return _slope(first, along, x, z)

            g_x, g_z = jax.grad(second, (0, 1))(x, z)
            if not d:
                return g_x
            e = E @ s
            if kappa is None:
                third = jax.vmap(functools.partial(_third, structure))(columns, eta, e)
            else:
                third = (kappa * (e[:, :, None] * e[:, None, :])[..., None]).sum((1, 2))
            bent = weights[:, None] * third
            return g_x + jnp.einsum("nd,ndx->x", g_z, R) + jnp.einsum("nd,ndx->x", bent, E)

        parts = [jnp.zeros((0, a + h))]
        if h:
            parts.append(jax.vmap(mixed)(jnp.eye(a + h)[a:]))
        if len(S):
            parts.append(jax.vmap(turn)(S))
        return jnp.concatenate(parts)

    return turns


@shared
def curvature_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, S (k, a), columns) → each row's score and sᵀH̃_n s along each of S, (n, a + k)."""

    def along_each(traced: Any, m: Any, S: Any, columns: Any) -> Any:
        q = row_parts(structure, traced, m, columns)

        def term(m: Any, z: Any, row: Any) -> Any:
            return structure.local_term(traced, m, z, structure.row(row))

        def one(z: Any, C: Any, row: Any) -> Any:
            R = _follow(structure, term, m, z, C, row)[0]
            score = functools.partial(jax.grad(term), row=row)

            def curved(s: Any) -> Any:
                return jax.jvp(lambda m, z: score(m, z) @ s, (m, z), (s, R @ s))[1]

            return jnp.concatenate([score(m, z), jax.vmap(curved)(S)])

        return jax.vmap(one)(q.z, q.C, columns)

    return along_each


def _slope(function: Callable[..., Any], along: Any, x: Any, z: Any) -> Any:
    return jax.jvp(function, (x, z), along)[1]


def _follow(
    structure: Structure, term: Any, x: Any, z: Any, C: Any, row: Any
) -> tuple[Any, Any, Any]:
    """R = dz/dx and E = dη_z/dx (d, a + h) of one row at its optimum, and η_z; V_z = CCᵀ."""
    own = functools.partial(term, x, row=row)
    eta = jax.grad(own)(z)
    if structure.local.size > WIDE:
        local = structure.local.at(structure.row(row))
        pull = cross(term, x, z, row)
        R = response(local, own, z, pull, structure.conjugate)
        if structure.conjugate:
            return R, pull, eta
        bent = jax.vmap(lambda r: jax.jvp(jax.grad(own), (z,), (r,))[1], 1, 1)(R)
        return R, pull + bent, eta
    pull, H_zz = local_hessians(structure, term, x, z, row)
    W = response_root(C, H_zz)
    R = W.T @ (W @ pull)
    return R, pull if H_zz is None else pull + H_zz @ R, eta


def _linear(structure: Structure, term: Any, x: Any, row: Any) -> tuple[Any, Any, Any, Any]:
    """z (d,), R and E (d, a + h) and κ₃ (d, d, d) of one row that is linear in z: η_z = ∂ℓ/∂z anywhere."""
    eta = jax.grad(functools.partial(term, x, row=row))(jnp.zeros(structure.local.size))
    kappa, (z, V) = _cumulants(structure, row, eta)
    pull = cross(term, x, z, row)
    return z, V @ pull, pull, kappa


def _thirds(structure: Structure, row: Any, eta: Any) -> Any:
    """κ₃ (d, d, d) of q(z) of one row."""
    return _cumulants(structure, row, eta)[0]


def _cumulants(structure: Structure, row: Any, eta: Any) -> tuple[Any, tuple[Any, Any]]:
    """κ₃ (d, d, d) of q(z) of one row, the derivative of its covariance; its mean (d,) and covariance."""
    local = structure.local.at(structure.row(row))

    def two(eta: Any) -> Any:
        q = local.evaluate(eta)
        C = local.dense(q.C)
        V = C @ C.T
        return V, (q.m, V)

    found: tuple[Any, tuple[Any, Any]] = jax.jacfwd(two, has_aux=True)(eta)
    return found


def _third(structure: Structure, row: Any, eta: Any, e: Any) -> Any:
    """κ₃[e, e, ·] (d,) of q(z) of one row."""
    return third_cumulant(structure.local.at(structure.row(row)), eta, e)


def third_cumulant(q: MeanField, eta: Any, e: Any) -> Any:
    """κ₃[e, e, ·], the second derivative of the mean map at η along e."""

    def slope(eta: Any) -> Any:
        return jax.jvp(lambda eta: q.profile(eta)[0], (eta,), (e,))[1]

    return jax.jvp(slope, (eta,), (e,))[1]
