"""Programs of the rows of a chunk, made by differentiating the model's own local term row by row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics.algebra import absorb_local, local_root, response_root
from ..numerics.lazy import jax, jnp
from ..statement.programs import shared
from ..statement.structure import Structure
from .row_optimum import (
    WIDE,
    RowOptimum,
    collapse,
    cross,
    factor,
    is_searched,
    local_hessians,
    response,
)


def row_parts(
    structure: Structure, traced: Any, m: Any, columns: Any, starts: Any = None
) -> RowOptimum:
    """q(z) of every row of a chunk at its optimum, searched for from `starts` (n, d)."""

    def one(row: Any, start: Any = None) -> RowOptimum:
        row = structure.row(row)
        term = functools.partial(structure.local_term, traced, m)
        local = structure.local.at(row)
        return collapse(local, lambda z: term(z, row), structure.conjugate, start)

    return jax.vmap(one)(columns) if starts is None else jax.vmap(one)(columns, starts)


def no_starts(structure: Structure, n: int) -> np.ndarray:
    """What n rows start from where nothing is known: NaN, in place of which each has its family's own."""
    return np.full((n, structure.local.size) if is_searched(structure) else (0, 0), np.nan)


@shared
def row_sum_program(structure: Structure, order: int) -> Callable[..., Any]:
    """(traced, m, columns, weights, starts) → Σ_n w_n of value, gradient and curvature of a chunk.

    Then the first row at fault, and where optima are searched for natural parameters η_z (n, d), to
    start from at a point nearby. See: `no_starts`
    """
    searched = is_searched(structure)

    def sums(traced: Any, m: Any, columns: Any, weights: Any, starts: Any) -> Any:
        q = row_parts(structure, traced, m, columns, starts if searched else None)
        reached = q.eta if searched else starts

        def term(m: Any, z: Any, row: Any) -> Any:
            return structure.local_term(traced, m, z, structure.row(row))

        def total(m: Any) -> Any:
            return weights @ jax.vmap(term, (None, 0, 0))(m, q.z, columns)

        expected, gradient = jax.value_and_grad(total)(m)
        values = jax.vmap(term, (None, 0, 0))(m, q.z, columns) + q.S
        failed = ~(q.found & jnp.isfinite(values)) & (weights > 0)
        value = expected + weights @ q.S

        def first(failed: Any) -> Any:
            return jnp.where(failed.any(), jnp.argmax(failed), -1)

        if order < 2:
            return value, gradient, jnp.zeros((0, 0)), first(failed), reached
        H = jax.hessian(total)(m)
        if structure.local.size > WIDE:

            def absorbed(z: Any, row: Any) -> Any:
                H_za, local = cross(term, m, z, row), structure.local.at(structure.row(row))
                own = functools.partial(term, m, row=row)
                return H_za.T @ response(local, own, z, H_za, structure.conjugate)

            S = jax.vmap(absorbed)(q.z, columns)
            known = jnp.isfinite(S).all((1, 2))
            failed = failed | (~known & (weights > 0))
            S = jnp.tensordot(weights, jnp.where(known[:, None, None], S, 0.0), 1)
            H = H + (S + S.T) / 2
        elif structure.local.size:

            def root(z: Any, C: Any, row: Any) -> Any:
                H_za, H_zz = local_hessians(structure, term, m, z, row)
                return local_root(H_za, C, H_zz)

            roots = jax.vmap(root)(q.z, q.C, columns) * jnp.sqrt(weights)[:, None, None]
            H = absorb_local(H, roots.reshape(-1, m.size))
        return value, gradient, H, first(failed), reached

    return sums


@shared
def product_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, v (k, a), columns, weights) → Σ_n w_n H̃_n v, (k, a). See: eq:nuisance_lrvb_est."""

    def products(traced: Any, m: Any, v: Any, columns: Any, weights: Any) -> Any:
        q = row_parts(structure, traced, m, columns)

        def term(m: Any, z: Any, row: Any) -> Any:
            return structure.local_term(traced, m, z, structure.row(row))

        def total(m: Any, z: Any) -> Any:
            return weights @ jax.vmap(term, (None, 0, 0))(m, z, columns)

        def follow(z: Any, row: Any, v: Any) -> Any:
            """How one row's z follows m along v."""
            own = functools.partial(term, m, row=row)
            pull = jax.jvp(lambda m: jax.grad(term, 1)(m, z, row), (m,), (v,))[1]
            local = structure.local.at(structure.row(row))
            return response(local, own, z, pull[:, None], structure.conjugate)[:, 0]

        def one(v: Any) -> Any:
            if not structure.local.size:
                return jax.jvp(lambda m: jax.grad(total)(m, q.z), (m,), (v,))[1]
            moved = jax.vmap(follow, (0, 0, None))(q.z, columns, v)
            return jax.jvp(jax.grad(total), (m, q.z), (v, moved))[1]

        return jax.vmap(one)(v)

    return products


