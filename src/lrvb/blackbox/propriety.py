"""Whether log p falls on rays that lead far away: a posterior that does not has no finite integral."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidModel
from .density import Density
from .kernel import Kernel

FAR = np.array([1e2, 1e4, 1e6, 1e8])  # sds from the mean
POWER = 0.9  # a density that falls no faster than distance to this power has no integral


def require_proper(density: Density, kernel: Kernel, mean: np.ndarray, sd: np.ndarray) -> None:
    """An error where log p falls by less than 0.9 log t at t sds, however large t, on a coordinate's axis.

    Points where log p is −∞ or not a number prove nothing; two that are finite must agree.
    """
    D = kernel.size
    steps = np.concatenate([FAR, -FAR])
    rays = mean + steps[:, None, None] * np.diag(sd)  # (8, D, D)
    value, _ = kernel(np.concatenate([mean[None], rays.reshape(-1, D)]))
    fall = (value[0] - value[1:]).reshape(2, len(FAR), D)
    finite = np.isfinite(fall)
    slow = np.where(finite, fall < POWER * np.log(FAR)[:, None], True).all(axis=1)
    flat = slow & (finite.sum(axis=1) >= 2)
    if flat.any():
        side, at = np.argwhere(flat)[0]
        name, farthest = density.coordinates[at], np.flatnonzero(finite[side, :, at])[-1]
        raise InvalidModel(
            f"The posterior has no finite integral: {'below' if side else 'above'} its bulk the log "
            f"density hardly falls along '{name}' (by {fall[side, farthest, at]:.2g} at "
            f"{FAR[farthest]:.0e} sds). Give '{name}' a proper prior, or remove what the data cannot "
            "tell.",
            coordinate=name,
        )
