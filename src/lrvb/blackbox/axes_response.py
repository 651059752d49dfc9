"""Linear response of a full-rank Gaussian in many dimensions, along axes.

N(μ, LLᵀ) has D(D+3)/2 parameters, whose curvature is too large a matrix and too noisy on few draws. Of
δB, whitened by L, only the diagonal is coupled to δμ and to itself; the rest answers as if log p were
quadratic. The axes of L are near the coordinates, in which hierarchies have their scales.
See: eq:lrvb_derivative_defn
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from .gaussian import DRAWS, FullRank, FullRankObjective, climb_full_rank, normal_draws
from .kernel import Kernel, Values
from .linear_response import (
    Responded,
    axes_curvature,
    finite_values,
    points,
    regression,
    root_or_none,
)


def along_axes(q: FullRank) -> FullRank:
    """The same Gaussian with L = diag(sd) C^½, C its correlations."""
    S = q.L @ q.L.T
    sd = np.sqrt(np.diag(S))
    w, U = np.linalg.eigh(S / np.outer(sd, sd))
    return q._replace(L=sd[:, None] * (U * np.sqrt(np.maximum(w, 0.0))) @ U.T)


def curvature(kernel: Kernel, q: FullRank) -> np.ndarray:
    """K (2D, 2D) in (δμ, diag δB). The mean of LᵀHL is −I at the optimum, and is taken as that."""
    D = kernel.size
    K = axes_curvature(kernel, q.mean, q.L, normal_draws(DRAWS, D))
    mean = K[:D, :D].copy()
    K[:D, :D] = np.eye(D)
    K[D:, D:] += 2 * np.eye(D) - np.diag(np.diag(mean))
    return K


def optimum_along_axes(
    kernel: Kernel, objective: FullRankObjective, q: FullRank
) -> tuple[FullRank, np.ndarray]:
    """The full-rank fit brought to its optimum by L-BFGS, and K there."""
    q = climb_full_rank(objective, along_axes(q))
    return q, curvature(kernel, q)


def respond_along_axes(q: FullRank, K: np.ndarray, values: Values) -> Responded:
    """Σ̂ = JK⁻¹Jᵀ along axes, and Cov_q of what is left of g beside them."""
    D = len(q.mean)
    z = normal_draws(points(2 * D), D, seed=5)
    g = finite_values(values, q.mean + z @ q.L.T)
    features = np.hstack([z, (z**2 - 1) / np.sqrt(2)])
    mean, J = regression(features, g)
    V = np.cov(g.T).reshape(g.shape[1], g.shape[1])
    if (root := root_or_none(K)) is None:
        return Responded(mean, None, V)
    rest = g - mean - features @ J
    J[D:] *= np.sqrt(2)
    half = scipy.linalg.solve_triangular(root, J, lower=True)
    return Responded(mean, half.T @ half + rest.T @ rest / len(g), V)
