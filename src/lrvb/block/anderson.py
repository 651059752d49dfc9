"""Anderson acceleration of a fixed point x = g(x): a secant method over the last few steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Anderson:
    """Proposes the next x from the pairs (x, g(x)) seen so far."""

    def __init__(self, depth: int = 6):
        self.depth = depth
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []

    def next(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """The combination of g's whose residuals g − x cancel best; a growing residual starts over."""
        residual = g - x
        if self.pairs:
            last = self.pairs[-1][1]
            if np.linalg.norm(residual) > 2 * np.linalg.norm(last):
                self.pairs = []
                return x + 0.5 * residual
        self.pairs = [*self.pairs[-self.depth :], (x, residual)]
        if len(self.pairs) == 1:
            return g
        dX = np.stack([b[0] - a[0] for a, b in zip(self.pairs, self.pairs[1:], strict=False)])
        dF = np.stack([b[1] - a[1] for a, b in zip(self.pairs, self.pairs[1:], strict=False)])
        gram = dF @ dF.T
        gram[np.diag_indices_from(gram)] *= 1 + 1e-12
        weights = np.linalg.lstsq(gram, dF @ residual, rcond=1e-12)[0]
        return g - weights @ (dX + dF)


def solve_affine(
    g: Callable[[np.ndarray], np.ndarray], start: np.ndarray, tol: float, limit: int = 60
) -> np.ndarray:
    """x with x = g(x) for an affine g, to `tol` relative to the size of x."""
    x, anderson = start, Anderson(depth=10)
    for _ in range(limit):
        image = g(x)
        if np.linalg.norm(image - x) <= tol * np.linalg.norm(image):
            return image
        x = anderson.next(x, image)
    return x
