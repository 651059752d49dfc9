"""Where the nodes of one factor's sums are, how many suffice, and what they leave out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import NamedTuple, Self

import numpy as np

from .factor_density import FAR, NEAR, Ends, FactorDensity, Sums
from .frame import Frame, Look, find_window, reach, settle
from .row_sums import RowSums

TOLERANCE = 1e-2  # of the whole log density
EACH = (
    1e-3  # of the log of a group's sum: second moments, off by some ten times as much, are to 1 %
)
_MARGIN = 1.05  # by which ends found at some points are moved outwards for others
_OUTWARDS = 2.0  # and where there is no mode to look from, for sums that are finer
_MOVE = 1e-2  # of differences of means in θ
_SCANNED = 25, 15  # nodes an axis of grids on which windows are found, of one effect and of two
_HURRIED = 17, 15  # and in a hurry
_STEPS = 50  # of Newton's, to the modes
_EVEN, _BENT = 61, 31  # even nodes that are tried before bent ones, and the fewest of those
_NEAR = 1.5  # change of a log sd over which a mode is taken to move in proportion


class Off(NamedTuple):
    """What sums are off by at n points, what they leave out beyond their ends, and the most of one group."""

    off: np.ndarray
    cut: np.ndarray
    largest: float


def chosen(
    rungs: Sequence[tuple[bool, int]],
    ask: Callable[[bool, int], Off],
    tolerance: float = TOLERANCE,
    move: bool = True,
    least: int = 0,
) -> tuple[bool, int, float]:
    """The first nodes, bent or not, that suffice, or the best; what they are off by at the first point."""
    best = np.inf, False, 0, 0.0
    for bent, nodes in rungs:
        if nodes < least:
            continue
        off, cut, largest = ask(bent, nodes)
        change = off - off[0] if move else off
        left = max(float(np.max(np.abs(change) + cut)) / tolerance, largest / EACH)
        if not best[2] or left < best[0]:
            best = left, bent, nodes, float(off[0])
        if left < 1:
            break
    return best[1:]


class FactorNodes(FactorDensity):
    """Nodes around each group's mode, or over all of its bumps where there may be several."""

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What the log density is off by at n points, (n,), by twice the nodes and beyond the ends."""
        off, cut, _ = self._off(theta)
        return np.abs(off - self._known) + cut

    def _off(self, theta: np.ndarray) -> Off:
        """Σ_g (log T_Q − log T_2Q) at n points, and the share of the integrals beyond the ends.

        The last is the largest |log T_Q − log T_2Q| of a single group.
        """
        finer = copy(self)
        finer.nodes = 2 * self.nodes - 1
        every, axes = (slice(None, None, 2),) * self.q, tuple(range(2, 2 + self.q))
        off, cut, largest = np.empty(len(theta)), np.empty(len(theta)), 0.0
        for at, sums in finer._run(theta, np.arange(len(theta))):
            half = 2**self.q * sums.P[:, :, *every].sum(axes)
            each = np.log(half / sums.total)
            largest = max(largest, float(np.abs(each).max(initial=0.0)))
            off[at] = each @ self.groups.counts
            cut[at] = (beyond(sums.P) / sums.total) @ self.groups.counts
        return Off(off, cut, largest)

    def choose_nodes(
        self,
        theta: np.ndarray,
        tolerance: float = TOLERANCE,
        move: bool = True,
        least: int = 0,
    ) -> None:
        """Ends, and the fewest nodes, that suffice at n points; the first of them is the center.

        What nodes are off by at the center is known then, and taken out everywhere: only its change
        over the posterior matters, where nodes `move` with θ. The moments of each level ask for more of
        its own sum.
        """
        self.bent, theta = False, self._regular(theta)
        self._learn(theta, move)
        box = self._box

        def ask(bent: bool, nodes: int) -> Off:
            self.bent, self.nodes = bent, nodes
            self._box = None if bent else box  # tails so long are looked for at every point
            return self._off(theta)

        self.bent, self.nodes, self._known = chosen(self._rungs(), ask, tolerance, move, least)
        self._box = None if self.bent else box

    def widened(self, times: float) -> Self | None:
        """The same sums with ends so much further out and nodes as dense; None where ends are not known."""
        if self._box is None:
            return None
        wider = copy(self)
        wider._box = self._box[0] * times, self._box[1] * times
        wider.nodes = int(np.ceil(times * (self.nodes - 1))) + 1
        return wider

    def finer(self) -> Self:
        """The same sums with nodes twice as dense and ends further out: for what is asked of single rows.

        Nodes that suffice for a sum leave E[log p(y_i | η_i)] off by some ten times as much, because a row's
        log density is large where the sum has hardly a share. Evenly spaced nodes err by the square with half
        the spacing. Around a mode ends are looked for anew, until the integrand has fallen by e^−20.
        """
        finer = self.widened(_OUTWARDS) if self._frame is not None else None
        finer = copy(self) if finer is None else finer
        finer.nodes = 2 * finer.nodes - 1
        if self._frame is None:
            finer._box, finer.drop = None, FAR
        return finer

    def _rungs(self) -> list[tuple[bool, int]]:
        """Evenly spaced nodes or bent ones, and how many, in the order in which they are tried."""
        even = [(False, nodes) for nodes in self.ladder]
        if self.q > 1 or self._frame is not None:
            return even
        few = [rung for rung in even if rung[1] <= _EVEN]
        return few + [(True, nodes) for nodes in self.ladder if nodes >= _BENT] + even[len(few) :]

    def _learn(self, theta: np.ndarray, move: bool = True) -> None:
        """How modes `move` with θ from the first point, and ends that suffice at all of them."""
        self._box, self.drop = None, NEAR
        if self._frame is not None:
            self._learn_frame(theta, move)
            return
        step = 1e-3 * np.eye(len(theta[0]))
        points = np.vstack([theta[:1], theta[0] + step])
        rows, (precision, _) = self._rows_at(points), self._precision(points)
        z, _ = self._modes(rows, precision, self._guess(points), 1e-4)
        self._center, self._start = theta[0].copy(), z[0]
        self._moves = (z[1:] - z[0]).transpose(1, 2, 0) / 1e-3
        low, high = np.full((self.G, self.q), np.inf), np.full((self.G, self.q), -np.inf)
        for point in theta:
            ends = self._ends(point[None])
            low, high = np.minimum(low, ends.low.min(0)), np.maximum(high, ends.high.max(0))
        self._box = low * _MARGIN, high * _MARGIN

    def _learn_frame(self, theta: np.ndarray, move: bool) -> None:
        """The same where groups have no modes: moments, how they move, and windows around them."""
        center, precision = theta[0], self._precision(theta[:1])[0][0]
        ends = self._ends(theta[:1])
        mean, cov = self._moments_at(theta[:1], ends)
        frame = Frame.around(mean, cov, precision, center, self._like_beta())
        if move:
            still = np.arange(self.p, self.p + self.k)  # the spread's own part is in closed form
            means = np.repeat(mean[None], len(center) + 1, axis=0)
            for i in np.setdiff1d(np.arange(len(center)), still):
                point = center + _MOVE * (np.arange(len(center)) == i)
                means[i + 1], _ = self._moments_at(point[None], ends)
            frame = frame.moving(means, _MOVE, precision)
        self._frame = frame
        low, high = np.full((self.G, self.q), np.inf), np.full((self.G, self.q), -np.inf)
        for i, point in enumerate(theta):
            precisions, _ = self._precision(point[None])
            z, C = frame.at(point[None], precisions)
            if i == 0 and self.q == 1:  # known already, from where the frame was before
                first, last = (ends.z + ends.C[..., 0] * end for end in (ends.low, ends.high))
                found_low, found_high = (first - z) / C[..., 0], (last - z) / C[..., 0]
            else:
                prior = np.linalg.cholesky(np.linalg.inv(precisions))
                look = self._look(point[None], precisions)
                window = reach(look, find_window(look, z, C, self.drop), prior, self.drop)
                found_low, found_high = window.low, window.high
            low, high = np.minimum(low, found_low[0]), np.maximum(high, found_high[0])
        self._box = low * _MARGIN, high * _MARGIN

    @property
    def _scanned(self) -> int:
        """Nodes an axis of a grid on which a window is found."""
        return (_HURRIED if self.hurried else _SCANNED)[self.q - 1]

    def _like_beta(self) -> np.ndarray:
        """The effects A (G, q, p) with which RA is nearest to X in each group's rows."""
        if self._alike is None:
            R, X = self.R[:, :, None], self.rows.X[:, None]
            square = self.groups.sum(R * R.swapaxes(1, 2), axis=0)
            self._alike = np.linalg.pinv(square) @ self.groups.sum(R * X, axis=0)
        return self._alike

    def _seen(self, sums: Sums) -> tuple[np.ndarray, np.ndarray]:
        """Means (G, q) and covariances (G, q, q) of the groups' effects at one point."""
        Z = self._nodes(sums.grid)[0]
        P = sums.P[0].reshape(self.G, -1) / sums.total[0][:, None]
        mean = (P[:, None] @ Z)[:, 0]
        away = Z - mean[:, None]
        return mean, (away * P[..., None]).swapaxes(1, 2) @ away

    def _look(self, theta: np.ndarray, precision: np.ndarray) -> Look:
        """The log integrand of some groups at the nodes of windows. See: find_window."""
        sums = self._rows_at(theta)

        def look(groups: np.ndarray, *window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            here = copy(self) if len(groups) == self.G else self._only(groups)[0]
            here.nodes = self._scanned
            rows = sums if len(groups) == self.G else here._rows_at(theta)
            grid, f = here._heights(rows, precision, Ends(*window))
            return f, here._nodes(grid)

        return look

    def _resolved(self, theta: np.ndarray, ends: Ends) -> tuple[Sums, int]:
        """Sums of all groups at one point (1, d), with as many nodes as half of them confirm."""
        here = copy(self)
        here.nodes = self._scanned
        while True:
            sums = here._sums(theta, ends)
            if here._halved(sums).max(initial=0.0) < EACH or here.nodes > self.ladder[-1]:
                return sums, here.nodes
            here.nodes = 2 * here.nodes - 1

    def _moments_at(self, theta: np.ndarray, ends: Ends) -> tuple[np.ndarray, np.ndarray]:
        """Means and covariances at a point (1, d), each group's with nodes that half of them confirm."""
        here, left = copy(self), np.ones(self.G, dtype=bool)
        mean, cov = np.empty((self.G, self.q)), np.empty((self.G, self.q, self.q))
        here.nodes = self._scanned
        while True:
            sums = here._sums(theta, ends)
            done = left & ((here._halved(sums) < EACH) | (here.nodes > self.ladder[-1]))
            first, second = here._seen(sums)
            mean[done], cov[done] = first[done], second[done]
            left &= ~done
            if not left.any():
                return mean, cov
            here.nodes = 2 * here.nodes - 1

    def _halved(self, sums: Sums) -> np.ndarray:
        """What half the nodes change of the log of each group's sum, at one point, (G,)."""
        every, axes = (slice(None, None, 2),) * self.q, tuple(range(2, 2 + self.q))
        half = 2**self.q * sums.P[:, :, *every].sum(axes)
        return np.asarray(np.abs(np.log(np.maximum(half, 1e-300) / sums.total)))[0]

    def _modes(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray, close: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Modes near z (n, G, q), to about close² sds, and C (n, G, q, q).

        Points rest where all groups are there, and groups once they are: a group's mode hangs on no other's.
        """
        begun = self._step(sums, precision, z)
        step, C, gain = begun.step, begun.C, (begun.gradient * begun.step).sum(-1)
        z, away = z + step, begun.length > close
        far = np.flatnonzero(away.any(1))
        step, gain, away = step[far], gain[far], away[far]
        for _ in range(_STEPS):
            if not len(far):
                break
            found = self._step(sums.take(far), precision[far], z[far])
            C[far] = np.where(away[..., None, None], found.C, C[far])
            # steeper beyond the top than before it: half way back, or Newton's steps may grow for ever;
            # but so close to it that is rounding
            over = ((found.gradient * step).sum(-1) < -gain) & (gain > close**2)
            step = np.where(over[..., None], -step / 2, found.step)
            z[far] += np.where(away[..., None], step, 0.0)
            gain = np.where(over, gain / 2, (found.gradient * found.step).sum(-1))
            step = np.where(over[..., None], -step, step)
            away &= (found.length > close) | over
            left = away.any(1)
            far, step, gain, away = far[left], step[left], gain[left], away[left]
        return z, C

    def _guess(self, theta: np.ndarray) -> np.ndarray:
        """Modes at n points as they move from the center's, (n, G, q)."""
        away = theta - self._center
        away[:, self._log] = np.clip(away[:, self._log], -_NEAR, _NEAR)
        return self._start + np.tensordot(away, self._moves, axes=(1, 2))

    def _ends(self, theta: np.ndarray) -> Ends:
        """Modes at n points, and ends as chosen or else searched for."""
        precision, _ = self._precision(theta)
        if self._frame is not None:
            z, C = self._frame.at(theta, precision)
            if self._box is None:
                prior = np.linalg.cholesky(np.linalg.inv(precision))
                look = self._look(theta, precision)
                return Ends(*settle(look, z, C, None if self.hurried else prior, self.drop)[:4])
            return Ends(z, C, *(np.broadcast_to(end, z.shape) for end in self._box))
        sums = self._rows_at(theta)
        if self._box is None:
            z, C = self._modes(sums, precision, self._guess(theta), 0.05)
            return Ends(z, C, *self._search(sums, precision, z, C))
        z, C = self._modes(sums, precision, self._guess(theta), 0.3)
        return Ends(z, C, *(np.broadcast_to(end, z.shape) for end in self._box))

    def _only(self, group: np.ndarray) -> tuple[Self, np.ndarray]:
        """The sums of some groups alone, and their numbers there; −1 stays."""
        some = np.unique(group[group >= 0])
        if len(some) in (0, self.G):
            return self, group
        here = copy(self)
        kept = np.flatnonzero(np.isin(self.groups.of, some))
        place = np.full(self.G + 1, -1)
        place[some] = np.arange(len(some))
        of = place[self.groups.of[kept]]
        here.groups = self.groups._replace(
            rows=self.groups.rows[kept],
            starts=np.searchsorted(of, np.arange(len(some))),
            counts=self.groups.counts[some],
            of=of,
        )
        here._arrange(self.rows.take(kept), self.R[kept])
        here._start, here._moves = self._start[some], self._moves[some]
        if self._box is not None:
            here._box = self._box[0][some], self._box[1][some]
        if self._frame is not None:
            here._frame = self._frame.take(some)
        return here, place[group]


def beyond(P: np.ndarray) -> np.ndarray:
    """What sums of densities P (n, G, Q, …) leave out beyond the ends of their grids, at most, (n, G).

    Along each axis a margin of a log-concave density is log-concave, so that beyond an end with the
    ratio r of its last two values it falls at least as r, r², …: it is below the last over 1 − r.
    """
    axes = tuple(range(2, P.ndim))
    total = np.zeros(P.shape[:2])
    for axis in axes:
        margin = P.sum(tuple(other for other in axes if other != axis))
        for last, before in ((0, 1), (-1, -2)):
            end, inner = margin[..., last], margin[..., before]
            falls = np.maximum(inner - end, 1e-3 * end)  # an end that does not fall is far too near
            total += np.divide(end * inner, falls, out=np.zeros_like(end), where=end > 0)
    return total