@shared
def density_program(structure: Structure, gradient: bool) -> Callable[..., Any]:
    """(traced, points, columns, weights) → collapsed value at each point, and its gradient in m.

    z stands at its optimum, so that the gradient is that of the term with z held fixed.
    """

    def alone(traced: Any, points: Any, columns: Any, weights: Any) -> Any:
        """Of rows linear in z: ℓ(m, 0) + A(∂ℓ/∂z), a quadrature's nodes being those of the middle point.

        NaN where these do not do for a point, or the term has no value there.
        """
        middle = jnp.median(points, axis=0)

        def own(row: Any) -> Any:
            row = structure.row(row)

            def at(m: Any) -> Any:
                term = functools.partial(structure.local_term, traced, m)
                return jax.value_and_grad(lambda z: term(z, row))(jnp.zeros(structure.local.size))

            local = structure.local.at(row).near(at(middle)[1])

            def one(m: Any) -> Any:
                rest, eta = at(m)
                A, valid = local.log_partition(eta)
                return rest + A, valid

            return jax.vmap(one)(points)

        values, valid = jax.vmap(own, out_axes=1)(columns)
        value = jnp.where(weights > 0, values, 0.0) @ weights
        found = (valid | (weights == 0)).all(axis=1)
        return jnp.where(found, value, -jnp.inf), jnp.zeros((len(points), 0))

    def densities(traced: Any, points: Any, columns: Any, weights: Any) -> Any:
        def one(m: Any) -> Any:
            q = jax.tree.map(jax.lax.stop_gradient, row_parts(structure, traced, m, columns))

            def total(m: Any) -> Any:
                terms = jax.vmap(
                    lambda z, row: structure.local_term(traced, m, z, structure.row(row))
                )(q.z, columns)
                return weights @ jnp.where(weights > 0, terms + q.S, 0.0)

            value, slope = jax.value_and_grad(total)(m) if gradient else (total(m), jnp.zeros(0))
            found = (q.found | (weights == 0)).all() & jnp.isfinite(value)
            return jnp.where(found, value, -jnp.inf), slope

        return jax.vmap(one)(points)

    return alone if structure.conjugate and not gradient else densities


@shared
def bend_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, R, columns, weights) → ∂ tr(RRᵀH̃)/∂m of rows linear in z, by differentiation.

    H̃ is then the Hessian of Σ_n w_n (ℓ(m, 0) + A(η_n)) with η_n = ∂ℓ/∂z, and nobody sees more of A than
    its first three derivatives at m, the cumulants of q(z): a cubic in η_n stands for it.
    """

    def bend(traced: Any, m: Any, R: Any, columns: Any, weights: Any) -> Any:
        def at(m: Any, row: Any) -> Any:
            term = functools.partial(structure.local_term, traced, m)
            row = structure.row(row)
            return jax.value_and_grad(lambda z: term(z, row))(jnp.zeros(structure.local.size))

        def cumulants(row: Any) -> Any:
            eta = at(m, row)[1]
            local = structure.local.at(structure.row(row))

            def two(eta: Any) -> Any:
                q = local.evaluate(eta)
                C = local.dense(q.C)
                V = C @ C.T
                return V, (q.m, V)

            third, (mean, V) = jax.jacfwd(two, has_aux=True)(eta)
            return eta, mean, V, third

        def cubic(moved: Any, row: Any, known: Any) -> Any:
            eta, k1, k2, k3 = known
            rest, now = at(moved, row)
            d = now - eta
            return rest + k1 @ d + d @ k2 @ d / 2 + ((k3 @ d) @ d) @ d / 6

        known = jax.vmap(cumulants)(columns)

        def total(moved: Any) -> Any:
            return weights @ jax.vmap(cubic, (None, 0, 0))(moved, columns, known)

        def trace(moved: Any) -> Any:
            def along(r: Any) -> Any:
                def first(moved: Any) -> Any:
                    return jax.jvp(total, (moved,), (r,))[1]

                return jax.jvp(first, (moved,), (r,))[1]

            return jax.vmap(along)(R.T).sum()

        return jax.grad(trace)(m)

    return bend


@shared
def score_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, columns) → each row's gradient ∂ℓ̄_n/∂m (n, a), with z at its optimum."""

    def scores(traced: Any, m: Any, columns: Any) -> Any:
        q = row_parts(structure, traced, m, columns)

        def one(z: Any, row: Any) -> Any:
            return jax.grad(lambda m: structure.local_term(traced, m, z, structure.row(row)))(m)

        return jax.vmap(one)(q.z, columns)

    return scores


@shared
def row_density_program(structure: Structure) -> Callable[..., Any]:
    """(traced, points, columns) → each row's collapsed value at each point, (S, n)."""

    def densities(traced: Any, points: Any, columns: Any) -> Any:
        def one(m: Any) -> Any:
            q = row_parts(structure, traced, m, columns)
            terms = jax.vmap(lambda z, row: structure.local_term(traced, m, z, structure.row(row)))(
                q.z, columns
            )
            return jnp.where(q.found, terms + q.S, -jnp.inf)

        return jax.vmap(one)(points)

    return densities


@shared
def response_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, columns) → z, V_z, Σ̂_z|α and R of every row of a chunk."""

    def respond(traced: Any, m: Any, columns: Any) -> Any:
        q = row_parts(structure, traced, m, columns)

        def one(z: Any, C: Any, row: Any) -> Any:
            def term(m: Any, z: Any, row: Any) -> Any:
                return structure.local_term(traced, m, z, structure.row(row))

            if C is None:
                local = structure.local.at(structure.row(row))
                C = factor(local, functools.partial(term, m, row=row), z)
            H_za, H_zz = local_hessians(structure, term, m, z, row)
            W = response_root(C, H_zz)
            Sigma = W.T @ W
            return C @ C.T, Sigma, Sigma @ H_za

        return q.z, *jax.vmap(one)(q.z, q.C, columns)

    return respond


@shared
def natural_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, columns) → η_z = ∂ℓ/∂m_z and m_z of every row of a chunk at its optimum."""

    def natural(traced: Any, m: Any, columns: Any) -> Any:
        q = row_parts(structure, traced, m, columns)

        def one(z: Any, row: Any) -> Any:
            return jax.grad(lambda z: structure.local_term(traced, m, z, structure.row(row)))(z)

        return jax.vmap(one)(q.z, columns), q.z

    return natural
