"""Programs of how sᵀH̃s changes with m along several s, by Gram matrices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..numerics.lazy import jax, jnp
from ..statement.programs import shared, shared_briefly
from ..statement.structure import Structure
from .bilinear import coefficients, features_of, width_of
from .gram_bend import bend_program
from .gram_programs import pairs_of
from .turning import third_cumulant


@shared_briefly
def along_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, S (k, a)) → the derivative of A along each of S, (k, d, F)."""

    def along(traced: Any, m: Any, S: Any) -> Any:
        def A(m: Any) -> Any:
            return coefficients(structure, traced, m, width_of(structure))

        return jax.vmap(lambda s: jax.jvp(A, (m,), (s,))[1])(S)

    return along


@shared
def curvature_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, S (k, a), columns) → each row's score and sᵀH̃_n s along each of S, (n, a + k).

    With A(m) the coefficients, ∂A/∂m · zφᵀ and z·Äφ + Var(Ȧφ) along s.
    """

    def along_each(traced: Any, m: Any, S: Any, columns: Any) -> Any:
        Phi = jax.vmap(functools.partial(features_of, structure, traced))(columns)

        def A(m: Any) -> Any:
            return coefficients(structure, traced, m, width_of(structure))

        def one(row: Any, eta: Any) -> Any:
            local = structure.local.at(structure.row(row))
            q = local.evaluate(eta)
            return q.m, local.dense(q.C)

        def bent(s: Any) -> Any:
            def first(m: Any) -> Any:
                return jax.jvp(A, (m,), (s,))[1]

            return jax.jvp(first, (m,), (s,))

        z, C = jax.vmap(one)(columns, Phi @ A(m).T)
        along, twice = jax.vmap(bent)(S)
        score = jnp.einsum("nd,nf,dfa->na", z, Phi, jax.jacfwd(A)(m))
        u = jnp.einsum("nf,kdf->nkd", Phi, along)
        spread = (jnp.einsum("nkd,nde->nke", u, C) ** 2).sum(-1)
        return jnp.concatenate([score, spread + jnp.einsum("nd,nf,kdf->nk", z, Phi, twice)], axis=1)

    return along_each


@shared
def thirds_program(structure: Structure) -> Callable[..., Any]:
    """(traced, A, Ȧ (k, d, F), columns, weights) → Σ_n w_n κ₃[Ȧφ, Ȧφ, ·]φᵀ of each Ȧ, (k, d, F)."""
    _, categorical = pairs_of(structure)

    def thirds(traced: Any, A: Any, along: Any, columns: Any, weights: Any) -> Any:
        Phi = jax.vmap(functools.partial(features_of, structure, traced))(columns)
        eta, d = Phi @ A.T, along.shape[1]
        u = [Phi @ along[:, c].T for c in range(d)]  # (n, k) each

        def mean(row: Any, eta: Any) -> Any:
            return structure.local.at(structure.row(row)).evaluate(eta).m

        def third(row: Any, eta: Any, u: Any) -> Any:
            local = structure.local.at(structure.row(row))
            return jax.vmap(lambda e: third_cumulant(local, eta, e))(u)

        if categorical:  # κ₃[u, u, c] = z_c((u_c − ū)² − Var u)
            z = jax.vmap(mean)(columns, eta)
            centre = sum(z[:, c, None] * u[c] for c in range(d))
            squares = [(u[c] - centre) ** 2 for c in range(d)]
            spread = sum(z[:, c, None] * squares[c] for c in range(d))
            found = [z[:, c, None] * (squares[c] - spread) for c in range(d)]
        else:
            every = jax.vmap(third)(columns, eta, jnp.stack(u, axis=2))
            found = [every[..., c] for c in range(d)]
        counted = weights[:, None] > 0
        return jnp.stack(
            [jnp.where(counted, weights[:, None] * t, 0.0).T @ Phi for t in found], axis=1
        )

    return thirds


@shared_briefly
def turns_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, S (k, a), s, G, D (k, d, F)) → ∂(sᵀH̃s)/∂m of each of S, (k, a)."""
    # what functools.wraps keeps, and a plain Callable's type does not tell
    bend = bend_program.__wrapped__(structure)  # type: ignore[attr-defined]

    def turns(traced: Any, m: Any, S: Any, sums: Any, G: Any, D: Any) -> Any:
        def one(s: Any, D: Any) -> Any:
            return bend(traced, m, s[:, None], sums, G, D)

        return jax.vmap(one)(S, D)

    return turns
