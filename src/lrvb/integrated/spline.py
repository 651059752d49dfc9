"""Natural cubic splines of vectors through evenly spaced knots."""

from __future__ import annotations

import numpy as np


class Spline:
    """f (k,) of one variable, cubic between knots (m,), twice differentiable, f″ = 0 at both ends."""

    def __init__(self, knots: np.ndarray, values: np.ndarray):
        """values (m, k) at the knots."""
        m, h = len(knots), knots[1] - knots[0]
        # M = f″ at the knots: M_{i−1} + 4M_i + M_{i+1} = 6 (f_{i−1} − 2f_i + f_{i+1})/h²
        A = 4 * np.eye(m - 2) + np.eye(m - 2, k=1) + np.eye(m - 2, k=-1)
        M = np.zeros_like(values)
        M[1:-1] = np.linalg.solve(A, 6 * np.diff(values, 2, axis=0) / h**2)
        self.knots, self.h, self.values, self.M = knots, h, values, M

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """f at n points between the knots, (n, k)."""
        i, a, b = self._cell(x)
        h, M, f = self.h, self.M, self.values
        bent = ((a**3 - a) * M[i] + (b**3 - b) * M[i + 1]) * h**2 / 6
        return a * f[i] + b * f[i + 1] + bent

    def slope(self, x: np.ndarray) -> np.ndarray:
        """f′ at n points between the knots, (n, k)."""
        i, a, b = self._cell(x)
        h, M, f = self.h, self.M, self.values
        bent = ((3 * b**2 - 1) * M[i + 1] - (3 * a**2 - 1) * M[i]) * h / 6
        return (f[i + 1] - f[i]) / h + bent

    def second(self, x: np.ndarray) -> np.ndarray:
        """f″ at n points between the knots, (n, k)."""
        i, a, b = self._cell(x)
        return a * self.M[i] + b * self.M[i + 1]

    def _cell(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The interval of each point, and its distances to both knots in units of h, (n, 1)."""
        i = np.clip(((x - self.knots[0]) / self.h).astype(int), 0, len(self.knots) - 2)
        b = ((x - self.knots[i]) / self.h)[:, None]
        return i, 1 - b, b
