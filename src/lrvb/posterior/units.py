"""Results on another scale: an affine map of every statistic, applied to a finished response.

A fit is done in coordinates in which nothing cancels (centred, unit-free columns). Its statistics
and the user's are related by T = M T′ + c, so m = M m′ + c, C = M C′, H = M⁻ᵀH′M⁻¹ and Σ̂ = M Σ̂′ Mᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from ..engine.response import Response
from ..numerics.algebra import diagonal_blocks, sandwich
from ..numerics.double import in_double
from ..numerics.program import Program
from ..statement.meanfield import MeanField
from ..statement.parameters import initial


@dataclass(frozen=True)
class Chart:
    """The response in the fit's own coordinates, and the matrix M to the user's."""

    inner: Response
    M: np.ndarray


@in_double
def in_units(
    response: Response,
    program: Program,
    arguments: tuple[Any, ...],
    parameters: Mapping[str, Mapping[str, Any]],
) -> tuple[Response, Chart]:
    """The response on the user's scale.

    `program(m′, *arguments)` gives the user's flat m and the Jacobian M (see `affine_program`);
    `parameters` are the usual parameters of every block on the user's scale.
    """
    m, M = (np.asarray(part) for part in program(response.fit.m, *arguments))
    inner = response.fit
    C, inverse = np.empty_like(M), np.zeros_like(M)
    for b in diagonal_blocks(M):
        C[b] = M[b, b] @ response.C[b]
        inverse[b, b] = np.linalg.inv(M[b, b])
    Sigma = sandwich(M.T, response.Sigma)
    eta = initial(response.alpha, parameters)
    gradient = eta + inverse.T @ inner.point.residual
    H = None if inner.point.H is None else sandwich(inverse, inner.point.H)
    point = replace(inner.point, eta=eta, m=m, C=C, gradient=gradient, H=H)
    # B = I − CᵀHC is the same in all coordinates, and was computed in the better ones.
    model = inner.curved
    if model is not None and H is not None:
        model = model._replace(r=point.residual, C=C, H=H)
    fit = replace(inner, point=point, curved=model)
    return Response(fit, C, (Sigma + Sigma.T) / 2), Chart(response, M)


def affine_program(alpha: MeanField, mapping: Callable[..., Mapping[str, Any]]) -> Program:
    """(m′, …) → m and M, for a map of named moments that is affine in them."""

    def mapped(flat: Any, *arguments: Any) -> Any:
        def of(flat: Any) -> Any:
            return alpha.flat_moments(mapping(alpha.moments(flat), *arguments))

        return of(flat), jax.jacfwd(of)(flat)

    return Program(mapped)
