"""A regression like that of the prices of diamonds: 5000 rows, 24 columns, four of them nearly one.

Sizes are cube roots of the weight with a little noise, and three ordered factors are orthogonal polynomials,
as R codes them. Columns are centred; the priors are N(8, 10²), N(0, 1) and HalfNormal(10).
"""

from __future__ import annotations

import numpy as np
from posteriordb_regressions import Regression

NAME = "diamonds-like"
ROWS = 5000


def _polynomials(codes: np.ndarray, levels: int) -> np.ndarray:
    """Orthonormal polynomials of an ordered factor, (n, levels − 1)."""
    powers = np.vander(np.arange(levels, dtype=float) - (levels - 1) / 2, levels, increasing=True)
    return np.linalg.qr(powers)[0][codes, 1:]


def diamonds_like() -> Regression:
    """The same every time."""
    rng = np.random.default_rng(20)
    carat = np.exp(rng.normal(-0.4, 0.6, ROWS))
    sizes = [6.5 * carat ** (1 / 3) * r * np.exp(rng.normal(0, 0.01, ROWS)) for r in (1, 1, 0.62)]
    depth, table = rng.normal(61.7, 1.4, ROWS), rng.normal(57.5, 2.2, ROWS)
    factors = [_polynomials(rng.integers(0, k, ROWS), k) for k in (5, 7, 8)]
    X = np.column_stack([carat, carat**2, *sizes, depth, table, *factors])
    X = X - X.mean(axis=0)
    effects = rng.normal(0, 0.2, X.shape[1])
    y = 7.8 + X @ effects + 1.7 * np.log(carat) + rng.normal(0, 0.15, ROWS)
    p = X.shape[1]
    return Regression(
        np.column_stack([np.ones(ROWS), X]),
        y,
        "normal",
        np.append(8.0, np.zeros(p)),
        np.append(10.0, np.ones(p)),
    )
