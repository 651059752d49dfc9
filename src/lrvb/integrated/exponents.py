"""Rows with log p = yη − trials · A(exp η), summed by products of exponentials.

With a shape s, A(e) = log(1 + e/s), trials are y + s, and a constant of each row depends on s.

exp(η + z) = exp(η) exp(z), so that nodes cost no exponential of their own: Σ exp(η + z) is a product of
sums, or on a product grid a product of matrices; Σ log(1 + exp(η + z)) is the logarithm of a product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..numerics.gamma import log_rising
from .groups import Block, Groups
from .regression import Regression
from .row_sums import LARGEST, Directly, Plane, RowSums

_ROOM = 600.0  # the largest logarithm of a product
_FEW = 2**13  # nodes of all groups, of fewer of which a visit to each row by itself takes longer
_CELLS = 2**22  # nodes of rows that may be in memory at a time
_NEVER = -1e4  # η of a row that is not there: exp η = 0


class Exponential:
    """What rows of groups have whatever θ is: `at` gives their sums at points."""

    def __init__(self, rows: Regression, groups: Groups, R: np.ndarray):
        self.rows, self.groups, self.R = rows, groups, R
        self._blocks: dict[int, list[Block]] = {}
        self.additive = rows.likelihood.exponential == "rate"
        self.shaped = rows.likelihood.exponential == "shape"
        self.intercept = R.shape[1] == 1 and bool(np.all(R == 1))
        y, w = rows.columns[0], rows.weights
        y = y if w is None else w * y
        self.yX = groups.sum(y[:, None] * rows.X, axis=0)
        self.yR = groups.sum(y[:, None] * R, axis=0)
        self.y_offset = groups.sum(y * rows.offset, axis=0)
        self.trials: np.ndarray | None = None
        if len(rows.plain) > 1 and np.any(rows.columns[1] != 1):
            self.trials = rows.columns[1][:, None]
        # w exp η = exp(η + log w) of a rate; w trials of odds
        self.shift = 0.0 if w is None or not self.additive else np.log(w)[:, None]
        if w is not None and not self.additive and not self.shaped:
            self.trials = w[:, None] if self.trials is None else w[:, None] * self.trials

    @cached_property
    def cost(self) -> float:
        """Of a node and a row, where a density of its own is 1."""
        return 0.4 if self.shaped else 0.1

    @cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """The different counts, and the place among them of every row's."""
        y, place = np.unique(self.rows.columns[0], return_inverse=True)
        return y, place.reshape(-1)

    def blocks(self, cells: int) -> list[Block]:
        """Groups of nearly one size at a time, found once for each number of cells a group."""
        if cells not in self._blocks:
            self._blocks[cells] = self.groups.blocks(cells)
        return self._blocks[cells]

    def at(self, theta: np.ndarray, k: int) -> RowSums:
        """The sums of rows at points θ (n, d)."""
        return Exponents(self, theta, k)


