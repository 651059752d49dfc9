"""Conjugate gradients for many right sides at once, and what Lanczos reads from their coefficients."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")
WIDTH = 32  # right sides at a time
MOST = 1000
THREADED = 2**20  # nonzeros from which on threads are worth their start


class Solved(NamedTuple):
    """Solutions (r, P), the coefficients α, β of every iteration (k, P), and what is left unsolved.

    `unsolved` is the largest residual as a share of its right side where one is above the tolerance, else 0.
    """

    x: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    unsolved: float


def solve(operator: Callable[[np.ndarray], np.ndarray], Z: np.ndarray, tolerance: float) -> Solved:
    """operator(x) = Z column by column, until every residual is `tolerance` of its right side, or `MOST`."""
    x, residual = np.zeros_like(Z), Z.copy()
    direction = residual.copy()
    square = np.einsum("ij,ij->j", residual, residual)
    whole = square
    goal = tolerance**2 * whole
    alphas, betas = [], []
    for _ in range(MOST):
        moved = operator(direction)
        curvature = np.einsum("ij,ij->j", direction, moved)
        alpha = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0)
        x += alpha * direction
        moved *= alpha
        residual -= moved
        new = np.einsum("ij,ij->j", residual, residual)
        beta = np.divide(new, square, out=np.zeros_like(square), where=square > 0)
        square = new
        alphas.append(alpha)
        betas.append(beta)
        if (square <= goal).all():
            unsolved = 0.0
            break
        direction *= beta
        direction += residual
    else:
        wanting = ~(square <= goal)
        unsolved = float(np.sqrt((square[wanting] / whole[wanting]).max()))
    return Solved(x, np.array(alphas), np.array(betas), unsolved)


def given_up(unsolved: float) -> str:
    """A clause for verdicts where residuals are such a share of their right sides; none for 0."""
    if not unsolved:
        return ""
    return f"conjugate gradients ended after {MOST} iterations, {unsolved:.0e} of a right side unsolved"


def log_form(solved: Solved) -> tuple[np.ndarray, np.ndarray]:
    """e₁ᵀ log(J) e₁ and e₁ᵀJe₁ of every column's Lanczos matrix J, (P,) each.

    Times zᵀz they are zᵀ log(A) z, by Gauss quadrature, and zᵀAz.
    """
    alpha, beta = solved.alpha, solved.beta
    done = alpha <= 0  # of a column that ended before the others
    a = np.where(done, 1.0, alpha)
    b = np.where(done, 0.0, beta)
    k, P = a.shape
    i = np.arange(k)
    J = np.zeros((P, k, k))
    J[:, i, i] = (1 / a).T
    J[:, i[1:], i[1:]] += (b[:-1] / a[:-1]).T
    J[:, i[1:], i[:-1]] = J[:, i[:-1], i[1:]] = (np.sqrt(b[:-1]) / a[:-1]).T
    values, vectors = np.linalg.eigh(J)
    first = vectors[:, 0, :] ** 2
    return (first * np.log(np.maximum(values, 1e-300))).sum(1), J[:, 0, 0]


def in_columns(function: Callable[[np.ndarray], T], Z: np.ndarray, nonzeros: int) -> list[T]:
    """A function of blocks of columns, by threads where the work is worth it."""
    threads = cores() if nonzeros >= THREADED else 1
    n = max(-(-Z.shape[1] // WIDTH), min(threads, Z.shape[1]))
    parts = [np.ascontiguousarray(part) for part in np.array_split(Z, n, axis=1)]
    if threads == 1:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, parts))


def cores() -> int:
    """Processors this process may use, or fewer if OMP_NUM_THREADS says so."""
    asked: Any = os.environ.get("OMP_NUM_THREADS", "")
    have = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(have, int(asked) if asked.isdigit() else have))
