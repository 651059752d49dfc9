"""One effect a level, any likelihood: the levels are summed out exactly, given β, its sd and φ.

∫ Π_n p(y_n | x_nᵀβ + r_n z) N(z; 0, sd²) dz is a trapezoid sum to where the log integrand has fallen
far, which converges exponentially in the number of nodes; twice the nodes tell its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from .density import Density
from .factor import Factor
from .factor_density import MANY, Ends, Step
from .lines import CHUNK, Line, spline_weights
from .regression import Regression
from .row_sums import RowSums
from .terms import Term

_TINY = np.finfo(float).tiny
_SURE, _SEARCH = 3, 20  # steps of the search for an end, at least and at most
_OFF = 0.3  # of the fall that an end should have, what it may miss
_TURN = 3.0  # units of η around a mode within which bent nodes are nearly even


def first_nodes(likelihood: Density, rows: int) -> int:
    """How many are tried first: more until it is known how far bumps are apart."""
    few = 31 if rows < MANY else 11
    return few if likelihood.concave else 4 * few


class Levels(Factor):
    """θ = (β, log sd, dispersions): the log density with the levels of one factor summed out."""

    ladder = (7, 9, 11, 13, 17, 21, 25, 31, 41, 61, 81, 121, 161, 241)

    def __init__(self, rows: Regression, term: Term, merge: bool = True, nodes: int = 0):
        nodes = nodes or first_nodes(rows.likelihood, len(term.codes))
        super().__init__(rows, (term,), merge, nodes)

    def on(self, rows: Regression, terms: Sequence[Term]) -> Levels:
        """The same sums of other rows and levels."""
        (term,) = terms
        return Levels(rows, term)

    def of_some_rows(self, every: int) -> Levels:
        """Every so many-th row of each group, which counts so often, whatever order they were given in."""
        if every == 1:
            return copy(self)
        return self.thinned(*self.some_rows(every), self.groups.sizes)

    def some_rows(self, every: int) -> tuple[Regression, np.ndarray, np.ndarray]:
        """Those rows, each once, with their R and groups."""
        kept = self.rows.order_within(self.groups.of)[self.groups.each(every)]
        return self.rows.take(kept), self.R[kept], self.groups.of[kept]

    def thinned(self, rows: Regression, R: np.ndarray, of: np.ndarray, sizes: np.ndarray) -> Levels:
        """These sums of rows that stand for all in their groups `of`, which are so many (G,)."""
        here = copy(self)
        times = (sizes / np.bincount(of, minlength=self.G))[of]
        starts = np.searchsorted(of, np.arange(self.G))
        here.groups = self.groups._replace(rows=np.arange(len(of)), starts=starts, of=of)
        here._arrange(rows.weighted(times if rows.weights is None else times * rows.weights), R)
        return here

    def _step(self, sums: RowSums, precision: np.ndarray, z: np.ndarray) -> Step:
        """At most one unit of η and 2.5 sds."""
        gradient, information = sums.slopes(z)
        curvature = np.maximum(information[..., 0], 0.0) + precision
        scale = 1 / np.sqrt(curvature)
        gradient = gradient - precision * z
        step = gradient / curvature
        most = self.rows.unit + 2.5 * scale
        step = np.clip(step, -most, most)
        length = np.abs(step / scale)[..., 0]
        return Step(step, length, scale[..., None], gradient)

    def _search(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray, C: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Newton's method for the distance √(2 · fall), which is nearly linear in e.

        An end rests once it is found, so that it does not hang on which others are looked for with it.
        """
        scale = C[..., 0]

        def height(x: np.ndarray) -> np.ndarray:
            return sums.height(x) - precision[..., 0] * x[..., 0] ** 2 / 2

        top, far = height(z)[..., None], np.sqrt(2 * self.drop)
        ends = []
        for side in (-1.0, 1.0):
            x = z + side * far * scale
            for done in range(_SEARCH):
                fall = top - height(x)[..., None]
                there = (np.abs(fall / self.drop - 1) < _OFF) & (done >= _SURE)
                if there.all():
                    break
                slope = sums.slopes(x)[0] - precision * x
                slope = np.where(np.abs(slope) < 1e-9, -side * 1e-9, slope)
                distance = np.sqrt(np.maximum(2 * fall, 1e-8))
                away = side * (x - z)
                outward = side * (distance - far) * distance / slope
                move = side * np.clip(outward, -away / 2, np.maximum(6 * scale, away))
                x = np.where(there, x, x + move)
            ends.append((x - z) / scale)
        return ends[0], ends[1]

    def _heights(
        self, sums: RowSums, precision: np.ndarray, ends: Ends
    ) -> tuple[np.ndarray, np.ndarray]:
        """On a line for each group, whose nodes are the grid."""
        place, scale = np.linspace(0, 1, self.nodes), ends.C[..., 0]
        if not self.bent:
            Z = ends.z + scale * (ends.low + (ends.high - ends.low) * place)
            return Z, sums.line(Z) - precision * Z**2 / 2
        # e = a sinh(t/a) with evenly spaced t: close where rows turn, about a unit of η, and far in tails
        a = _TURN * self.rows.unit / (scale * self._reach[:, None])
        low, high = (a * np.arcsinh(end / a) for end in (ends.low, ends.high))
        t = (low + (high - low) * place) / a
        Z = ends.z + scale * a * np.sinh(t)
        share = np.log(np.cosh(t) * ((high - low) / (ends.high - ends.low)))  # of an even step
        return Z, sums.line(Z) - precision * Z**2 / 2 + share

    @property
    def _reach(self) -> np.ndarray:
        """The largest change of η with the effect in each group, (G,)."""
        return np.maximum(np.maximum.reduceat(np.abs(self.R[:, 0]), self.groups.starts), 1e-300)

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
        if self.bent:
            found = np.empty(len(which))
            for start in range(0, len(which), CHUNK):
                here = slice(start, start + CHUNK)
                weights = spline_weights(place[here], nodes.shape[1])
                found[here] = (weights * nodes[which[here]]).sum(1)
            return found[:, None]
        step = nodes[which, 1] - nodes[which, 0]
        return (nodes[which, 0] + step * place)[:, None]
