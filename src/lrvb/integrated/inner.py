"""Sums over the inner of two nested factors, where every level of the outer one has effects that are known.

At an outer effect o an inner level's rows say F(o) = ∫ Π p(y | o + e) N(e; 0, sd²) de: one matrix product on
nodes of o + e that all outer levels share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from .groups import Block
from .nested_grids import TooManyNodes
from .nested_sums import NestedSums

_TINY = np.finfo(float).tiny


class InnerSums(Protocol):
    """Σ log F over the inner levels of each of G outer ones, at n points."""

    def take(self, points: np.ndarray) -> InnerSums:
        """At some of the points."""

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At outer effects (n, G, Q), (n, G, Q)."""

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at outer effects (n, G, 1)."""


class _Point(NamedTuple):
    """Of one θ: nodes t (Q,), W (M, Q) of the inner levels there, their peaks' sums (G,), inner sd."""

    t: np.ndarray
    W: np.ndarray
    peak: np.ndarray
    sd: float


class Inner:
    """The same of n points, from rows; nothing where a point asks for too many nodes. See: InnerSums."""

    def __init__(self, nested: NestedSums, points: Sequence[_Point | None]):
        self.nested, self.points = nested, tuple(points)

    @classmethod
    def of(cls, nested: NestedSums, theta: np.ndarray) -> Inner:
        """At points θ (n, d)."""
        return cls(nested, [_point(nested, point) for point in theta])

    def take(self, points: np.ndarray) -> Inner:
        """At some of the points."""
        return Inner(self.nested, [self.points[i] for i in points])

    def line(self, Z: np.ndarray) -> np.ndarray:
        """Σ log F at outer effects (n, G, Q), (n, G, Q); −∞ where there would be too many nodes."""
        result = np.full(Z.shape, -np.inf)
        for i, point in self._there():
            for block in self._blocks(point, Z):
                F = _of_block(point.W, block) @ _density(point, Z[i, block.groups])[0]
                logs = np.where(block.there[..., None], np.log(np.maximum(F, _TINY)), 0.0)
                result[i, block.groups] = logs.sum(1)
            result[i] += point.peak[:, None]
        return result

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at outer effects (n, G, 1).

        With e given y and o they are Σ E e/sd² and Σ (1 − Var e/sd²)/sd².
        """
        gradient, information = np.zeros(z.shape), np.zeros((*z.shape, 1))
        for i, point in self._there():
            variance = point.sd**2
            for block in self._blocks(point, z):
                F, F1, F2 = _moments(point, block, z[i, block.groups])
                mean = F1 / F
                left = np.where(block.there[..., None], 1 - (F2 / F - mean**2) / variance, 0.0)
                mean[~block.there] = 0.0
                gradient[i, block.groups] = mean.sum(1) / variance
                information[i, block.groups, 0] = left.sum(1) / variance
        return gradient, information

    def moments(self, Z: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E e and E e² (n, M) of inner levels, with outer effects Z (n, G, Q) of probabilities P."""
        first, second = np.zeros((2, len(self.points), self.nested.M))
        for i, point in self._there():
            for block in self._blocks(point, Z):
                F, F1, F2 = _moments(point, block, Z[i, block.groups])
                A, at = P[i, block.groups][:, None] / F, block.rows[block.there]
                first[i, at] = (A * F1).sum(2)[block.there]
                second[i, at] = (A * F2).sum(2)[block.there]
        return first, second

    def _blocks(self, point: _Point, Z: np.ndarray) -> list[Block]:
        """Outer levels with about as many inner ones, so many as have room at these effects (n, G, Q)."""
        return self.nested.above.blocks(len(point.t) * Z.shape[2])

    def _there(self) -> Iterator[tuple[int, _Point]]:
        return ((i, point) for i, point in enumerate(self.points) if point is not None)


def _point(nested: NestedSums, theta: np.ndarray) -> _Point | None:
    try:
        grid = nested._grid(theta, apart=False)
    except TooManyNodes:  # −∞ there, as where both are summed together
        return None
    eta = nested.rows.predictor(theta[None, : nested.p])[0]
    W, peak = nested._weights(theta, eta, grid.t, np.float64)
    return _Point(grid.t, W, nested.above.sum(peak[:, 0], axis=0), grid.inner)


def _moments(
    point: _Point, block: Block, o: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∫ e^k Π p(y | o + e) N(e) de at outer effects o (groups, Q), (groups, size, Q), for k = 0, 1, 2."""
    K, e = _density(point, o)
    found = _of_block(point.W, block) @ np.concatenate([K, K * e, K * e**2], axis=2)
    Q = o.shape[1]
    return np.maximum(found[..., :Q], _TINY), found[..., Q : 2 * Q], found[..., 2 * Q :]


def _of_block(W: np.ndarray, block: Block) -> np.ndarray:
    """The rows of W (M, Q) that are a block's, (groups, size, Q): one group's are a run, and not copied."""
    if len(block.rows) > 1:
        return W[block.rows]
    first = block.rows[0, 0]
    return W[None, first : first + block.rows.shape[1]]


def _density(point: _Point, o: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """N(t − o; 0, sd²) times the step, and t − o, at outer effects o (groups, Q): (groups, nodes, Q)."""
    e = point.t[:, None] - o[:, None]
    step = (point.t[1] - point.t[0]) / (point.sd * np.sqrt(2 * np.pi))
    return np.exp(-((e / point.sd) ** 2) / 2) * step, e
