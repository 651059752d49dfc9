"""Rows with log p = yη − trials · A(exp η), summed by products of exponentials.

exp(η + z) = exp(η) exp(z), so that nodes cost no exponential of their own; Σ log(1 + e) is the
logarithm of a product. Rows are taken by their rank in the group: those of one rank belong to the
first of the groups, which are in the order of their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .groups import Groups
from .regression import Regression
from .row_sums import Directly, Plane, RowSums

_LARGEST = 200.0  # |η| up to which exponentials and a product of three are far from overflow
_ROOM = 600.0  # the largest logarithm of a product


class Ranks:
    """The rows of groups by their rank within the group, and what of them does not depend on θ."""

    def __init__(self, rows: Regression, groups: Groups, R: np.ndarray):
        self.rows, self.groups, self.R = rows, groups, R
        within = np.arange(len(groups.of)) - groups.starts[groups.of]
        self.order = np.lexsort((groups.of, within))
        self.sizes = np.bincount(within)
        self.ends = np.cumsum(self.sizes)
        self.X, self.offset = rows.X[self.order], rows.offset[self.order][:, None]
        self.columns = R[self.order]
        y = rows.columns[0]
        self.yX = groups.sum(y[:, None] * rows.X, axis=0)
        self.yR = groups.sum(y[:, None] * R, axis=0)
        self.y_offset = groups.sum(y * rows.offset, axis=0)
        self.trials: np.ndarray | None = None
        if len(rows.columns) > 1 and np.any(rows.columns[1] != 1):
            self.trials = rows.columns[1][self.order][:, None]
        self.intercept = R.shape[1] == 1 and bool(np.all(R == 1))
        self.additive = rows.likelihood.exponential == "rate"

    def at(self, theta: np.ndarray, k: int) -> RowSums:
        """The sums of rows at points θ (n, d)."""
        return Exponents(self, theta, k)

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        """The number of groups that have a row of this rank, and where those rows are."""
        for size, end in zip(self.sizes.tolist(), self.ends.tolist(), strict=True):
            yield size, slice(end - size, end)


class Exponents:
    """The sums of `RowSums` for rates, A(e) = e, and odds, A(e) = log(1 + e); inside (G, n, …)."""

    def __init__(self, ranks: Ranks, theta: np.ndarray, k: int):
        self.ranks, self.theta, self.k = ranks, theta, k
        self.additive = ranks.additive
        beta = theta[:, : ranks.rows.p]
        self.eta = ranks.X @ beta.T + ranks.offset
        self.linear = ranks.yX @ beta.T + ranks.y_offset[:, None]
        self.largest = float(np.abs(self.eta).max(initial=0.0))
        self.E: np.ndarray | None = None
        self.total: np.ndarray | None = None
        if ranks.intercept and self.largest < _LARGEST:
            self.E = np.exp(self.eta)
            if self.additive:
                self.total = self._added(self.E)

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""
        z = np.ascontiguousarray(Z.swapaxes(0, 1))
        reach = self.largest + float(np.abs(z).max(initial=0.0))
        if self.E is None or not reach < _LARGEST:
            return self._directly().line(Z)
        ez = np.exp(z)
        result = self.linear[..., None] + self.ranks.yR[:, :, None] * z
        if self.total is not None:
            result -= self.total[..., None] * ez
        else:
            E = self.E[..., None]
            result -= self._products(lambda K, at: E[at] * ez[:K], z.shape, reach)
        return result.swapaxes(0, 1)

    def plane(self, plane: Plane) -> np.ndarray:
        """On product grids of two effects, (n, G, Q, Q)."""
        first, across, along = (np.ascontiguousarray(part.swapaxes(0, 1)) for part in plane)
        R = self.ranks.columns
        size = np.abs(R).max(0, initial=0.0)
        most = [float(np.abs(part).max(initial=0.0)) for part in (first, across, along)]
        reach = self.largest + size[0] * most[0] + size[1] * (most[1] + most[2])
        if not reach < _LARGEST:
            return self._directly().plane(plane)
        G, n, Q = first.shape

        def factors(K: int, at: slice) -> tuple[np.ndarray, np.ndarray]:
            r = R[at][:, :, None]
            start = self.eta[at] + r[:, 0] * first[:K, :, 0] + r[:, 1] * across[:K, :, 0]
            step = r[:, 0] * (first[:K, :, 1] - first[:K, :, 0])
            step = step + r[:, 1] * (across[:K, :, 1] - across[:K, :, 0])
            begin, widen = r[:, 1] * along[:K, :, 0], r[:, 1] * (along[:K, :, 1] - along[:K, :, 0])
            return _progression(start, step, Q), _progression(begin, widen, Q)

        def product(K: int, at: slice) -> np.ndarray:
            A, B = factors(K, at)
            return A[..., :, None] * B[..., None, :]

        yR = self.ranks.yR
        result = np.empty((G, n, Q, Q))
        by_first = self.linear[..., None] + yR[:, None, :1] * first + yR[:, None, 1:] * across
        result[...] = by_first[..., None]
        result += (yR[:, None, 1:] * along)[:, :, None, :]
        if self.additive:
            for K, at in self.ranks:
                result[:K] -= product(K, at)
        else:
            result -= self._products(product, result.shape, reach)
        return result.swapaxes(0, 1)

    def height(self, z: np.ndarray) -> np.ndarray:
        """At effects (n, G, q), (n, G)."""
        return self._directly().height(z)

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, q) and information (n, G, q, q) at effects (n, G, q)."""
        moved = z.transpose(1, 2, 0)  # (G, q, n)
        G, q, n = moved.shape
        R, trials = self.ranks.columns, self.ranks.trials
        pairs = [(i, j) for i in range(q) for j in range(i + 1)]
        gradient = np.zeros((q, G, n))
        H = np.zeros((q, q, G, n))
        if self.total is not None:
            rate = self.total * np.exp(np.minimum(moved[:, 0], 500.0))
            gradient[0], H[0, 0] = -rate, rate
        else:
            shift = np.exp(np.clip(moved[:, 0], -_LARGEST, _LARGEST)) if self.E is not None else None
            for K, at in self.ranks:
                if shift is not None:
                    assert self.E is not None
                    e = self.E[at] * shift[:K]
                else:
                    eta = self.eta[at]
                    for i in range(q):
                        eta = eta + R[at, i, None] * moved[:K, i]
                    e = np.exp(np.clip(eta, -_ROOM, _ROOM))
                if self.additive:
                    mean, information = e, e
                else:
                    inverse = 1 / (1 + e)
                    mean = e * inverse
                    information = mean * inverse
                if trials is not None:
                    mean, information = trials[at] * mean, trials[at] * information
                if self.ranks.intercept:
                    gradient[0, :K] -= mean
                    H[0, 0, :K] += information
                    continue
                for i in range(q):
                    gradient[i, :K] -= R[at, i, None] * mean
                for i, j in pairs:
                    H[i, j, :K] += (R[at, i] * R[at, j])[:, None] * information
        for i, j in pairs:
            H[j, i] = H[i, j]
        gradient += self.ranks.yR.T[:, :, None]
        return gradient.transpose(2, 1, 0), H.transpose(3, 2, 0, 1)

    def _added(self, values: np.ndarray) -> np.ndarray:
        """Rows' values (N, …) summed within groups."""
        total = np.zeros((len(self.ranks.groups.starts), *values.shape[1:]))
        for K, at in self.ranks:
            total[:K] += values[at]
        return total

    def _products(self, odds: object, shape: tuple[int, ...], reach: float) -> np.ndarray:
        """Σ trials · log(1 + odds) over the rows of each group; odds(K, rows) (K, n, …)."""
        trials = self.ranks.trials
        total = np.zeros(shape)
        if trials is not None:
            tall = trials.reshape(-1, *(1,) * (len(shape) - 1))
            for K, at in self.ranks:
                total[:K] += tall[at] * np.log1p(odds(K, at))  # type: ignore[operator]
            return total
        length = max(1, int(_ROOM / (reach + 1)))
        product, taken, widest = np.ones(shape), 0, len(total)
        for K, at in self.ranks:
            if taken == 0:
                widest = K
            part = odds(K, at)  # type: ignore[operator]
            part += 1
            product[:K] *= part
            taken += 1
            if taken == length:
                total[:widest] += np.log(product[:widest])
                product[:widest] = 1.0
                taken = 0
        if taken:
            total[:widest] += np.log(product[:widest])
        return total

    def _directly(self) -> Directly:
        ranks = self.ranks
        return Directly(ranks.rows, ranks.groups, ranks.R, self.theta, self.k)


def _progression(start: np.ndarray, step: np.ndarray, Q: int) -> np.ndarray:
    """exp(start + i · step) for i < Q, (…, Q)."""
    result = np.empty((*start.shape, Q))
    result[..., 0] = np.exp(start)
    ratio = np.exp(step)
    for i in range(1, Q):
        result[..., i] = result[..., i - 1] * ratio
    return result
