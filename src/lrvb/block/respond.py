r"""Σ̂_w|α: how the means answer a tilt of themselves, in the blocks that rows touch.

The inverse Hessian M⁻¹ of the means is the answer while variances stay; where the rows' weights
depend on them, each level's own variances follow its own means, which takes
2Gᵀ(𝔼⁻¹ − 2Σ_n ℓ_vv ρρᵀ)⁻¹G off its block of M, with ρ_n the products of r_n, G = Σ_n ℓ_ηv ρ_n r_nᵀ and
𝔼 the symmetric square of the level's covariance. What passes from level to level is left out.
"""

from __future__ import annotations

import numpy as np

from .arrow import Blocks, NotPositive, Prior, invert, posterior_precision
from .least_squares import LeastSquares
from .sums import BlockSum, Collapsed


def conditional_blocks(block: BlockSum, found: Collapsed) -> Blocks:
    """The blocks of Σ̂_w|α: exact for rows that are not coupled."""
    if isinstance(block.setting, LeastSquares) or not block.setting.rows.coupled:
        return found.inner.M.blocks
    layout, terms = block.layout, found.inner.terms
    prior = block.precisions.prior(found.m)
    first = np.broadcast_to(prior.first, (layout.G, layout.q, layout.q)).copy()
    if layout.q:
        E = found.inner.M.E
        first -= _followed(layout.first.codes, layout.first.R, E, terms.ev, terms.vv)
    rest = prior.rest.copy()
    for f, start in zip(layout.others, layout.offsets[:-1], strict=True):
        q = f.R.shape[1]
        at = start + np.arange(f.levels)[:, None] * q + np.arange(q)
        E = found.blocks.Zrr[at[:, :, None], at[:, None, :]]
        rest[at[:, :, None], at[:, None, :]] -= _followed(f.codes, f.R, E, terms.ev, terms.vv)
    Q = posterior_precision(layout.cross(-terms.ee), Prior(first, rest))
    try:
        return invert(Q).blocks
    except NotPositive:  # a level whose own feedback is too strong: without it, as M says
        return found.inner.M.blocks


def _followed(
    codes: np.ndarray, R: np.ndarray, E: np.ndarray, ev: np.ndarray, vv: np.ndarray
) -> np.ndarray:
    """2Gᵀ(𝔼⁻¹ − 2Σ ℓ_vv ρρᵀ)⁻¹G of every level, (levels, q, q)."""
    levels, q, _ = E.shape
    i, j = np.triu_indices(q)
    twice = np.where(i == j, 1.0, 2.0)
    rho = R[:, i] * R[:, j] * twice
    G = np.stack(
        [
            np.stack([np.bincount(codes, ev * rho[:, a] * R[:, b], levels) for b in range(q)], 1)
            for a in range(len(i))
        ],
        axis=1,
    )
    S = np.empty((levels, len(i), len(i)))
    for a in range(len(i)):
        for b in range(a, len(i)):
            S[:, a, b] = S[:, b, a] = np.bincount(codes, vv * rho[:, a] * rho[:, b], levels)
    # (r_nᵀE r_m)² = ρ_nᵀ𝔼ρ_m with each off-diagonal product counted twice in ρ
    square = 0.5 * (
        E[:, i[:, None], i] * E[:, j[:, None], j] + E[:, i[:, None], j] * E[:, j[:, None], i]
    )
    inner = np.eye(len(i)) - 2 * square @ S
    return 2 * G.swapaxes(1, 2) @ np.linalg.solve(inner, square @ G)
