r"""Joint draws of a variational fit: precisions by their copula, coefficients by their Gaussian given them.

w = μ + R(T − m) + e with T − m ~ N(0, Σ̂_α) and e ~ N(0, Σ̂_w|α), so that the draws have linear response's
means, sds and covariances. e has the correlations of the means' inverse Hessian, whose factor is known,
and the sds of Σ̂_w|α.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ....collapsed.gaussian.arrow import Arrow, Blocks
from ....collapsed.gaussian.own_effects import OwnEffects
from ....posterior.draws import at_noise, root_of, unconstrained
from ..design.design import Design
from ..design.standardised import Standardisation
from .arrangement import Arrangement
from .joint_response import JointResponse


class DrawnCoefficients(NamedTuple):
    """b (n, p) in the fit's coordinates, every term's effects, and the precisions' blocks' values."""

    beta: np.ndarray
    effects: list[np.ndarray]
    precisions: dict[str, np.ndarray]


def draw_coefficients(
    design: Design,
    standard: Standardisation,
    arrangement: Arrangement,
    joint: JointResponse,
    own: OwnEffects | None,
    n: int,
    rng: np.random.Generator,
) -> DrawnCoefficients:
    """n joint draws of all coefficients and precisions; `own` are the rows' own effects, if any."""
    block, response = arrangement.block, joint.precisions
    layout, p = block.layout, block.layout.p
    best: Any = block.collapse(response.fit.m, response.fit.point.state).best
    first, rest = _noise(best.M, joint.coefficients.Sigma, n, rng)
    T = rng.standard_normal((n, len(response.m))) @ root_of(response.Sigma).T
    for at, moved in joint.coefficients.R.items():
        first += np.multiply.outer(T[:, at], moved.z.reshape(-1))
        rest += np.multiply.outer(T[:, at], moved.rest)
    estimate = joint.estimate
    free = unconstrained(estimate)
    away = np.hstack([rest[:, :p] @ standard.T.T, T])
    left = rng.standard_normal((n, len(free.R))) @ root_of(free.R).T
    values = at_noise(estimate, free, away @ free.W.T + left)
    z, w = (
        first + joint.coefficients.mu.z.reshape(-1),
        rest + joint.coefficients.mu.rest,
    )
    effects = []
    for place, term in zip(arrangement.places, design.terms, strict=True):
        if place.factor < 0:
            assert own is not None
            assert block.precisions.scale is not None
            zeta = _forward(layout, first, rest)
            made = own.mean + own.follow * zeta + own.scale * T[:, [block.precisions.scale]]
            made += np.sqrt(own.noise) * rng.standard_normal(made.shape)
            codes = design.factors[term.factor].codes[arrangement.order]
            found = np.empty_like(made)
            found[:, codes] = made
            effects.append(found[:, :, None])
            continue
        G = len(design.factors[term.factor].levels)
        if place.factor == 0:
            part = z.reshape(n, G, -1)
        else:
            start, stop = layout.offsets[place.factor - 1], layout.offsets[place.factor]
            part = w[:, start:stop].reshape(n, G, -1)
        effects.append(part[:, :, list(place.columns)])
    return DrawnCoefficients(w[:, :p], effects, values)


def _noise(
    M: Arrow, Sigma: Blocks, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """n draws of e: the first factor's (n, Gq) and the rest (n, r)."""
    G, q, _ = M.E.shape
    r = len(M.blocks.Zrr)
    rest = rng.standard_normal((n, r)) @ root_of(M.blocks.Zrr).T
    own = np.linalg.cholesky(M.E) if q else M.E
    first = np.einsum("gij,ngj->ngi", own, rng.standard_normal((n, G, q))).reshape(n, -1)
    F = M.F.toarray() if sp.issparse(M.F) and M.F.shape[1] < 64 else M.F
    first = first - (F @ rest.T).T
    old, new = (np.diagonal(Z.Z11, axis1=1, axis2=2).reshape(-1) for Z in (M.blocks, Sigma))
    first *= np.sqrt(new / old)
    rest *= np.sqrt(np.diag(Sigma.Zrr) / np.diag(M.blocks.Zrr))
    return first, rest


def _forward(layout: Any, first: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """c_nᵀw of all rows at every draw, (n, N)."""
    shape = (layout.G, layout.q)
    zero = layout.zeros()
    return np.array(
        [layout.forward(type(zero)(z.reshape(shape), w)) for z, w in zip(first, rest, strict=True)]
    )
