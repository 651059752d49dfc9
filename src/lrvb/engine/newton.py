"""The Newton step of the fixed point η = ∂L/∂m, inside a trust region in whitened coordinates.

With V = CCᵀ and m = m* + Cu the ELBO's Hessian along u is −B, B = I − CᵀH̃C, so lengths of u are
in mean-field standard deviations whatever the units of the data. Dropping H̃ (or damping without
limit) leaves coordinate ascent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..numerics.algebra import cholesky, whitened

_LARGE = 256  # above this many coordinates a full eigendecomposition costs too much
_FACTORISATIONS = 12  # of B + λ at most; two or three are usual


class Step(NamedTuple):
    """δη of length |u| ≤ radius, the ELBO gain it predicts, and the damping λ it needed."""

    delta: np.ndarray
    length: float
    gain: float
    damping: float


class Curved(NamedTuple):
    """The quadratic model at one point: residual r = ∂L/∂m − η, factor C, H̃, and B."""

    r: np.ndarray
    C: np.ndarray
    H: np.ndarray
    B: np.ndarray
    K: np.ndarray  # Cholesky factor of B, NaN when the point is not below a strict maximum

    @property
    def is_concave(self) -> bool:
        """Whether B is positive definite."""
        return bool(np.isfinite(self.K).all())

    @property
    def decrement(self) -> float:
        """√(rᵀΣ̂r): no linear quantity would move by more of its own linear-response sds."""
        if not self.is_concave:
            return np.inf
        return float(np.linalg.norm(_forward(self.K, self.C.T @ self.r)))


def curved(r: np.ndarray, C: np.ndarray, H: np.ndarray) -> Curved:
    """The quadratic model from residual, factor and curvature."""
    B = whitened(C, H)
    return Curved(r, C, H, B, cholesky(B))


def trust_region_step(model: Curved, radius: float) -> Step:
    """The maximiser u of ρᵀu − ½uᵀBu over |u| ≤ radius, ρ = Cᵀr, as a step in η.

    (B + λ)u = ρ gives δη = (r + H̃Cu)/(1 + λ), for which Cᵀδη = u without inverting C.
    """
    rho = model.C.T @ model.r
    if model.is_concave:
        u = scipy.linalg.cho_solve((model.K, True), rho)
        if np.linalg.norm(u) <= radius:
            return _step(model, rho, u, 0.0)
    if len(rho) > _LARGE:
        return _shifted_step(model, rho, radius)
    return _spectral_step(model, rho, radius)


def _spectral_step(model: Curved, rho: np.ndarray, radius: float) -> Step:
    """The step on the boundary from all eigenvalues of B: exact, for moderate sizes."""
    eigenvalues, Q = np.linalg.eigh(model.B)
    projected = Q.T @ rho
    low = float(eigenvalues[0])

    def coordinates(damping: float) -> np.ndarray:
        return projected / (eigenvalues + damping)

    floor = max(0.0, -low)
    margin = 1e-12 * max(1.0, abs(low), float(np.abs(eigenvalues[-1])))
    if low <= 0 and np.linalg.norm(coordinates(floor + margin)) < radius:
        # The hard case, such as an exact saddle: go along the direction of most ascent.
        w = coordinates(floor + margin)
        w[0] += np.sqrt(max(radius**2 - w @ w, 0.0)) * (1.0 if w[0] >= 0 else -1.0)
        return _step(model, rho, Q @ w, floor)
    lower = floor + margin * (low <= 0)
    upper = floor + float(np.linalg.norm(rho)) / radius + 1.0
    for _ in range(200):  # |u(λ)| falls with λ: bisection is safe and cheap
        middle = 0.5 * (lower + upper)
        if np.linalg.norm(coordinates(middle)) > radius:
            lower = middle
        else:
            upper = middle
        if upper - lower <= 1e-3 * (upper - floor):
            break
    return _step(model, rho, Q @ coordinates(upper), upper)


def _shifted_step(model: Curved, rho: np.ndarray, radius: float) -> Step:
    """The same for large sizes: a few Cholesky factorisations of B + λ (Moré and Sorensen).

    An eigenvector is needed only where B is not positive definite, and then only the lowest.
    """
    identity, lower, vector = np.eye(len(rho)), 0.0, None
    if not model.is_concave:
        from scipy.sparse.linalg import eigsh  # slow to import, and seldom needed

        low, Q = eigsh(model.B, k=1, which="SA", tol=1e-4)
        lower, vector = max(0.0, -1.001 * float(low[0])), Q[:, 0]
    upper = lower + float(np.linalg.norm(rho)) / radius + 1.0
    damping, u = max(lower, 1e-3 * upper), np.zeros_like(rho)
    of_u = damping  # the damping that u was solved with: `damping` runs ahead of it
    for _ in range(_FACTORISATIONS):
        K = cholesky(model.B + damping * identity)
        if not np.isfinite(K).all():
            lower, damping = damping, 0.5 * (damping + upper)
            continue
        u, of_u = scipy.linalg.cho_solve((K, True), rho), damping
        length = float(np.linalg.norm(u))
        if 0.8 * radius <= length <= radius or (length < radius and damping - lower < 1e-3):
            break
        lower, upper = (damping, upper) if length > radius else (lower, damping)
        slope = float(np.linalg.norm(_forward(K, u)))
        newton = damping + (length / slope) ** 2 * (length - radius) / radius
        damping = newton if lower < newton < upper else 0.5 * (lower + upper)
    length = float(np.linalg.norm(u))
    if length > radius:  # shorten u and δη alike: their relation Cᵀδη = u is linear
        full, share = _step(model, rho, u, of_u), radius / length
        gain = float(share * (rho @ u) - 0.5 * share**2 * (u @ (model.B @ u)))
        return Step(share * full.delta, radius, gain, of_u)
    if vector is not None and length < 0.8 * radius:  # the hard case
        u = u + np.sqrt(radius**2 - length**2) * vector * (1.0 if vector @ u >= 0 else -1.0)
    return _step(model, rho, u, of_u)


def _step(model: Curved, rho: np.ndarray, u: np.ndarray, damping: float) -> Step:
    gain = float(rho @ u - 0.5 * u @ (model.B @ u))
    delta = (model.r + model.H @ (model.C @ u)) / (1.0 + damping)
    return Step(delta, float(np.linalg.norm(u)), gain, damping)


def _forward(K: np.ndarray, y: np.ndarray) -> np.ndarray:
    return scipy.linalg.solve_triangular(K, y, lower=True, check_finite=False)
