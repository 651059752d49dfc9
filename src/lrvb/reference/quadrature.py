"""Integration of a smooth two-dimensional density by the trapezoid rule.

The trapezoid rule on an infinite lattice converges faster than any power of its step for a smooth
density that vanishes at infinity. So a lattice in coordinates whitened at the mode, extended until
nothing is left outside, is exact for all practical purposes, and says so: its sublattices of twice
the step have roughly the square root of its error and are checked for free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import sici

STEP = 0.5  # of an sd; for a Gaussian the relative error is 2 exp(−2π²/step²) = 1e-34
DEPTH = 32.0  # nats below the mode at which the lattice may end: exp(−32) = 1e-14
SUBLATTICE_TOLERANCE = 1e-5  # roughly the square root of the error of the lattice itself
REFINEMENTS = 4

LogDensity = Callable[[np.ndarray], np.ndarray]


class Grid(NamedTuple):
    """Lattice u = mode + L(a, b), L lower triangular, with G points."""

    points: np.ndarray
    """(G, 2)"""
    weight: np.ndarray
    """(G,), density at the points, summing to one"""
    log_integral: float
    """log of the integral of the density"""
    spacing: np.ndarray
    """(2,), step · diag(L): distance of neighbours that differ in one coordinate alone"""


def integrate(
    log_density: LogDensity, start: np.ndarray, *, refine: float = 1.0, depth: float = DEPTH
) -> Grid:
    """Lattice on which the density exp(log_density) is summed.

    `log_density` maps points (G, 2) to (G,). `refine` divides the step; `depth` is how far, in
    nats below the highest value, the lattice's edges must lie. The step is halved until the
    sublattices agree.
    """
    mode, L = locate(log_density, start)
    step = STEP / refine
    for _ in range(REFINEMENTS + 1):
        lattice, values = _cover(lambda t: log_density(mode + t @ L.T), step, depth)
        top = values.max()
        mass = np.exp(values - top)
        if _sublattice_discrepancy(lattice, mass) < SUBLATTICE_TOLERANCE:
            break
        step /= 2
    else:
        raise ArithmeticError(
            f"The integral has not converged at a step of {2 * step:.1e} sd. The density may have "
            "several modes or a kink; a closer start may help."
        )
    spacing = step * np.diag(L)
    log_integral = top + np.log(mass.sum()) + np.log(spacing).sum()
    points = mode + lattice.reshape(-1, 2) @ L.T
    return Grid(points, mass.ravel() / mass.sum(), float(log_integral), spacing)


def locate(log_density: LogDensity, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mode (2,), and lower triangular L with LLᵀ the inverse of the negative Hessian there."""

    def cost(u: np.ndarray) -> float:
        return -float(log_density(u[None])[0])

    options = {"xatol": 1e-5, "fatol": 1e-8, "maxiter": 2000}
    mode = minimize(cost, np.asarray(start, float), method="Nelder-Mead", options=options).x
    L = 0.1 * np.eye(2)
    for _ in range(4):  # the differences are taken over half an sd, which is known better each time
        Q = L.T @ _negative_hessian(log_density, mode, 0.5 * L) @ L
        eigenvalues, vectors = np.linalg.eigh(Q)
        whiten = vectors / np.sqrt(np.clip(np.abs(eigenvalues), 1e-4, None))
        L = np.linalg.cholesky(L @ whiten @ whiten.T @ L.T)
    return mode, L


def step_kernel(t: np.ndarray) -> np.ndarray:
    """Integral up to t of the sinc function, ½ + Si(πt)/π.

    Sums of lattice weights times this kernel are integrals of the sinc interpolant of the density:
    P(u_k ≤ c) = Σ_g weight_g · step_kernel((c − u_gk) / spacing_k).
    """
    return 0.5 + sici(np.pi * t)[0] / np.pi


def _negative_hessian(log_density: LogDensity, u: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Negative Hessian (2, 2) by central differences along the columns of `steps`."""
    signs = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)])
    f = log_density(u + signs @ steps.T).reshape(3, 3)
    aa = f[2, 1] - 2 * f[1, 1] + f[0, 1]
    bb = f[1, 2] - 2 * f[1, 1] + f[1, 0]
    ab = (f[2, 2] - f[2, 0] - f[0, 2] + f[0, 0]) / 4
    inverse = np.linalg.inv(steps)
    return -inverse.T @ np.array([[aa, ab], [ab, bb]]) @ inverse


def _cover(log_density: LogDensity, step: float, depth: float) -> tuple[np.ndarray, np.ndarray]:
    """Lattice (n, m, 2) and values (n, m), grown until every edge is `depth` below the top."""

    def evaluate(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        lattice = step * np.stack(np.meshgrid(i, j, indexing="ij"), axis=-1)
        values = log_density(lattice.reshape(-1, 2)).reshape(lattice.shape[:2])
        if np.isnan(values).any():
            raise ArithmeticError("The log density is not a number somewhere on the lattice.")
        return values

    half = int(np.ceil(np.sqrt(2 * depth) / step))
    axes = [np.arange(-half, half + 1), np.arange(-half, half + 1)]
    values = evaluate(*axes)
    growth = np.arange(1, int(np.ceil(1 / step)) + 1)
    grown = True
    while grown:
        grown = False
        for axis in (0, 1):
            for side in (0, -1):
                if values.take(side, axis).max() < values.max() - depth:
                    continue
                grown = True
                new = list(axes)
                new[axis] = axes[axis][0] - growth[::-1] if side == 0 else axes[axis][-1] + growth
                pieces = [(new[axis], evaluate(*new)), (axes[axis], values)]
                pieces = pieces if side == 0 else pieces[::-1]
                axes[axis] = np.concatenate([indices for indices, _ in pieces])
                values = np.concatenate([block for _, block in pieces], axis)
    return step * np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1), values


def _sublattice_discrepancy(lattice: np.ndarray, mass: np.ndarray) -> float:
    """Largest disagreement of the four sublattices about the mass and its first two moments."""
    a, b = lattice[..., 0], lattice[..., 1]
    terms = mass * np.stack([np.ones_like(a), a, b, a * a, a * b, b * b])
    total = terms.sum((1, 2))
    scale = np.abs(terms).sum((1, 2))
    parts = [terms[:, i::2, j::2].sum((1, 2)) for i in (0, 1) for j in (0, 1)]
    return max(float(np.max(np.abs(4 * part - total) / scale)) for part in parts)
