"""Where a level's effect can be when rows' log densities are not concave: every bump that matters.

Rows have one mode each, so that a sum of theirs and of the prior's has its modes between the smallest and the
largest of these; there the log integrand is looked at on a grid, and beyond it only falls.
"""

from __future__ import annotations

import numpy as np

from .row_sums import Directly

_NODES = 65  # of the grid between the rows' own modes
_CLOSE = 8.0  # fall from the top within which another bump may become the one that is climbed
_STEPS, _GROWTH = 60, 1.25


def find_bumps(
    sums: Directly, precision: np.ndarray, z: np.ndarray, scale: np.ndarray, drop: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends in e = (x − z)/scale, (n, G, 1) each, outside of which the log integrand is `drop` below its top.

    z (n, G, 1) is a mode, scale (n, G, 1) its sd. Where other bumps come close to the top the ends
    suffice for each of them in the place of z.
    """

    def height(x: np.ndarray) -> np.ndarray:
        return sums.line(x) - precision * x**2 / 2

    low, high = (end[..., None] for end in sums.hull())
    x = low + (high - low) * np.linspace(0, 1, _NODES)
    f, here = height(x), height(z)
    top = np.maximum(f.max(2, keepdims=True), here)
    reached = np.concatenate([np.where(f > top - drop, x, z), z], axis=2)
    inner = (f[..., 1:-1] >= f[..., :-2]) & (f[..., 1:-1] >= f[..., 2:])
    bump = inner & (f[..., 1:-1] > top - _CLOSE)
    bumps = np.concatenate([np.where(bump, x[..., 1:-1], z), z], axis=2)
    ends = []
    for side, outermost, other in (
        (-1.0, reached.min(2), bumps.max(2)),
        (1.0, reached.max(2), bumps.min(2)),
    ):
        end, step = outermost[..., None] + side * scale, scale.copy()
        for _ in range(_STEPS):
            inside = top - height(end) < drop
            if not inside.any():
                break
            end = np.where(inside, end + side * step, end)
            step *= _GROWTH
        ends.append((end - other[..., None]) / scale)
    return ends[0], ends[1]
