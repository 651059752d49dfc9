"""The declaration ℓ(m, z, φ) = Σ_k z_k A_k(m)·φ: features φ of a row, coefficients A, and its check.

The coefficients are the derivative of the model's own local term at unit features.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidModel
from ..numerics.lazy import jax, jnp
from ..statement.problem import Problem
from ..statement.programs import shared
from ..statement.structure import Structure

_COUNTS: dict[Structure, int] = {}


def features_of(structure: Structure, traced: Any, row: Any) -> Any:
    """φ of one row."""
    return structure.features(traced, structure.row(row))


def coefficients(structure: Structure, traced: Any, m: Any, F: int) -> Any:
    """A (d, F): the derivative of the local term in z and φ, the same at every row."""
    term = functools.partial(structure.local_term, traced, m)
    by_features = jax.grad(lambda phi, z: term(z, phi))
    return jax.jacfwd(by_features, 1)(jnp.zeros(F), jnp.zeros(structure.local.size)).T


def width_of(structure: Structure) -> int:
    """How many features a row has, once they were counted."""
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
        A = coefficients(structure, traced, m, width_of(structure))

        def one(row: Any) -> Any:
            phi = features_of(structure, traced, row)
            size = jnp.abs(z) @ jnp.abs(A) @ jnp.abs(phi)
            return structure.local_term(traced, m, z, phi), z @ (A @ phi), size

        return jax.vmap(one)(columns)

    return compare


def _feature_count(problem: Problem) -> int:
    assert problem.rows is not None
    row = {name: jnp.asarray(c[0]) for name, c in problem.rows.columns.items()}
    shape = jax.eval_shape(
        functools.partial(features_of, problem.structure), problem.traced, row
    ).shape
    if len(shape) != 1:
        raise InvalidModel(f"features returned shape {shape}; it must return a vector.")
    return int(shape[0])
