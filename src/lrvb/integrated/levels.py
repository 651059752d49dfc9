"""One effect a level, any likelihood: the levels are summed out exactly, given β, its sd and φ.

∫ Π_n p(y_n | x_nᵀβ + r_n z) N(z; 0, sd²) dz is a trapezoid sum to where the log integrand has fallen
far, which converges exponentially in the number of nodes; twice the nodes tell its error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .factor import Factor
from .factor_density import MANY, Ends
from .lines import Line
from .regression import Regression
from .row_sums import RowSums
from .terms import Term

_TINY = np.finfo(float).tiny


class Levels(Factor):
    """θ = (β, log sd, dispersions): the log density with the levels of one factor summed out."""

    ladder = (7, 9, 11, 13, 17, 21, 25, 31, 41, 61, 81, 121, 161, 241)

    def __init__(self, rows: Regression, term: Term, merge: bool = True, nodes: int = 0):
        first = 31 if len(term.codes) < MANY else 11
        super().__init__(rows, (term,), merge, nodes or first)

    def on(self, rows: Regression, terms: Sequence[Term]) -> Levels:
        """The same sums of other rows and levels."""
        (term,) = terms
        return Levels(rows, term)

    def _step(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """At most one unit of η and 2.5 sds."""
        gradient, information = sums.slopes(z)
        curvature = np.maximum(information[..., 0], 0.0) + precision
        scale = 1 / np.sqrt(curvature)
        step = (gradient - precision * z) / curvature
        most = self.rows.unit + 2.5 * scale
        step = np.clip(step, -most, most)
        return step, np.abs(step / scale).max((1, 2), initial=0.0), scale[..., None]

    def _search(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray, C: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Newton's method for the distance √(2 · fall), which is nearly linear in e."""
        scale = C[..., 0]

        def height(x: np.ndarray) -> np.ndarray:
            return sums.height(x) - precision[..., 0] * x[..., 0] ** 2 / 2

        top, far = height(z)[..., None], np.sqrt(2 * self.drop)
        ends = []
        for side in (-1.0, 1.0):
            x = z + side * far * scale
            for _ in range(3):
                slope = sums.slopes(x)[0] - precision * x
                slope = np.where(np.abs(slope) < 1e-9, -side * 1e-9, slope)
                distance = np.sqrt(np.maximum(2 * (top - height(x)[..., None]), 1e-8))
                x = x + np.clip((distance - far) * distance / slope, -6 * scale, 6 * scale)
            ends.append((x - z) / scale)
        return ends[0], ends[1]

    def _heights(
        self, sums: RowSums, precision: np.ndarray, ends: Ends
    ) -> tuple[np.ndarray, np.ndarray]:
        """On a line for each group, whose nodes are the grid."""
        place = np.linspace(0, 1, self.nodes)
        e = ends.low + (ends.high - ends.low) * place
        Z = ends.z + ends.C[..., 0] * e
        return Z, sums.line(Z) - precision * Z**2 / 2

    def _nodes(self, grid: np.ndarray) -> np.ndarray:
        """The nodes of a grid, (n, G, Q, 1)."""
        return grid[..., None]

    def _moments(self, grid: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ P z and Σ P z², (n, G, 1) each."""
        weighted = P * grid
        return weighted.sum(2)[..., None], (weighted * grid).sum(2)[..., None]

    def _draw(
        self, grid: np.ndarray, P: np.ndarray, which: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """By the inverse of each group's distribution function."""
        nodes = grid.reshape(-1, grid.shape[2])
        line = Line(np.log(np.maximum(P, _TINY)).reshape(nodes.shape))
        place = line.draw(which, rng.random(len(which)))
        step = nodes[which, 1] - nodes[which, 0]
        return (nodes[which, 0] + step * place)[:, None]
