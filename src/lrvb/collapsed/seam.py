"""The seam between the engine and what is integrated out: four questions about m.

The solver, the response and the posterior ask for the collapsed value, its gradient, its curvature
(α×α), and on request the response of the collapsed variables. Row sums by autodiff, by Gram matrices
and over partitions, and the Gaussian block of a mixed model, are implementations of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from ..statement.problem import Problem


class RowSums(NamedTuple):
    """Σ_n of collapsed value, gradient (a,), curvature H̃ (a, a); the first row that failed, or −1."""

    value: float
    gradient: np.ndarray
    curvature: np.ndarray | None
    failed: int


class LocalResponse(NamedTuple):
    """A chunk of rows: m_z (n, d), V_z (n, d, d), Σ̂_z|α (n, d, d) and R = Σ̂_z|α H_zα (n, d, a)."""

    z: np.ndarray
    V: np.ndarray
    Sigma: np.ndarray
    R: np.ndarray


class LocalSum(Protocol):
    """A way to sum over rows; `bind` it to a problem and a chunk size."""

    def bind(self, problem: Problem, chunk_size: int | None = None) -> BoundSum:
        """The sum over this problem's rows."""


class BoundSum(Protocol):
    """The four questions about m."""

    def evaluate(self, m: np.ndarray, order: int = 2) -> RowSums:
        """Value and gradient, and with `order=2` the curvature."""

    def respond(self, m: np.ndarray, rows: np.ndarray | None = None) -> Iterator[LocalResponse]:
        """The local variables and their response, chunk by chunk, of all rows or those asked for."""