class Exponents:
    """The sums of `RowSums` for rates, A(e) = e, and odds, A(e) = log(1 + e); arrays (N or G, n, …)."""

    def __init__(self, fixed: Exponential, theta: np.ndarray, k: int):
        self.fixed, self.theta, self.k = fixed, theta, k
        beta = theta[:, : fixed.rows.p]
        self.eta = fixed.rows.X @ beta.T + fixed.rows.offset[:, None] + fixed.shift
        self.linear = fixed.yX @ beta.T + fixed.y_offset[:, None]
        self.trials = fixed.trials
        if fixed.shaped:
            (self.shape,) = fixed.rows.phi(theta[:, fixed.rows.p + k :])
            self.eta -= np.log(self.shape)
            self.trials = fixed.rows.columns[0][:, None] + self.shape
            if fixed.rows.weights is not None:
                self.trials = fixed.rows.weights[:, None] * self.trials
        self.largest = float(np.abs(self.eta).max(initial=0.0))
        self.E = np.exp(np.clip(self.eta, -LARGEST, LARGEST)) if fixed.intercept else None
        self.total: np.ndarray | None = None
        if self.E is not None and fixed.additive:
            self.total = fixed.groups.sum(self.E, axis=0)

    def take(self, points: np.ndarray) -> RowSums:
        """At some of the points."""
        return Exponents(self.fixed, self.theta[points], self.k)

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""
        fixed = self.fixed
        z = np.ascontiguousarray(Z.swapaxes(0, 1))
        reach = self.largest + float(np.abs(z).max(initial=0.0))
        cells = z[0].size * len(fixed.groups.of)
        few = not fixed.additive and z.size < _FEW and cells < _CELLS
        if self.E is None or few or not reach < LARGEST:
            return self._directly().line(Z)
        if self.total is not None:
            return rate_line(self.level, fixed.yR, self.total, z).swapaxes(0, 1)
        ez = np.exp(z)
        result = self.level[..., None] + fixed.yR[:, :, None] * z
        for block in fixed.blocks(z[0].size):  # of lambdas' defaults mypy infers no types
            E = self.E[block.rows]
            E[~block.there] = 0.0
            here, trials = ez[block.groups], self._trials(block)
            result[block.groups] -= _logs(
                lambda j, out, E=E, here=here: np.multiply(E[:, j, :, None], here, out=out),  # type: ignore[misc]
                here.shape,
                E.shape[1],
                reach,
                trials,
            )
        return result.swapaxes(0, 1)

    def plane(self, plane: Plane) -> np.ndarray:
        """On product grids of two effects, (n, G, Q, Q)."""
        fixed = self.fixed
        first, across, along = (np.ascontiguousarray(part.swapaxes(0, 1)) for part in plane)
        size = np.abs(fixed.R).max(0, initial=0.0)
        most = [float(np.abs(part).max(initial=0.0)) for part in (first, across, along)]
        reach = self.largest + size[0] * most[0] + size[1] * (most[1] + most[2])
        if not reach < _ROOM:
            return self._directly().plane(plane)
        _, n, Q = first.shape
        yR = fixed.yR
        by_first = self.level[..., None] + yR[:, None, :1] * first + yR[:, None, 1:] * across
        result = by_first[..., None] + (yR[:, None, 1:] * along)[:, :, None, :]
        for block in fixed.blocks(n * Q * Q):
            A, B = self._factors(block, first, across, along)
            if fixed.additive:
                result[block.groups] -= A.swapaxes(2, 3) @ B
                continue
            result[block.groups] -= _logs(
                lambda j, out, A=A, B=B: np.multiply(  # type: ignore[misc]
                    A[:, :, j, :, None], B[:, :, j, None, :], out=out
                ),
                result[block.groups].shape,
                A.shape[2],
                reach,
                self._trials(block),
            )
        return result.swapaxes(0, 1)

    @cached_property
    def level(self) -> np.ndarray:
        """Σ yη without effects, and log Γ(y + s)/Γ(s) − y log s where there is a shape, (G, n)."""
        fixed = self.fixed
        if not fixed.shaped:
            return self.linear
        y, place = fixed.distinct
        s = self.shape
        own = log_rising(y, s[:, None]) - y * np.log(s)[:, None]
        each = np.take(own.T, place, axis=0)
        if fixed.rows.weights is not None:
            each *= fixed.rows.weights[:, None]
        return self.linear + fixed.groups.sum(each, axis=0)

    def height(self, z: np.ndarray) -> np.ndarray:
        """At effects (n, G, q), (n, G)."""
        return self._directly().height(z)

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, q) and information (n, G, q, q) at effects (n, G, q)."""
        fixed, R = self.fixed, self.fixed.R
        moved = z.transpose(1, 2, 0)  # (G, q, n)
        G, q, n = moved.shape
        if self.total is not None:
            return rate_slopes(fixed.yR, self.total, z)
        gradient, H = np.empty((n, G, q)), np.empty((n, G, q, q))
        if self.E is not None and self.largest < LARGEST:
            shift = np.exp(np.clip(moved[:, 0], -LARGEST, LARGEST))
            e = self.E * shift[fixed.groups.of]
        else:
            eta = self.eta.copy()
            for i in range(q):
                part = np.ascontiguousarray(moved[:, i])[fixed.groups.of]
                part *= R[:, [i]]
                eta += part
            e = np.exp(np.clip(eta, -_ROOM, _ROOM, out=eta), out=eta)
        mean, information = e, e
        if not fixed.additive:
            inverse = 1 / (1 + e)
            mean = np.multiply(e, inverse, out=e)
            information = np.multiply(mean, inverse, out=inverse)
        if self.trials is not None:
            mean, information = self.trials * mean, self.trials * information
        for i in range(q):
            score = mean if fixed.intercept else R[:, [i]] * mean
            gradient[..., i] = (fixed.yR[:, [i]] - fixed.groups.sum(score, axis=0)).T
            for j in range(i + 1):
                part = information if fixed.intercept else (R[:, [i]] * R[:, [j]]) * information
                H[..., i, j] = H[..., j, i] = fixed.groups.sum(part, axis=0).T
        return gradient, H

    def _factors(
        self, block: Block, first: np.ndarray, across: np.ndarray, along: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A, B (groups, n, size, Q) with A_q B_r = exp η at node (q, r) of a row."""
        Q = first.shape[2]
        r = self.fixed.R[block.rows]  # (groups, size, 2)
        one, two = r[:, None, :, 0], r[:, None, :, 1]
        f, a, b = first[block.groups], across[block.groups], along[block.groups]
        eta = np.where(block.there[..., None], self.eta[block.rows], _NEVER).swapaxes(1, 2)
        start = eta + one * f[..., :1] + two * a[..., :1]
        step = one * (f[..., 1:2] - f[..., :1]) + two * (a[..., 1:2] - a[..., :1])
        A = _progression(start, step, Q)
        B = _progression(two * b[..., :1], two * (b[..., 1:2] - b[..., :1]), Q)
        return A, B

    def _trials(self, block: Block) -> np.ndarray | None:
        return None if self.trials is None else self.trials[block.rows]

    def _directly(self) -> Directly:
        fixed = self.fixed
        return Directly(fixed.rows, fixed.groups, fixed.R, self.theta, self.k)


