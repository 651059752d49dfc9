"""Programs of the second order by Gram matrices: how tr(RRᵀH̃) changes with m, for a fixed R."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..numerics.lazy import jax, jnp
from ..statement.programs import shared
from ..statement.structure import Structure
from .bilinear import coefficients, features_of, width_of
from .gram_programs import whole_gram


@shared
def spread_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, R) → Σ_k Ȧ_k ⊗ Ȧ_k (d, d, F, F), Ȧ_k the derivative of A along column k of R."""

    def spread(traced: Any, m: Any, R: Any) -> Any:
        F = width_of(structure)
        J = jax.jacfwd(lambda m: coefficients(structure, traced, m, F))(m)  # (d, F, a)
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
            return coefficients(structure, traced, m, F)

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
