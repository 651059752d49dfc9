r"""How the variances of a level's rows answer each other, level by level.

More weight W = −2ℓ_v means less variance, and less variance another weight. Within a level of the first
factor c_nᵀΣc_m ≈ r_nᵀEr_m, and (r_nᵀEr_m)² = ρ_nᵀ𝔼ρ_m with ρ the products of r and 𝔼 the symmetric
square of E. So if rows ask for weights that change by −2x, variances follow by
ρ_nᵀ A Σ_m ρ_m x_m with A = 2(𝔼⁻¹ − 2Σ_n ℓ_vv ρ_nρ_nᵀ)⁻¹, the answer to the answer included.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .layout import Layout


class Feedback(NamedTuple):
    """A (G, w, w) of every level, for the w = q(q + 1)/2 products of its coefficients."""

    layout: Layout
    A: np.ndarray

    def follow(self, x: np.ndarray) -> np.ndarray:
        """ρ_nᵀ A Σ_m ρ_m x_m for every row."""
        layout = self.layout
        if not layout.q:
            return np.zeros_like(x)
        sums = np.stack([layout.by_level(r * x) for r in layout.products], axis=1)
        answer = np.einsum("gab,gb->ga", self.A, sums)
        total = np.zeros_like(x)
        for a, r in enumerate(layout.products):
            total += r * answer[:, a][layout.first.codes]
        return total


def feedback(layout: Layout, E: np.ndarray, vv: np.ndarray) -> Feedback:
    """A from the covariance E (G, q, q) of each level and ℓ_vv of its rows."""
    i, j = np.triu_indices(layout.q)
    rho = layout.products
    S = np.empty((layout.G, len(i), len(i)))
    for a in range(len(i)):
        weighted = vv * rho[a]
        for b in range(a, len(i)):
            S[:, a, b] = S[:, b, a] = layout.by_level(weighted * rho[b])
    square = 0.5 * (
        E[:, i[:, None], i] * E[:, j[:, None], j] + E[:, i[:, None], j] * E[:, j[:, None], i]
    )
    if not layout.q:
        return Feedback(layout, square)
    return Feedback(layout, 2 * np.linalg.solve(np.eye(len(i)) - 2 * square @ S, square))
