"""Sums over the inner of two nested factors, where every level of the outer one has effects that are known.

At an outer effect o an inner level's rows say F(o) = ∫ Π p(y | o + e) N(e; 0, sd²) de: one matrix product on
nodes of o + e that all outer levels share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from .groups import Block
from .nested_grids import REACH, TooManyNodes
from .nested_sums import NestedSums

_TINY = np.finfo(float).tiny
_CELLS = 2**16  # rows × (nodes and what is made of them) at a time: what fits a processor's cache
_BLOCK = 16  # times as many in a block of outer levels as in one of groups
_ROOM = 1.0  # inner sds to either side of known outer effects, for others nearby
_LEFT = 1e-8  # of an inner level's integral, what one node at an end may have


class InnerSums(Protocol):
    """Σ log F over the inner levels of each of G outer ones, at n points."""

    def take(self, points: np.ndarray) -> InnerSums:
        """At some of the points."""

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At outer effects (n, G, Q), (n, G, Q)."""

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at outer effects (n, G, 1)."""


class _Point:
    """Of one θ: W (M, Q) of the inner levels at nodes base + t, where `base` (G,) is each outer level's own.

    Known outer effects need nodes within reach of the inner sd: they are made where effects are first asked
    for, and again, for those too, where later ones are beyond. They are on the lattice of the nodes of all.
    """

    def __init__(self, nested: NestedSums, theta: np.ndarray):
        self.nested, self.theta, self.whole = nested, theta, nested._grid(theta, apart=False).t
        self.sd = float(np.exp(theta[nested.p + 1]))
        self.eta = nested.rows.predictor(theta[None, : nested.p])[0]
        self.low, self.high = np.full(nested.G, np.inf), np.full(nested.G, -np.inf)
        self.t = np.empty(0)

    def reach(self, o: np.ndarray) -> None:
        """Have nodes for outer effects o (G, Q)."""
        low, high = o.min(1), o.max(1)
        if (low >= self.low).all() and (high <= self.high).all():
            return
        self.low = np.minimum(self.low, low - _ROOM * self.sd)
        self.high = np.maximum(self.high, high + _ROOM * self.sd)
        whole, last = self.whole, len(self.whole) // 2
        step = whole[1] - whole[0]
        wide = float((self.high - self.low).max()) / 2
        one_mode = self.nested.rows.likelihood.concave  # others' integrands may rise again beyond
        if one_mode and wide + REACH * self.sd + 2 * step < whole[-1]:
            steps = int(np.ceil((wide + REACH * self.sd) / step)) + 1  # as bases are rounded
            middle = np.clip(
                np.rint((self.high + self.low) / (2 * step)), steps - last, last - steps
            )
            self._make(whole[last - steps : last + steps + 1], step * middle)
            if self._is_seen(wide):
                return
        self.low, self.high = np.full((2, len(low)), [[-np.inf], [np.inf]])
        self._make(whole, np.zeros(len(low)))

    def _make(self, t: np.ndarray, base: np.ndarray) -> None:
        above = self.nested.above
        eta = self.eta + base[above.of][self.nested.of]
        self.t, self.base = t, base
        self.W, peak = self.nested._weights(self.theta, eta, t, np.float64)
        self.peak = above.sum(peak[:, 0], axis=0)

    def _is_seen(self, wide: float) -> bool:
        """Whether no inner level's integrand has much at an end of the nodes, at o = base ± wide.

        Log-concave integrands fall the faster beyond.
        """
        K = _density(self, np.array([[-wide, wide]]))[0][0]
        ends = np.maximum(self.W[:, :1] * K[0], self.W[:, -1:] * K[-1])
        return bool((ends <= _LEFT * (self.W @ K)).all())


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
        for i, point, o in self._there(Z):
            result[i] = point.peak[:, None]
            for block in self._blocks(point, o):
                F = _of_block(point.W, block) @ _density(point, o[block.groups])[0]
                logs = np.log(np.maximum(F, _TINY, out=F), out=F)
                if not block.there.all():
                    logs[~block.there] = 0.0
                result[i, block.groups] += logs.sum(1)
        return result

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at outer effects (n, G, 1).

        With e given y and o they are Σ E e/sd² and Σ (1 − Var e/sd²)/sd².
        """
        gradient, information = np.zeros(z.shape), np.zeros((*z.shape, 1))
        for i, point, o in self._there(z):
            variance = point.sd**2
            for block in self._blocks(point, o):
                F, F1, F2 = _moments(point, block, o[block.groups])
                mean = F1 / F
                left = np.where(block.there[..., None], 1 - (F2 / F - mean**2) / variance, 0.0)
                mean[~block.there] = 0.0
                gradient[i, block.groups] += mean.sum(1) / variance
                information[i, block.groups, 0] += left.sum(1) / variance
        return gradient, information

    def moments(self, Z: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E e and E e² (n, M) of inner levels, with outer effects Z (n, G, Q) of probabilities P."""
        first, second = np.zeros((2, len(self.points), self.nested.M))
        for i, point, o in self._there(Z):
            for block in self._blocks(point, o):
                F, F1, F2 = _moments(point, block, o[block.groups])
                A, at = P[i, block.groups][:, None] / F, block.rows[block.there]
                first[i, at] = (A * F1).sum(2)[block.there]
                second[i, at] = (A * F2).sum(2)[block.there]
        return first, second

    def _blocks(self, point: _Point, o: np.ndarray) -> Iterator[Block]:
        """Outer levels with about as many inner ones, or a run of one's, that have room at effects (G, Q)."""
        above, each = self.nested.above, len(point.t) + 3 * o.shape[1]
        most = max(1, _CELLS // each)
        for block in above.blocks(int(above.sizes.max()) * each // _BLOCK):
            if len(block.rows) > 1:
                yield block
                continue
            for first in range(0, block.rows.shape[1], most):
                some = slice(first, first + most)
                yield block._replace(rows=block.rows[:, some], there=block.there[:, some])

    def _there(self, Z: np.ndarray) -> Iterator[tuple[int, _Point, np.ndarray]]:
        """Points with nodes for outer effects (n, G, Q), and these from the nodes' bases on (G, Q)."""
        for i, point in enumerate(self.points):
            if point is not None:
                point.reach(Z[i])
                yield i, point, Z[i] - point.base[:, None]


def _point(nested: NestedSums, theta: np.ndarray) -> _Point | None:
    try:
        return _Point(nested, theta)
    except TooManyNodes:  # −∞ there, as where both are summed together
        return None


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
