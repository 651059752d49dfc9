"""Linear response of a Gaussian fit on fixed draws: the answer of its optimum to a tilt of log p.

Covariances of values g are J K⁻¹ Jᵀ: K the negative curvature of the ELBO in the parameters of q, J the
derivative of E_q g in them. J comes from a regression of g on Hermite polynomials of z, by Stein's
lemma, so that g needs no derivatives. See: eq:lrvb_derivative_defn
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..errors import InvalidModel
from ..numerics.hmc import steady
from .gaussian import (
    TOLERANCE,
    FullRank,
    FullRankObjective,
    MeanField,
    normal_draws,
    refine_full_rank,
)
from .kernel import Kernel, Values

CURVATURE = 256  # draws whose Hessians are averaged
FEWER = 64  # that are enough where they hardly differ
ALIKE = 0.08  # largest sd of an entry, in units of q's precision: an error of 1 % of the mean of 64
_LEAST = 2048  # draws of a regression
_MOST = 8192


class Responded(NamedTuple):
    """Means E_q g (q,), linear response's covariances Σ̂ (q, q), and plain Cov_q g (q, q).

    Σ̂ is None where the ELBO has no strict maximum at q.
    """

    mean: np.ndarray
    Sigma: np.ndarray | None
    V: np.ndarray


def mean_field_curvature(kernel: Kernel, q: MeanField) -> np.ndarray:
    """K (2D, 2D) in units of q's sds: (δm/s, δ log s)."""
    D = kernel.size
    K = axes_curvature(kernel, q.mean, np.diag(q.sd), q.z)
    _, gradient = kernel(q.mean + q.sd * q.z)
    K[D:, D:] -= np.diag((gradient * q.sd * q.z).mean(axis=0))
    return K


