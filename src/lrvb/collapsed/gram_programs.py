"""Programs of Gram matrices: value, gradient and curvature of the rows, and values at many points."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..families import Categorical
from ..numerics.lazy import jax, jnp
from ..statement.programs import shared
from ..statement.structure import Structure
from .bilinear import coefficients, features_of, width_of


def pairs_of(structure: Structure) -> tuple[list[tuple[int, int]], bool]:
    """Index pairs whose Gram matrices are needed, and whether diagonals follow from the rest.

    A categorical's covariance has rows that sum to zero: G_kk = −Σ_{l≠k} G_kl.
    """
    blocks = list(structure.local.blocks.values())
    d = structure.local.size
    if len(blocks) == 1 and isinstance(blocks[0], Categorical) and blocks[0].copies == 1:
        return [(k, j) for k in range(d) for j in range(k + 1, d)], True
    return [(k, j) for k in range(d) for j in range(k, d)], False


@shared
def coefficient_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m) → A."""

    def at(traced: Any, m: Any) -> Any:
        return coefficients(structure, traced, m, width_of(structure))

    return at


@shared
def gram_program(structure: Structure, order: int) -> Callable[..., Any]:
    """(traced, A, columns, weights) → collapsed value, S, the Gram matrices, first failed row."""
    pairs, _ = pairs_of(structure)

    def sums(traced: Any, A: Any, columns: Any, weights: Any) -> Any:
        Phi = jax.vmap(functools.partial(features_of, structure, traced))(columns)

        def one(row: Any, eta: Any) -> Any:
            local = structure.local.at(structure.row(row))
            q = local.evaluate(eta)
            return q.m, local.dense(q.C), q.S + eta @ q.m, q.valid

        eta = Phi @ A.T
        z, C, A_z, valid = jax.vmap(one)(columns, eta)
        failed = ~(valid & jnp.isfinite(A_z)) & (weights > 0)
        first = jnp.where(failed.any(), jnp.argmax(failed), -1)
        S = (weights[:, None] * z).T @ Phi
        value = weights @ A_z
        if order < 2:
            return value, S, jnp.zeros((0, 0, 0)), first
        V = C @ jnp.swapaxes(C, 1, 2)
        G = [(Phi * (weights * V[:, k, j])[:, None]).T @ Phi for k, j in pairs]
        F = Phi.shape[1]
        return value, S, jnp.stack(G) if G else jnp.zeros((0, F, F)), first

    return sums


@shared
def coefficients_program(structure: Structure) -> Callable[..., Any]:
    """(traced, points) → A at each point, (S, d, F)."""

    def at(traced: Any, points: Any) -> Any:
        F = width_of(structure)
        return jax.vmap(lambda m: coefficients(structure, traced, m, F))(points)

    return at


@shared
def point_program(structure: Structure, gradient: bool) -> Callable[..., Any]:
    """(traced, A, columns, weights) → Σ_n w_n A_z(ΦAᵀ) at each point, and S = Σ_n w_n z_n φ_nᵀ."""

    def densities(traced: Any, A: Any, columns: Any, weights: Any) -> Any:
        Phi = jax.vmap(functools.partial(features_of, structure, traced))(columns)
        points, d, F = A.shape
        eta = (Phi @ A.reshape(points * d, F).T).reshape(-1, points, d)

        def one(row: Any, eta: Any) -> Any:
            local = structure.local.at(structure.row(row))

            def at(eta: Any) -> Any:
                if not gradient:
                    return jnp.zeros(0), *local.log_partition(eta)
                q = local.evaluate(eta)
                return q.m, q.S + eta @ q.m, q.valid

            return jax.vmap(at)(eta)

        z, A_z, valid = jax.vmap(one)(columns, eta)
        counted = (weights > 0)[:, None]
        found = (valid & jnp.isfinite(A_z) | ~counted).all(axis=0)
        value = jnp.where(found, weights @ jnp.where(counted, A_z, 0.0), -jnp.inf)
        if not gradient:
            return value, jnp.zeros(0)
        return value, jnp.einsum("n,npd,nf->pdf", weights, z, Phi)

    return densities


@shared
def pullback_program(structure: Structure) -> Callable[..., Any]:
    """(traced, points, S) → ∂⟨A, S⟩/∂m at each point."""

    def pull(traced: Any, points: Any, S: Any) -> Any:
        def one(m: Any, S: Any) -> Any:
            F = S.shape[1]
            return jax.grad(lambda m: jnp.sum(coefficients(structure, traced, m, F) * S))(m)

        return jax.vmap(one)(points, S)

    return pull


@shared
def assembly_program(structure: Structure, order: int) -> Callable[..., Any]:
    """(traced, m, S, G) → gradient and curvature of the sum over rows."""
    d = structure.local.size

    def assemble(traced: Any, m: Any, S: Any, G: Any) -> Any:
        F = S.shape[1]

        def paired(m: Any) -> Any:
            return jnp.sum(coefficients(structure, traced, m, F) * S)

        gradient = jax.grad(paired)(m)
        if order < 2:
            return gradient, jnp.zeros((0, 0))
        J = jax.jacfwd(lambda m: coefficients(structure, traced, m, F))(m).reshape(d * F, -1)
        return gradient, jax.hessian(paired)(m) + J.T @ (whole_gram(structure, G, F) @ J)

    return assemble


def whole_gram(structure: Structure, G: Any, F: int) -> Any:
    """All Gram matrices as one, (dF, dF)."""
    pairs, sums_to_one = pairs_of(structure)
    d, zero = structure.local.size, jnp.zeros((F, F))
    full = [[zero] * d for _ in range(d)]
    for i, (k, j) in enumerate(pairs):
        full[k][j] = full[j][k] = G[i]
    if sums_to_one:
        for k in range(d):
            full[k][k] = -sum((full[k][j] for j in range(d) if j != k), zero)
    return jnp.block(full)
