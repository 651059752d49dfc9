"""What Gram sums stand on: a row's features, the coefficients A(m) at unit features, and that ℓ = z·A(m)φ."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidModel
from ..families import Categorical
from ..numerics.lazy import jax, jnp
from ..statement.problem import Problem
from ..statement.programs import shared
from ..statement.structure import Structure


def features_of(structure: Structure, traced: Any, row: Any) -> Any:
    return structure.features(traced, structure.row(row))


def coefficients_at(structure: Structure, traced: Any, m: Any, F: int) -> Any:
    """A (d, F): the derivative of the local term in z and φ, the same at every row."""
    term = functools.partial(structure.local_term, traced, m)
    by_features = jax.grad(lambda phi, z: term(z, phi))
    return jax.jacfwd(by_features, 1)(jnp.zeros(F), jnp.zeros(structure.local.size)).T


def _feature_count(problem: Problem) -> int:
    assert problem.rows is not None
    row = {name: jnp.asarray(c[0]) for name, c in problem.rows.columns.items()}
    shape = jax.eval_shape(
        functools.partial(features_of, problem.structure), problem.traced, row
    ).shape
    if len(shape) != 1:
        raise InvalidModel(f"features returned shape {shape}; it must return a vector.")
    return int(shape[0])


def gram_pairs(structure: Structure) -> tuple[list[tuple[int, int]], bool]:
    """Index pairs whose Gram matrices are needed, and whether diagonals follow from the rest.

    A categorical's covariance has rows that sum to zero: G_kk = −Σ_{l≠k} G_kl.
    """
    blocks = list(structure.local.blocks.values())
    d = structure.local.size
    if len(blocks) == 1 and isinstance(blocks[0], Categorical) and blocks[0].copies == 1:
        return [(k, j) for k in range(d) for j in range(k + 1, d)], True
    return [(k, j) for k in range(d) for j in range(k, d)], False


def whole_gram(structure: Structure, G: Any, F: int) -> Any:
    """All Gram matrices as one, (dF, dF)."""
    pairs, sums_to_one = gram_pairs(structure)
    d, zero = structure.local.size, jnp.zeros((F, F))
    full = [[zero] * d for _ in range(d)]
    for i, (k, j) in enumerate(pairs):
        full[k][j] = full[j][k] = G[i]
    if sums_to_one:
        for k in range(d):
            full[k][k] = -sum((full[k][j] for j in range(d) if j != k), zero)
    return jnp.block(full)


_COUNTS: dict[Structure, int] = {}


def feature_count(structure: Structure) -> int:
    return _COUNTS[structure]


def require_bilinear(problem: Problem) -> None:
    """Check the declaration on the first rows: ℓ(m, z, φ) = z·A(m)φ for a z that is not special."""
    structure, rows = problem.structure, problem.rows
    if structure in _COUNTS:
        return
    assert rows is not None
    _COUNTS[structure] = _feature_count(problem)
    first = {name: np.asarray(c[:4]) for name, c in rows.columns.items()}
    terms, bilinear, size = (
        np.asarray(part) for part in bilinearity_program(structure)(problem.traced, first)
    )
    bad = ~(np.abs(terms - bilinear) <= 1e-8 * (np.abs(terms) + size))
    if bad.any():
        i = int(np.argmax(bad))
        del _COUNTS[structure]
        raise InvalidModel(
            f"{type(problem.model).__name__} declares features, but its local_term is not linear "
            f"in z and in them at row {i} ({terms[i]:.6g} against {bilinear[i]:.6g}). Put every "
            "factor that multiplies z into features, or leave the declaration out.",
            row=i,
        )


@shared
def bilinearity_program(structure: Structure) -> Callable[..., Any]:
    """(traced, columns) → ℓ, z·Aφ and the size of its summands, at an m and z that are not special."""

    def compare(traced: Any, columns: Any) -> Any:
        m = jnp.linspace(0.5, 1.5, structure.alpha.size)
        z = jnp.linspace(0.3, 1.1, structure.local.size)
        A = coefficients_at(structure, traced, m, feature_count(structure))

        def one(row: Any) -> Any:
            phi = features_of(structure, traced, row)
            size = jnp.abs(z) @ jnp.abs(A) @ jnp.abs(phi)
            return structure.local_term(traced, m, z, phi), z @ (A @ phi), size

        return jax.vmap(one)(columns)

    return compare
