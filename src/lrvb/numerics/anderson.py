"""Anderson acceleration of a fixed point x = g(x): a secant method over the last few steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Unsettled(Exception):
    """The steps have not become short."""


class Anderson:
    """Proposes the next x from the pairs (x, g(x)) seen so far."""

    def __init__(self, depth: int = 5):
        self.depth = depth
        self._restart()

    def _restart(self) -> None:
        self.last: tuple[np.ndarray, np.ndarray] | None = None  # x and its residual g − x
        self.steps: list[tuple[np.ndarray, np.ndarray]] = []  # Δg and Δresidual of earlier steps
        self.gram = np.zeros((0, 0))  # inner products of the Δresiduals

    def next(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """The combination of g's whose residuals g − x cancel best; a growing residual starts over."""
        residual = g - x
        if self.last is None:
            self.last = (x, residual)
            return g
        before, old = self.last
        if residual @ residual > 4 * (old @ old):
            self._restart()
            return x + 0.5 * residual
        change = residual - old
        self._remember((x - before) + change, change)
        self.last = (x, residual)
        right = np.array([d @ residual for _, d in self.steps])
        weights = np.linalg.lstsq(self.gram, right, rcond=1e-12)[0]
        result = g.copy()
        for weight, (step, _) in zip(weights, self.steps, strict=True):
            result -= weight * step
        return result

    def _remember(self, step: np.ndarray, change: np.ndarray) -> None:
        if len(self.steps) == self.depth:
            self.steps, self.gram = self.steps[1:], self.gram[1:, 1:]
        self.steps.append((step, change))
        products = np.array([d @ change for _, d in self.steps])
        n = len(products)
        gram = np.empty((n, n))
        gram[:-1, :-1] = self.gram
        gram[-1], gram[:, -1] = products, products
        self.gram = gram


def solve_affine(
    g: Callable[[np.ndarray], np.ndarray], start: np.ndarray, tol: float, limit: int = 200
) -> np.ndarray:
    """x with x = g(x) for an affine g, to `tol` relative to the size of x, or `Unsettled`."""
    x, anderson = start, Anderson()
    for _ in range(limit):
        image = g(x)
        away = image - x
        if away @ away <= tol**2 * (image @ image):
            return image
        x = anderson.next(x, image)
    raise Unsettled
