"""The conditional distributions of a mixture's parameters given its labels.

Each draws all K components at once and needs the rows only through their sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...errors import InvalidModel


class ComponentSums(NamedTuple):
    """ComponentSums over the rows of each component."""

    rows: np.ndarray
    """Number of rows N_k, (K,)"""
    x: np.ndarray
    """Σ x_n, (K, P)"""
    xx: np.ndarray
    """Σ x_n x_nᵀ, (K, P, P)"""


class GibbsPriors(NamedTuple):
    """μ_k ~ N(mean, I / mean_precision), Λ_k ~ Wishart(dof, scale), π ~ Dirichlet(concentration).

    A flat prior has mean_precision 0, inverse_scale 0, concentration 0.
    """

    mean: np.ndarray
    """(P,)"""
    mean_precision: float
    dof: float
    inverse_scale: np.ndarray
    """W₀⁻¹, (P, P)"""
    concentration: np.ndarray
    """(K,)"""


def make_priors(
    K: int,
    P: int,
    mean: float | np.ndarray,
    mean_precision: float,
    dof: float | None,
    scale: float | np.ndarray,
    concentration: float | np.ndarray,
) -> GibbsPriors:
    """Priors of K components in P dimensions; numbers stand for multiples of 1 or I."""
    dof = P + 1.0 if dof is None else float(dof)
    W = np.asarray(scale, float)
    if W.ndim and W.shape != (P, P):
        raise InvalidModel(f"The Wishart scale must be a number or ({P}, {P}), not {W.shape}.")
    concentration = np.broadcast_to(np.asarray(concentration, float), (K,))
    within = {
        "mean precision": mean_precision >= 0,
        "Wishart degrees of freedom": dof >= 0,
        "Wishart scale": (np.linalg.eigvalsh(W).min() if W.ndim else W) > 0,
        "weight concentration": concentration.min() >= 0,
    }
    for name, right in within.items():
        if not right:
            raise InvalidModel(f"The prior's {name} is outside its range.")
    return GibbsPriors(
        np.broadcast_to(np.asarray(mean, float), (P,)),
        float(mean_precision),
        dof,
        np.linalg.inv(W) if W.ndim else np.eye(P) / W,
        concentration,
    )


def fewest_rows(priors: GibbsPriors) -> int:
    """Rows that a component needs for its conditionals to be proper."""
    P = len(priors.mean)
    needed = int(priors.mean_precision == 0 or bool((priors.concentration == 0).any()))
    if not priors.inverse_scale.any():
        needed = max(needed, P)
    return max(needed, int(np.floor(P - priors.dof)))  # N_k + dof > P − 1


def draw_precisions(
    rng: np.random.Generator, sums: ComponentSums, mu: np.ndarray, priors: GibbsPriors
) -> tuple[np.ndarray, np.ndarray]:
    """Λ_k ~ Wishart(dof + N_k, S_k⁻¹), S_k = W₀⁻¹ + Σ (x_n − μ_k)(x_n − μ_k)ᵀ, and log|Λ_k|.

    Bartlett: with S = LLᵀ and A lower triangular, A_ii² ~ χ²(ν − i) and standard normal below the
    diagonal, Λ = CCᵀ for C = L⁻ᵀA. Shapes (K, P, P) and (K,).
    """
    K, P = mu.shape
    rest = sums.x - sums.rows[:, None] * mu
    outer = sums.x[:, :, None] * mu[:, None, :] + mu[:, :, None] * rest[:, None, :]
    L = np.linalg.cholesky(priors.inverse_scale + sums.xx - outer)
    A = rng.standard_normal((K, P, P)) * (np.arange(P)[:, None] > np.arange(P))
    half = 0.5 * (priors.dof + sums.rows[:, None] - np.arange(P))
    diagonal = np.sqrt(2 * rng.standard_gamma(half))
    A.reshape(K, -1)[:, :: P + 1] = diagonal
    C = np.linalg.solve(L.transpose(0, 2, 1), A)
    logdet = 2 * np.log(diagonal / L.reshape(K, -1)[:, :: P + 1]).sum(1)
    return C @ C.transpose(0, 2, 1), logdet


def draw_means(
    rng: np.random.Generator, sums: ComponentSums, Lambda: np.ndarray, priors: GibbsPriors
) -> np.ndarray:
    """μ_k ~ N(Q⁻¹(Λ_k Σ x_n + κm₀), Q⁻¹), Q = N_k Λ_k + κI, κ the prior's precision: (K, P)."""
    kappa = priors.mean_precision
    Q = sums.rows[:, None, None] * Lambda + kappa * np.eye(len(priors.mean))
    L = np.linalg.cholesky(Q)
    b = Lambda @ sums.x[:, :, None] + kappa * priors.mean[:, None]
    whitened = np.linalg.solve(L, b) + rng.standard_normal(b.shape)
    return np.linalg.solve(L.transpose(0, 2, 1), whitened)[:, :, 0]


def draw_weights(rng: np.random.Generator, sums: ComponentSums, priors: GibbsPriors) -> np.ndarray:
    """Logarithms of π ~ Dirichlet(concentration + N_k), shape (K,)."""
    g = rng.standard_gamma(priors.concentration + sums.rows)
    return np.log(g) - np.log(g.sum())
