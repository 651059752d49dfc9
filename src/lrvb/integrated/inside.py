"""What an integration asks of the sums inside it, whatever they are."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .coordinates import Kind


class Evaluated(NamedTuple):
    """Of n points: log density (n,), first and second moments of what was summed out, (n, m) each."""

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray


class Effects(NamedTuple):
    """Posterior means and sds of a term's effects, (levels, q) each."""

    mean: np.ndarray
    sd: np.ndarray


class Inside(Protocol):
    """What an integration over β and hyperparameters asks: θ = (β, u), u of d − p coordinates."""

    p: int

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""

    def start(self) -> np.ndarray:
        """A first θ."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points."""

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point."""

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log p(y, θ) at n points, with the moments of what was summed out."""

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Every term's effects from weighted points and the weighted means of `evaluate`'s moments."""

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The fewest nodes of the sums inside that suffice at n points."""

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor."""


def effects(inside: Inside, theta: np.ndarray, weights: np.ndarray) -> tuple[Effects, ...]:
    """Every term's posterior effects over weighted points (n, d), in the order of θ's sds."""
    w = weights / weights.sum()
    _, first, second = inside.evaluate(theta)
    return inside.unfold(theta, w, w @ first, w @ second)
