"""Gaussian approximations on fixed draws: mean field, and one of full rank.

z are antithetic Sobol normals with exact second moments, so that the objective is a smooth function
with an exact optimum, and exact for quadratic log p.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ..numerics.sobol import sobol
from .ascent import alone, lbfgs
from .kernel import Kernel

DRAWS = 64
ATTEMPTS = 5
ENDLESS = 1e12  # an sd that no attempt will bound
SPARED = 0.05  # share of the draws that may lie where log p is −∞ or not a number


def normal_draws(n: int, d: int, seed: int = 1) -> np.ndarray:
    """n antithetic normals (n, d) of mean zero and unit variances; of unit covariance if n ≥ 4d."""
    half = ndtri(sobol(n // 2, d, seed))
    if len(half) >= 2 * d:
        half = np.linalg.solve(np.linalg.cholesky(half.T @ half / len(half)), half.T).T
    else:
        half = half / np.sqrt((half**2).mean(axis=0))
    return np.concatenate([half, -half])


def spared(value: np.ndarray) -> np.ndarray | None:
    """log p at the draws, the lowest standing in for a few that have none; None if they are many."""
    bad = ~np.isfinite(value)
    if bad.mean() > SPARED:
        return None
    return np.where(bad, value[~bad].min(), value)


def entropy_constant(d: int) -> float:
    """Entropy of a standard normal in d dimensions."""
    return 0.5 * d * (1 + np.log(2 * np.pi))


class MeanField(NamedTuple):
    """q(x) = N(mean, diag sd²) and the draws z (M, D) on which it is the best one."""

    mean: np.ndarray
    sd: np.ndarray
    elbo: float
    z: np.ndarray
    converged: bool
    trace: tuple[float, ...]


def fit_mean_field(
    kernel: Kernel, start: np.ndarray, root: np.ndarray, *, attempts: int = ATTEMPTS
) -> MeanField:
    """Maximise mean log p(m + s∘z) + Σ log s over m = start + root·u and log s, by L-BFGS.

    root (D, D) is a root of a covariance near the posterior's, which makes u well conditioned; s starts
    as what it says of each coordinate given the others. Where that was far off, the sds found so far
    are the scales of another of some attempts.
    """
    q = _attempt(kernel, start, root)
    for _ in range(attempts):
        if q.converged or not np.isfinite(q.elbo) or (q.sd > ENDLESS).any():
            break
        again = _attempt(kernel, q.mean, np.diag(q.sd))
        q = again._replace(trace=(*q.trace, *again.trace))
    return q


def _attempt(kernel: Kernel, start: np.ndarray, root: np.ndarray) -> MeanField:
    D = kernel.size
    z = normal_draws(DRAWS, D)
    inverse = np.linalg.inv(root)
    sd = 1 / np.sqrt((inverse**2).sum(axis=0))

    def at(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return start + root @ theta[:D], np.exp(np.clip(theta[D:], -60, 60)) * sd

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        m, s = at(theta)
        found, gradient = kernel(m + s * z)
        if (value := spared(found)) is None:
            return -np.inf, np.zeros(2 * D)
        along = (gradient * s * z).mean(axis=0) + 1
        elbo = float(value.mean()) + np.log(s).sum() + entropy_constant(D)
        return elbo, np.concatenate([gradient.mean(axis=0) @ root, along])

    theta = np.zeros(2 * D)
    for _ in range(25):  # a start so wide that some draw has no density
        if np.isfinite(objective(theta)[0]):
            break
        theta[D:] -= 0.5
    found = lbfgs(alone(objective), theta, tol=1e-4)
    m, s = at(found.x)
    return MeanField(m, s, found.value, z, found.converged, found.trace)


class FullRank(NamedTuple):
    """q(x) = N(mean, LLᵀ); `residual` is what is left of its fixed point, in its own units."""

    mean: np.ndarray
    L: np.ndarray
    elbo: float
    residual: float
    steps: int
    trace: tuple[float, ...]

    @property
    def converged(self) -> bool:
        """Whether the fixed point was reached."""
        return self.residual < 10 * TOLERANCE


TOLERANCE = 1e-3


def full_rank_draws(d: int) -> int:
    """As many as a matrix of d(d+1)/2 numbers needs to be averaged well."""
    return 1024 if d <= 20 else 2048


class FullRankObjective:
    """The ELBO of N(mean, LLᵀ) on fixed draws, with its derivatives in coordinates whitened by L.

    Whitened, E[∇²log p] is E[Lᵀ∇log p zᵀ] by Stein's lemma: gradients are enough.
    """

    def __init__(self, kernel: Kernel):
        self.kernel, D = kernel, kernel.size
        self.z = normal_draws(full_rank_draws(D), D)

    def __call__(self, mean: np.ndarray, L: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """ELBO, g = E[Lᵀ∇log p] (D,), and the precision A = −E[Lᵀ∇²log p L], which is I at the optimum."""
        D = len(mean)
        found, gradient = self.kernel(mean + self.z @ L.T)
        if (value := spared(found)) is None:
            return -np.inf, np.zeros(D), np.eye(D)
        g = gradient @ L
        A = -g.T @ self.z / len(self.z)
        elbo = float(value.mean() + np.linalg.slogdet(L)[1]) + entropy_constant(D)
        return elbo, g.mean(axis=0), 0.5 * (A + A.T)


def fit_full_rank(
    objective: FullRankObjective, mean: np.ndarray, L: np.ndarray, *, most: int = 25
) -> FullRank:
    """Fixed point of E ∇log p = 0 and E[∇²log p] = −(LLᵀ)⁻¹, by damped steps that raise the ELBO."""
    D = len(mean)
    elbo, g, A = objective(mean, L)
    for _ in range(25):
        if np.isfinite(elbo):
            break
        L = 0.6 * L
        elbo, g, A = objective(mean, L)
    trace = [elbo]
    for _ in range(most):
        if _residual(g, A) < TOLERANCE:
            break
        w, U = np.linalg.eigh(A)
        damping = 1.0
        while damping > 1e-3:
            precision = np.clip(1 + damping * (w - 1), 0.25, 8.0 if damping < 1 else None)
            step = U @ ((U.T @ g) / precision) * damping
            step *= min(1.0, 2 * np.sqrt(D) / max(float(np.linalg.norm(step)), 1e-300))
            new_L = L @ (U / np.sqrt(precision)) @ U.T
            found = objective(mean + L @ step, new_L)
            if found[0] > elbo - 1e-9 * abs(elbo):
                break
            damping *= 0.5
        else:
            break
        mean, L = mean + L @ step, new_L
        elbo, g, A = found
        trace.append(elbo)
    return FullRank(mean, L, elbo, _residual(g, A), len(trace) - 1, tuple(trace))


def refine_full_rank(
    objective: FullRankObjective, q: FullRank, K: np.ndarray, *, most: int = 6
) -> FullRank:
    """Newton steps K⁻¹(g, I − A) in (δμ, δB), K the negative curvature of the ELBO at q.

    Where q is curved the fixed point is slow, and linear response needs the optimum.
    """
    D = len(q.mean)
    i, j = np.tril_indices(D)
    scale = np.where(i == j, 1.0, np.sqrt(2.0))
    for _ in range(most):
        elbo, g, A = objective(q.mean, q.L)
        if _residual(g, A) < TOLERANCE:
            break
        packed = np.concatenate([g, scale * (np.eye(D) - A)[i, j]])
        delta = np.linalg.solve(K, packed)
        B = np.zeros((D, D))
        B[i, j] = B[j, i] = delta[D:] / scale
        t = min(1.0, 0.5 / float(np.abs(np.linalg.eigvalsh(B)).max() + 1e-300))
        for _ in range(6):
            mean, L = q.mean + t * q.L @ delta[:D], q.L @ (np.eye(D) + t * B)
            new, *rest = objective(mean, L)
            if new > elbo:
                break
            t *= 0.4
        else:
            break
        q = FullRank(mean, L, new, _residual(*rest), q.steps + 1, (*q.trace, new))
    return q


def climb_full_rank(objective: FullRankObjective, q: FullRank, *, most: int = 60) -> FullRank:
    """L-BFGS in (δμ, B), mean = μ + L δμ and root L(I + B) with B symmetric, whitened by q.

    For more dimensions than Newton's method has curvatures for. In an orthonormal basis, with B scaled by
    √2, the curvature of a quadratic log p is I.
    """
    D = len(q.mean)
    i, j = np.tril_indices(D)
    scale = np.where(i == j, np.sqrt(0.5), 0.5)

    def at(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        B = np.zeros((D, D))
        B[i, j] = B[j, i] = scale * theta[D:]
        return q.mean + q.L @ theta[:D], np.eye(D) + B

    def ascent(theta: np.ndarray) -> tuple[float, np.ndarray]:
        mean, M = at(theta)
        if np.linalg.eigvalsh(M)[0] <= 0:
            return -np.inf, np.zeros_like(theta)
        elbo, g, A = objective(mean, q.L @ M)
        inverse = np.linalg.inv(M)
        G = inverse @ (np.eye(D) - A)
        G = 0.5 * (G + G.T)
        along = np.where(i == j, 1.0, 2.0) * scale * G[i, j]
        return elbo, np.concatenate([inverse @ g, along])

    found = lbfgs(alone(ascent), np.zeros(D + len(i)), tol=TOLERANCE, most=most)
    mean, M = at(found.x)
    L = q.L @ M
    elbo, g, A = objective(mean, L)
    return FullRank(mean, L, elbo, _residual(g, A), q.steps + found.steps, (*q.trace, *found.trace))


def _residual(g: np.ndarray, A: np.ndarray) -> float:
    return max(float(np.abs(g).max()), float(np.abs(A - np.eye(len(g))).max()))