def axes_curvature(
    kernel: Kernel, mean: np.ndarray, root: np.ndarray, draws: np.ndarray
) -> np.ndarray:
    """−E[(δ + δ′∘z)ᵀH(δ + δ′∘z)] as a matrix (2D, 2D) in (δ, δ′), H = rootᵀ∇²log p root at mean + root·z."""
    D = kernel.size
    K = np.zeros((2 * D, 2 * D))
    chunk, n = max(1, 2**22 // D**2), 0
    for start in range(0, len(draws), chunk):
        z = draws[start : start + chunk]
        z, H = _known(z, kernel.hessians(mean + z @ root.T, root))
        n += len(z)
        K[:D, :D] -= H.sum(axis=0)
        K[:D, D:] -= (H * z[:, None, :]).sum(axis=0)
        K[D:, D:] -= (z[:, :, None] * H * z[:, None, :]).sum(axis=0)
    K /= max(n, 1)
    K[D:, :D] = K[:D, D:].T
    return K


def coordinate_covariance(K: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
    """Linear response's covariance of x itself, or None; scale (D, D) is what whitens K: diag s, or L."""
    root = root_or_none(K)
    if root is None:
        return None
    first = np.eye(len(K))[:, : len(scale)]
    half = scipy.linalg.solve_triangular(root, first, lower=True) @ scale.T
    return half.T @ half


def respond_mean_field(q: MeanField, K: np.ndarray, values: Values) -> Responded:
    """Linear response of mean field in named values."""
    D = len(q.mean)
    z = normal_draws(points(2 * D), D, seed=5)
    g = finite_values(values, q.mean + q.sd * z)
    features = np.hstack([z, (z**2 - 1) / np.sqrt(2)])
    mean, J = regression(features, g)
    J[D:] *= np.sqrt(2)
    return _responded(mean, J, K, g)


def _hessians(kernel: Kernel, q: FullRank, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n draws z of q and LᵀHL there; those without a density are left out."""
    z = normal_draws(n, kernel.size)
    parts = np.array_split(z, n // 8)
    H = np.concatenate([kernel.hessians(q.mean + part @ q.L.T, q.L) for part in parts])
    return _known(z, H)


def full_rank_curvature(kernel: Kernel, q: FullRank) -> np.ndarray:
    """K in (δμ, δB), whitened by L, δB symmetric in an orthonormal basis.

    K(δ, δ) = −mean[(δμ + δBz)ᵀ LᵀHL (δμ + δBz)] + tr δB². The mean of LᵀHL is −I at the optimum; what
    few draws say otherwise is taken off.
    """
    D = kernel.size
    z, H = _hessians(kernel, q, FEWER)
    if not (H.std(axis=0) <= ALIKE).all():
        z, H = _hessians(kernel, q, CURVATURE)
    H = H - H.mean(axis=0) - np.eye(D)
    n, (i, j) = len(z), np.tril_indices(D)
    weight = np.where(i == j, 0.5, np.sqrt(0.5))
    T = np.einsum("ma,mbc->abc", z, H, optimize=True) / n  # δμ_b against δB_ca
    cross = weight * (T[i, :, j] + T[j, :, i]).T
    F = ((z[:, :, None] * z[:, None, :]).reshape(n, -1).T @ H.reshape(n, -1)).reshape(
        D, D, D, D
    ) / n
    # (δB z)ᵀH(δB′z) = Σ δB_ab z_b H_ac δB′_cd z_d, so that F[b, d, a, c] belongs to (ab), (cd)
    block = np.zeros((len(i), len(i)))
    for a, b in ((i, j), (j, i)):
        for c, d in ((i, j), (j, i)):
            block += F[b[:, None], d[None], a[:, None], c[None]]
    block *= np.outer(weight, weight)
    K = np.block([[np.eye(D), -cross], [-cross.T, np.eye(len(i)) - block]])
    return 0.5 * (K + K.T)


def optimum_with_curvature(
    kernel: Kernel, objective: FullRankObjective, q: FullRank
) -> tuple[FullRank, np.ndarray]:
    """The full-rank fit brought to its optimum by Newton's method, and K there."""
    K = full_rank_curvature(kernel, q)
    if q.residual < TOLERANCE:
        return q, K
    for _ in range(2):
        if root_or_none(K) is None:
            break
        before, q = q, refine_full_rank(objective, q, K)
        if q is before:
            break
        K = full_rank_curvature(kernel, q)
        if q.residual < TOLERANCE:
            break
    return q, K


def respond_full_rank(q: FullRank, K: np.ndarray, values: Values) -> Responded:
    """Linear response of the full-rank Gaussian in named values."""
    D = len(q.mean)
    i, j = np.tril_indices(D)
    z = normal_draws(points(D + len(i)), D, seed=5)
    g = finite_values(values, q.mean + z @ q.L.T)
    scale = np.where(i == j, np.sqrt(0.5), 1.0)
    features = np.hstack([z, scale * (z[:, i] * z[:, j] - (i == j))])
    mean, J = regression(features, g)
    J[D:] *= np.sqrt(2)
    return _responded(mean, J, K, g)


def finite_values(values: Values, x: np.ndarray) -> np.ndarray:
    """Named values at draws of q; those that are not finite are told."""
    g = steady(values(x))
    if not np.isfinite(g).all():
        at = int(np.flatnonzero(~np.isfinite(g).all(axis=0))[0])
        name = values.names[at]
        raise InvalidModel(
            f"'{name}' is not a finite number at some points near the posterior mean, so that it has no "
            "mean. Leave it out, or give a transformation of it in `functions`.",
            quantity=name,
        )
    return g


def _known(z: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The draws at which a Hessian is known."""
    known = np.isfinite(H).all(axis=(1, 2))
    return z[known], H[known]


def points(features: int) -> int:
    """Draws for a regression on so many features."""
    return int(np.clip(2 ** np.ceil(np.log2(6 * features)), _LEAST, _MOST))


def regression(features: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Constant (q,) and coefficients (p, q) of least squares on features that are nearly orthonormal."""
    X = np.hstack([np.ones((len(g), 1)), features])
    center = g.mean(axis=0)
    b = scipy.linalg.solve(X.T @ X, X.T @ (g - center), assume_a="pos")
    return center + b[0], b[1:]


def _responded(mean: np.ndarray, J: np.ndarray, K: np.ndarray, g: np.ndarray) -> Responded:
    root = root_or_none(K)
    V = np.cov(g.T).reshape(g.shape[1], g.shape[1])
    if root is None:
        return Responded(mean, None, V)
    half = scipy.linalg.solve_triangular(root, J, lower=True)
    return Responded(mean, half.T @ half, V)


def root_or_none(K: np.ndarray) -> np.ndarray | None:
    """Cholesky's root, or None if K is not positive definite."""
    try:
        return np.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        return None
