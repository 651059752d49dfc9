"""How the curvature of Gram sums turns with m: third cumulants of z times features, and derivatives of A."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..numerics.lazy import jax, jnp
from ..statement.programs import shared
from ..statement.structure import Structure
from .gram_terms import coefficients_at, feature_count, features_of, gram_pairs, whole_gram
from .turning import third_cumulant


@shared
def along_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, S (k, a)) → the derivative of A along each of S, (k, d, F)."""

    def along(traced: Any, m: Any, S: Any) -> Any:
        def A(m: Any) -> Any:
            return coefficients_at(structure, traced, m, feature_count(structure))

        return jax.vmap(lambda s: jax.jvp(A, (m,), (s,))[1])(S)

    return along


@shared
def spread_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, R) → Σ_k Ȧ_k ⊗ Ȧ_k (d, d, F, F), Ȧ_k the derivative of A along column k of R."""

    def spread(traced: Any, m: Any, R: Any) -> Any:
        F = feature_count(structure)
        J = jax.jacfwd(lambda m: coefficients_at(structure, traced, m, F))(m)  # (d, F, a)
        moved = J @ R
        return jnp.einsum("dfk,egk->defg", moved, moved)

    return spread


@shared
def third_program(structure: Structure) -> Callable[..., Any]:
    """(traced, A, M, columns, weights) → D = Σ_n w_n ∂/∂A of Σ_kl V_n,kl φᵀM_klφ, M held fixed."""

    def third(traced: Any, A: Any, M: Any, columns: Any, weights: Any) -> Any:
        Phi = jax.vmap(functools.partial(features_of, structure, traced))(columns)
        u = jnp.stack(
            [jnp.stack([((Phi @ block) * Phi).sum(1) for block in row], axis=1) for row in M],
            axis=1,
        )  # (n, d, d)

        def one(row: Any, eta: Any, u: Any) -> Any:
            local = structure.local.at(structure.row(row))

            def spread(eta: Any) -> Any:
                C = local.dense(local.evaluate(eta).C)
                return jnp.sum((C @ C.T) * u)

            return jax.grad(spread)(eta)

        slopes = jax.vmap(one)(columns, Phi @ A.T, u)
        return jnp.where(weights > 0, slopes.T * weights, 0.0) @ Phi

    return third


@shared
def thirds_program(structure: Structure) -> Callable[..., Any]:
    """(traced, A, Ȧ (k, d, F), columns, weights) → Σ_n w_n κ₃[Ȧφ, Ȧφ, ·]φᵀ of each Ȧ, (k, d, F)."""
    _, categorical = gram_pairs(structure)

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


@shared
def bend_program(structure: Structure) -> Callable[..., Any]:
    r"""(traced, m, R, S, G, D) → ∂ tr(RRᵀH̃)/∂m.

    With L̄ = v(A(m)) and ∂v = S, ∂²v = G, tr(RRᵀH̃) = Σ_k Ȧ_kᵀGȦ_k + ⟨S, Ä_k⟩. Its derivative is that of
    A in ⟨D + GΣ_kÄ_k, A⟩, and of Ȧ and Ä with G and S held fixed.
    """
    d = structure.local.size

    def bend(traced: Any, m: Any, R: Any, S: Any, G: Any, D: Any) -> Any:
        F = S.shape[1]
        whole = whole_gram(structure, G, F)

        def A(m: Any) -> Any:
            return coefficients_at(structure, traced, m, F)

        def along(m: Any) -> Any:
            def one(r: Any) -> Any:
                def first(m: Any) -> Any:
                    return jax.jvp(A, (m,), (r,))[1]

                return jax.jvp(first, (m,), (r,))

            return jax.lax.map(one, R.T)  # Ȧ_k and Ä_k

        second = along(m)[1].sum(0).reshape(d * F)
        held = D + (whole @ second).reshape(d, F)

        def total(m: Any) -> Any:
            moved, moved_twice = along(m)
            flat = moved.reshape(-1, d * F)
            own = jnp.sum((flat @ whole) * flat) + jnp.sum(S * moved_twice.sum(0))
            return own + jnp.sum(held * A(m))

        return jax.grad(total)(m)

    return bend


@shared
def turns_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, S (k, a), s, G, D (k, d, F)) → ∂(sᵀH̃s)/∂m of each of S, (k, a)."""
    bend = bend_program.__wrapped__(structure)  # type: ignore[attr-defined]

    def turns(traced: Any, m: Any, S: Any, sums: Any, G: Any, D: Any) -> Any:
        def one(s: Any, D: Any) -> Any:
            return bend(traced, m, s[:, None], sums, G, D)

        return jax.vmap(one)(S, D)

    return turns
