"""What a few passes over the rows teach of their sums near a center: polynomials of some coordinates of θ."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from .stencil import STEP, polynomials, products
from .surrogate import NotSmooth


class Place:
    """Where θ is near `center` (d,), as its `others` tell within some `spread` (d,)."""

    def __init__(self, center: np.ndarray, others: np.ndarray, spread: np.ndarray):
        self.center, self.others = center.copy(), others
        self.step = STEP * spread[others]

    def distance(self, theta: np.ndarray) -> np.ndarray:
        """Of points θ (n, d) from the center, in steps along whichever axis of the polynomials has most."""
        return np.abs(self._moves(theta)).max(1, initial=0.0)

    def _moves(self, theta: np.ndarray) -> np.ndarray:
        """In steps, (n, axes)."""
        return (theta - self.center)[:, self.others] / self.step


class Nearby(Place, ABC):
    """Arrays as functions of θ near `center`: polynomials of the `others`."""

    @abstractmethod
    def _known(self, t: np.ndarray) -> np.ndarray:
        """The arrays where others moved by t steps."""

    def _follow(self, base: np.ndarray, rough: bool = False) -> None:
        """Learn how they change from `base`, which they are at the center."""
        found = polynomials(lambda t: self._known(t) - base, len(self.others), rough)
        self.monomials, self._shape = list(found), base.shape
        self.features = np.stack([part.reshape(-1) for part in (base, *found.values())])  # (F, …)
        if not np.isfinite(self.features).all():
            raise NotSmooth("Rows have no finite sums somewhere near the mode.")

    def _at(self, theta: np.ndarray) -> np.ndarray:
        """The arrays at points θ (n, d), (n, …)."""
        t = self._moves(theta)
        c = np.column_stack([np.ones(len(t)), products(t, self.monomials)])
        return (c @ self.features).reshape(len(t), *self._shape)
