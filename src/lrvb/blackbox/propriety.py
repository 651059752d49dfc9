"""Whether log p falls on rays that lead far away: a posterior that does not has no finite integral."""

from __future__ import annotations

import numpy as np

from ..errors import InvalidModel
from .density import Density
from .kernel import Kernel

FAR = np.array([1e2, 1e4, 1e6, 1e8])  # sds from the mean
POWER = 0.9  # a density that falls no faster than distance to this power has no integral


def require_proper(
    density: Density, kernel: Kernel, mean: np.ndarray, directions: np.ndarray
) -> None:
    """An error where log p falls by less than 0.9 log t at t times a direction (k, D), however large t.

    Points where log p is −∞ or not a number prove nothing; two that are finite must agree.
    """
    k, D = directions.shape
    steps = np.concatenate([FAR, -FAR])
    rays = mean + steps[:, None, None] * directions  # (8, k, D)
    value, _ = kernel(np.concatenate([mean[None], rays.reshape(-1, D)]))
    with np.errstate(invalid="ignore"):
        fall = (value[0] - value[1:]).reshape(2, len(FAR), k)
    finite = np.isfinite(fall)
    slow = np.where(finite, fall < POWER * np.log(FAR)[:, None], True).all(axis=1)
    flat = slow & (finite.sum(axis=1) >= 2)
    if flat.any():
        side, at = np.argwhere(flat)[0]
        farthest = np.flatnonzero(finite[side, :, at])[-1]
        what = _named(density, directions[at])
        raise InvalidModel(
            f"The posterior has no finite integral: {'below' if side else 'above'} its bulk the log "
            f"density hardly falls along {what} (by {fall[side, farthest, at]:.2g} at "
            f"{FAR[farthest]:.0e} sds). Give {what} a proper prior, or leave out what the data cannot "
            "tell.",
            coordinates=what,
        )


def _named(density: Density, direction: np.ndarray) -> str:
    """The coordinates that a direction moves most."""
    size = np.abs(direction)
    chosen = np.argsort(-size)[:3]
    names = [f"'{density.coordinates[i]}'" for i in chosen if size[i] > 0.3 * size.max()]
    return " and ".join(names)