def rate_line(level: np.ndarray, y: np.ndarray, total: np.ndarray, z: np.ndarray) -> np.ndarray:
    """level + yz − total e^z at nodes z (G, n, Q): level, total (G, n), y (G, 1)."""
    ez = np.exp(z)
    ez *= total[..., None]
    result = y[:, :, None] * z
    result += level[..., None]
    result -= ez
    return result


def rate_slopes(y: np.ndarray, total: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (n, G, 1) and information (n, G, 1, 1) of the same at effects (n, G, 1)."""
    rate = total * np.exp(np.clip(z[..., 0].T, -_ROOM, _ROOM))
    return (y - rate).T[..., None], rate.T[..., None, None]


def _logs(
    odds: Callable[[int, np.ndarray], np.ndarray],
    shape: tuple[int, ...],
    size: int,
    reach: float,
    trials: np.ndarray | None,
) -> np.ndarray:
    """Σ_j trials_j log(1 + odds_j) over `size` rows of each group; odds(j, out) fills (groups, n, …).

    reach bounds the logarithm of odds; trials (groups, size, 1 or n) are 1 if not given.
    """
    buffer, total = np.empty(shape), np.zeros(shape)
    if trials is not None:
        for j in range(size):
            odds(j, buffer)
            buffer += 1
            np.log(buffer, out=buffer)
            buffer *= trials[:, j].reshape(shape[0], -1, *(1,) * (len(shape) - 2))
            total += buffer
        return total
    length = max(1, int(_ROOM / (reach + 1)))
    product = np.ones(shape)
    for j in range(size):
        odds(j, buffer)
        buffer += 1
        product *= buffer
        if (j + 1) % length == 0 and j + 1 < size:
            total += np.log(product)
            product[...] = 1.0
    total += np.log(product, out=product)
    return total


def _progression(start: np.ndarray, step: np.ndarray, Q: int) -> np.ndarray:
    """exp(start + i · step) for i < Q, (…, Q): twice as many at a time."""
    if (
        not Q * float(np.abs(step).max(initial=0.0)) < _ROOM
    ):  # powers of the ratio may be beyond reach
        return np.exp(start[..., None] + step[..., None] * np.arange(Q))
    result = np.empty((*start.shape, Q))
    result[..., 0], ratio, done = np.exp(start), np.exp(step)[..., None], 1
    while done < Q:
        more = min(done, Q - done)
        np.multiply(result[..., :more], ratio, out=result[..., done : done + more])
        ratio, done = ratio * ratio, done + more
    return result
