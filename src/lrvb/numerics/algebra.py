"""The paper's two matrix formulas, and the small factorisations they stand on.

Both work on NumPy arrays of the size of the global parameters and, traced, on JAX arrays of the
size of one row's local variables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from .lazy import jnp

_UNROLLED = 4  # factorisations this small are written out: XLA fuses them over the rows


def linear_response(C: Any, H: Any, K: Any = None) -> Any:
    r"""Covariance Σ̂ = (I − VH)⁻¹V, computed as C(I − CᵀHC)⁻¹Cᵀ with V = CCᵀ.

    Symmetric by construction; a singular V (a categorical z) is welcome. Not a strict maximum
    gives NaN, which `linearize` and `fit` turn into NotAMaximum or a rejected step. K is the
    Cholesky factor of I − CᵀHC, where it is known already.
    Paper: eq:spec_lrvb
    """
    W = response_root(C, H, K)
    return W.T @ W


def response_root(C: Any, H: Any, K: Any = None) -> Any:
    """W with Σ̂ = WᵀW; H may be None where it is zero. See: eq:spec_lrvb."""
    if H is None:
        return C.T
    if K is None:
        K = cholesky(whitened(C, H))
    return solve_lower(K, C.T)


def whitened(C: Any, H: Any) -> Any:
    """B = I − CᵀHC: minus the Hessian of the ELBO along u, where m = m* + Cu."""
    B = sandwich(C, H) if isinstance(C, np.ndarray) else C.T @ H @ C
    return np.eye(C.shape[1]) - (B + B.T) / 2


def sandwich(C: np.ndarray, H: np.ndarray) -> np.ndarray:
    """CᵀHC for a square C, block by block where C is block diagonal."""
    blocks = diagonal_blocks(C)
    left = np.empty_like(H)
    for b in blocks:
        left[b] = C[b, b].T @ H[b]
    result = np.empty_like(H)
    for b in blocks:
        result[:, b] = left[:, b] @ C[b, b]
    return result


def gram(C: np.ndarray) -> np.ndarray:
    """V = CCᵀ for a square C, block by block where C is block diagonal."""
    V = np.zeros_like(C)
    for b in diagonal_blocks(C):
        V[b, b] = C[b, b] @ C[b, b].T
    return V


def diagonal_blocks(C: np.ndarray) -> list[slice]:
    """The finest contiguous blocks outside of which a square C is zero."""
    n = len(C)
    index = np.arange(n)
    nonzero = C != 0
    reach = np.maximum(
        np.where(nonzero, index, 0).max(axis=1), np.where(nonzero, index[:, None], 0).max(axis=0)
    )
    ends = np.flatnonzero(np.maximum.accumulate(np.maximum(reach, index)) == index) + 1
    return [slice(int(i), int(j)) for i, j in zip(np.r_[0, ends[:-1]], ends, strict=True)]


def absorb_local(H_aa: Any, roots: Any) -> Any:
    r"""Effective curvature H̃ = H_α + H_αz Σ̂_z|α H_zα, with Σ̂_z|α the response of z alone.

    `roots` are the `local_root` of one row, or those of many rows stacked: their Gram matrix sums
    what every row adds.
    Paper: eq:nuisance_lrvb_est
    """
    return H_aa + roots.T @ roots


def local_root(H_za: Any, C_z: Any, H_zz: Any) -> Any:
    """W H_zα of one row, (d, a), where Σ̂_z|α = WᵀW. See: eq:nuisance_lrvb_est."""
    return response_root(C_z, H_zz) @ H_za


def local_covariance(
    Sigma_z: np.ndarray, R: np.ndarray, Sigma: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Cov(z) = Σ̂_z|α + RΣ̂_αRᵀ (…, d, d) and Cov(z, α) = RΣ̂_α (…, d, a).

    z are variables that were integrated out, Σ̂_z|α (…, d, d) their response alone and R (…, d, a) how
    their means follow m_α. See: eq:nuisance_lrvb_est
    """
    cross = R @ Sigma
    return Sigma_z + cross @ np.swapaxes(R, -1, -2), cross


def cholesky(B: Any) -> Any:
    """Lower Cholesky factor; NaN where B is not positive definite, never an exception."""
    if isinstance(B, np.ndarray):
        try:
            return scipy.linalg.cholesky(B, lower=True)
        except (np.linalg.LinAlgError, ValueError):
            return np.full_like(B, np.nan)
    d = B.shape[-1]
    if d > _UNROLLED:
        return jnp.linalg.cholesky(B)
    L: list[list[Any]] = [[jnp.zeros_like(B[0, 0])] * d for _ in range(d)]
    for j in range(d):
        L[j][j] = jnp.sqrt(B[j, j] - sum(L[j][k] ** 2 for k in range(j)))
        for i in range(j + 1, d):
            L[i][j] = (B[i, j] - sum(L[i][k] * L[j][k] for k in range(j))) / L[j][j]
    return jnp.stack([jnp.stack(row) for row in L])


def solve_lower(K: Any, Y: Any) -> Any:
    """K⁻¹Y for lower triangular K."""
    if isinstance(K, np.ndarray):
        if not np.isfinite(K).all():
            return np.full((K.shape[0], *Y.shape[1:]), np.nan)
        return scipy.linalg.solve_triangular(K, Y, lower=True, check_finite=False)
    d = K.shape[-1]
    if d > _UNROLLED:
        return jnp.linalg.solve(K, Y)
    X: list[Any] = []
    for i in range(d):
        X.append((Y[i] - sum(K[i, k] * X[k] for k in range(i))) / K[i, i])
    return jnp.stack(X)
