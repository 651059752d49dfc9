"""Results in other units: an affine map of every statistic, applied to a finished estimate.

A fit is done in coordinates in which nothing cancels (centred, unit-free columns). Its statistics
and the user's are related by T = M T′ + c, so that m = M m′ + c, V = M V′ Mᵀ and Σ̂ = M Σ̂′ Mᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..numerics.algebra import sandwich
from ..numerics.lazy import jax, jnp
from ..numerics.program import Program
from ..statement.meanfield import MeanField
from .estimate import Estimate


class Units(NamedTuple):
    """T = M T′ + c: the matrix M (a, a), which leaves blocks apart, and the shift c (a,)."""

    M: np.ndarray
    c: np.ndarray


def in_units(
    estimate: Estimate, units: Units, labels: Sequence[str | None] | None = None
) -> Estimate:
    """The estimate of T = M T′ + c, with other labels where they are given.

    Supports stay, so M may scale what is not real by positive numbers only.
    """
    M, c = units
    blocks = {
        name: block.in_units(M[estimate.slices[name], estimate.slices[name]])
        for name, block in estimate.blocks.items()
    }
    return Estimate(
        blocks,
        M @ estimate.m + c,
        _symmetric(sandwich(M.T, estimate.V)),
        _symmetric(sandwich(M.T, estimate.Sigma)),
        estimate.labels if labels is None else tuple(labels),
        estimate.supports,
    )


def affine_program(alpha: MeanField, mapping: Callable[..., Mapping[str, Any]]) -> Program:
    """Arguments → M and c, for a map of named moments (moments, *arguments) that is affine in them."""

    def units(*arguments: Any) -> Any:
        def of(flat: Any) -> Any:
            return alpha.flat_moments(mapping(alpha.moments(flat), *arguments))

        origin = jnp.zeros(alpha.size)
        return jax.jacfwd(of)(origin), of(origin)

    return Program(units)


def _symmetric(S: np.ndarray) -> np.ndarray:
    return (S + S.T) / 2
