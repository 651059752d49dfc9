"""Integration of a smooth two-dimensional density by the trapezoid rule.

The trapezoid rule on an infinite lattice converges faster than any power of its step for a smooth
density that vanishes at infinity. So a lattice in coordinates whitened at the mode, extended until
nothing is left outside, is exact for all practical purposes, and says so: its sublattices of twice
the step have at least the square root of its error and are checked for free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.ndimage import binary_dilation
from scipy.optimize import minimize
from scipy.special import sici

STEP = 0.5  # of an sd; for a Gaussian the relative error is 2 exp(−2π²/step²) = 1e-34
DEPTH = 32.0  # nats below the mode at which the lattice may end: exp(−32) = 1e-14
SUBLATTICE_TOLERANCE = 1e-5  # at least the square root of the error of the lattice itself
REFINEMENTS = 6

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
    """(2,), step · max_j |L_kj|: how finely coordinate k is resolved"""


def integrate(
    log_density: LogDensity, start: np.ndarray, *, refine: float = 1.0, depth: float = DEPTH
) -> Grid:
    """Lattice on which the density exp(log_density) is summed.

    `log_density` maps points (G, 2) to (G,). `refine` divides the step; `depth` is how far, in
    nats below the highest value, the lattice's edges must lie. The step shrinks until the
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
        step /= np.sqrt(2)
    else:
        raise ArithmeticError(
            f"The integral has not converged at a step of {np.sqrt(2) * step:.1e} sd. The density "
            "may have several modes or a kink; a closer start may help."
        )
    log_integral = top + np.log(mass.sum() * step**2 * L[0, 0] * L[1, 1])
    kept = mass > 0
    points = mode + lattice[:, kept].T @ L.T
    return Grid(points, mass[kept] / mass.sum(), float(log_integral), step * np.abs(L).max(1))


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
    P(u_k ≤ c) = Σ_g weight_g · step_kernel((c − u_gk) / spacing_k). Where u_k mixes two lattice
    coordinates its two sinc functions are convolved, which leaves the wider one.
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
    """Lattice (2, n, m) and values (n, m), grown from the mode until `depth` below the top.

    Points without a neighbour above that level are left out: their value is −inf.
    """
    center = half = int(np.ceil(np.sqrt(2 * depth) / step)) + 1
    i = np.arange(-half, half + 1)
    values = np.full((len(i), len(i)), -np.inf)
    known = np.zeros(values.shape, bool)
    wanted = i[:, None] ** 2 + i**2 < half**2
    while wanted.any():
        values[wanted] = log_density(step * (np.argwhere(wanted) - center))
        if np.isnan(values).any():
            raise ArithmeticError("The log density is not a number somewhere on the lattice.")
        known |= wanted
        inside = values > values.max() - depth
        if inside[[0, -1]].any() or inside[:, [0, -1]].any():
            values = np.pad(values, half, constant_values=-np.inf)
            known, inside = np.pad(known, half), np.pad(inside, half)
            center += half
        wanted = binary_dilation(inside) & ~known
    return step * (np.indices(values.shape) - center), values


def _sublattice_discrepancy(lattice: np.ndarray, mass: np.ndarray) -> float:
    """Largest disagreement of the four sublattices about the mass and its first two moments."""
    a, b = lattice
    terms = mass * np.stack([np.ones_like(a), a, b, a * a, a * b, b * b])
    total = terms.sum((1, 2))
    scale = np.abs(terms).sum((1, 2))
    parts = [terms[:, i::2, j::2].sum((1, 2)) for i in (0, 1) for j in (0, 1)]
    return max(float(np.max(np.abs(4 * part - total) / scale)) for part in parts)
