"""Second differences of a vector along many directions at once."""

from __future__ import annotations

import numpy as np

STEP = 0.02  # in sds: the error of a second difference is 4e-4/12 of a fourth derivative


def around(point: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The point, and its neighbours a step ahead and behind along each column, (2k + 1, a)."""
    steps = STEP * directions.T
    return np.concatenate([point[None], point + steps, point - steps])


def second_differences(values: np.ndarray, weights: np.ndarray | float = 1.0) -> np.ndarray:
    """Σ_k weights_k ∂²values along column k, from values (2k + 1, a) at the points of `around`."""
    k = len(values) // 2
    second = (values[1 : k + 1] - 2 * values[0] + values[k + 1 :]) / STEP**2
    return np.broadcast_to(weights, (k,)) @ second


def first_differences(values: np.ndarray) -> np.ndarray:
    """∂values along each column (k,), from values (2k + 1,) at the points of `around`."""
    k = len(values) // 2
    return (values[1 : k + 1] - values[k + 1 :]) / (2 * STEP)
