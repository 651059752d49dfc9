r"""Best Gaussians at points of a line, found outwards from one that is known.

Each search begins on the polynomial in x through the two known points that are nearest and, with its slope,
the first: p(x) = w(1 + xΣ_i 1/x_i)f₀ + wx f₀′ + Σ_i (x/x_i)² Π_j≠i (x − x_j)/(x_i − x_j) f_i with
w = Π_i (1 − x/x_i), of means and of logarithms of rows' variances. It ends at ROUGH: a value at its maximum
is off by the square.
"""

from __future__ import annotations

import numpy as np

from .best_gaussian import BestGaussian, NoOptimum
from .block import BlockState, BlockSum

ROUGH = 0.01  # of a best Gaussian, relative in variances and in sds of means
MOST = 2  # known points that a search begins from, beside the first


class Outwards:
    """Best Gaussians of a block; m(0) is near a state, with tangents or none, and m′(0) the velocity (a,)."""

    def __init__(self, block: BlockSum, state: BlockState, velocity: np.ndarray):
        self.block, self.first = block.within(ROUGH), state
        tangents = [] if state.tangents is None else state.tangents.steps
        self.steps = [(float(velocity[at]), step) for at, step in tangents]
        self.known: dict[float, BestGaussian] = {}

    def at(self, x: float, m: np.ndarray) -> BlockState:
        """At x, where the precisions' moments are m; the first is asked at 0."""
        start, near = self.block.ahead(self.first, m), self.first.best
        if 0.0 in self.known:
            start, near = self._start(x), self.known[min(self.known, key=lambda at: abs(at - x))]
        try:
            found = self.block.begun(m, start)
        except NoOptimum:  # from a start that is too far off, or anywhere
            found = self.block.begun(m, near)
        self.known[x] = found.best
        return found

    def _start(self, x: float) -> BestGaussian:
        near = sorted((at for at in self.known if at), key=lambda at: abs(at - x))[:MOST]
        xs = np.array(near)
        w = float(np.prod(1 - x / xs))
        parts = [(w * (1 + x * float((1 / xs).sum())), self.known[0.0])]  # the nearest is last
        for i, at in reversed(list(enumerate(near))):
            others = np.delete(xs, i)
            weight = (x / at) ** 2 * float(np.prod((x - others) / (at - others)))
            parts.append((weight, self.known[at]))
        steps = [(w * x * speed, step) for speed, step in self.steps]
        return self.block.rows.combined(parts, steps)
