"""Nodes of two nested factors' effects: of the outer one, of outer + inner, and of an inner one alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .effort import TooMuchWork

REACH = 6.5  # prior sds to either side: what is left out is below 1e-10 of the prior


class TooManyNodes(TooMuchWork):
    """A θ whose sums would need more nodes than is sensible."""

    def __init__(self, nodes: float):
        super().__init__(
            f"A nested sum would need {nodes:.0f} nodes, since rows know a level far better than its "
            "sd does.",
            nodes=nodes,
        )


class Grid(NamedTuple):
    """Nodes t of outer + inner (Q,), nodes o of the outer effect (J,), the two sds, and K (Q, J).

    K_qj is the inner effect's density at t_q − o_j, times the step.
    """

    t: np.ndarray
    o: np.ndarray
    outer: float
    inner: float
    K: np.ndarray


class Halves(NamedTuple):
    """Both sds, and steps to either side: of outer nodes, of nodes all share, of an outer node's own."""

    outer: float
    inner: float
    o: int
    shared: int
    own: int

    @property
    def size(self) -> int:
        """Nodes of the shorter of both grids."""
        return min(2 * self.shared + 1, (2 * self.own + 1) * (2 * self.o + 1))


def own_nodes(half: int) -> tuple[np.ndarray, np.ndarray]:
    """An inner effect's nodes e in sds, and their weights."""
    e = np.arange(-half, half + 1) * (REACH / half)
    return e, np.exp(-(e**2) / 2) * (REACH / half / np.sqrt(2 * np.pi))


def half_of(sd: float, step: float) -> int:
    """Steps to either side that reach REACH sds: even, so that every second node has both ends."""
    half = max(6, int(np.ceil(REACH * sd / step)))
    return half + half % 2
