"""A level whose effect is drawn, left out whole: its effect is summed out, as those of other levels are.

Of crossed factors the smaller one's effects u are part of θ. A density given the effect of a level that goes
is of rows which this effect has followed. With θ′ the others,

    p(y_b | y_−b, θ′) = p(y_b | y_−b, θ) ∫ N(v; 0, s²) p(y | θ′, v) / p(y | θ′, u) dv,

a sum over places v, whose ratios are averages over the nodes of the other factor's levels.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import logsumexp

from ..crossed import Crossed
from ..inside import Lines
from ..regression import Regression, lifted
from ..smoothed import Smoothed
from ..terms import Term
from .blocks import EDGE, ROWS, Blocks, Cells, cells_of
from .rows import tail_of

_PLACES = (5, 9, 15, 31)  # of v, by Gauss and Hermite: as many as are enough at some points
_TRIED = 16  # points
_OFF = 1e-3  # of the logarithm, that more places may change
_STEPS = 2  # of Newton's method to the mode of v, from u, which is a draw of it
_LOG_2PI = float(np.log(2 * np.pi))


def drawn_levels(inside: object, codes: np.ndarray) -> np.ndarray:
    """How many levels whose effects are drawn each block of `codes` (N,) holds whole, (blocks,)."""
    inside = inside.inner if isinstance(inside, Smoothed) else inside
    blocks = int(codes.max(initial=-1)) + 1
    if not isinstance(inside, Crossed):
        return np.zeros(blocks, dtype=int)
    pairs = np.unique(np.column_stack([inside.small.codes, codes]), axis=0)
    within = np.bincount(pairs[:, 0], minlength=inside.small.levels)[pairs[:, 0]] == 1
    return np.bincount(pairs[within, 1], minlength=blocks)


def added_by_drawn(
    inside: Crossed, rows: Regression, small: Term, theta: np.ndarray, blocks: Blocks
) -> np.ndarray:
    """The logarithm of that integral (n, blocks), of blocks that hold one drawn level whole; 0 of others."""
    own = cells_of(blocks, small.codes, small.levels)
    whole = own.take(np.flatnonzero(own.whole))
    once = np.bincount(whole.block, minlength=blocks.n)[whole.block] == 1
    value = np.zeros((len(theta), blocks.n))
    for some in _runs(whole.take(np.flatnonzero(once))):
        value[:, some.block] = _Drawn(inside, rows, small, some).integrals(theta)
    return value


def _runs(levels: Cells) -> Iterator[Cells]:
    """Levels in runs of about so many rows."""
    run = levels.starts // ROWS
    for value in np.unique(run):
        yield levels.take(np.flatnonzero(run == value))


class _Drawn:
    """Some drawn levels (B,), and the cells of their rows within the levels of the larger factor."""

    def __init__(self, inside: Crossed, rows: Regression, small: Term, levels: Cells):
        self.inside, self.rows, self.small, self.level = inside, rows, small, levels.level
        count = len(levels.level)
        own = Blocks(levels.rows, np.repeat(np.arange(count), levels.sizes), count)
        self.cells = cells_of(own, inside.large.codes, inside.large.levels)
        self.first = np.searchsorted(self.cells.block, np.arange(count))
        self.of = np.repeat(self.cells.block, self.cells.sizes)
        self.r = small.R[self.cells.rows, 0]

    def integrals(self, theta: np.ndarray) -> np.ndarray:
        """The logarithms of the integrals at n points, (n, B)."""
        some = theta[:: max(1, len(theta) // _TRIED)]
        few, *more = _PLACES
        for places in more:
            if np.abs(self._integrals(some, few) - self._integrals(some, places)).max() < _OFF:
                break
            few = places
        return self._integrals(theta, few)

    def _integrals(self, theta: np.ndarray, places: int) -> np.ndarray:
        at, terms = self.cells.rows, (self.small, self.inside.large)
        codes, R = [term.codes[at] for term in terms], [term.R[at] for term in terms]
        value = np.empty((len(theta), len(self.level)))
        for found in self.inside.lines(theta, self.rows.X[at], codes, R):
            here = theta[found.at]
            u, log_s = here[:, self.inside.fixed + self.level], here[:, self.inside.p]
            ratio = _Averages(self, found, u, tail_of(self.inside, terms, here))
            value[found.at], edge = ratio.integral(u, log_s[:, None], places)
            for b in np.flatnonzero((edge > EDGE).any(0)):
                which = np.flatnonzero(edge[:, b] > EDGE)
                sums = _Sums(self, here[which], int(b))
                value[found.at[which], b] = sums.integral(u[which, b], log_s[which], places)[0]
        return value


class _Ratio:
    """r(v) = log p(y | θ′, v) − log p(y | θ), its slopes, and how much of its sums lies at nodes' ends."""

    def __call__(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """r, and the largest share of the sums that lies at a cell's ends, as v."""
        raise NotImplementedError

    def slopes(self, v: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """r′ and −r″, where effects vary by about `sd`."""
        raise NotImplementedError

    def integral(
        self, u: np.ndarray, log_s: np.ndarray, places: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """log ∫ N(v; 0, s²) e^r(v) dv from draws u of its integrand, and that share, averaged over it."""
        mode, prior, sd = u, np.exp(-2 * log_s), np.broadcast_to(np.exp(log_s), u.shape)
        for _ in range(_STEPS):
            gradient, curvature = self.slopes(mode, sd)
            sd = (np.maximum(curvature, 0.0) + prior) ** -0.5
            mode = mode + np.clip((gradient - mode * prior) * sd**2, -3 * sd, 3 * sd)
        x, w = np.polynomial.hermite_e.hermegauss(places)
        each, edges = np.empty((2, places, *u.shape))
        for j, place in enumerate(x):
            v = mode + sd * place
            each[j], edges[j] = self(v)
            each[j] += np.log(w[j]) + (place**2 - v**2 * prior) / 2
        total = logsumexp(each, axis=0)
        edge = (np.exp(each - total) * edges).sum(0)
        return total + np.log(sd) - log_s - _LOG_2PI / 2, edge


class _Sums(_Ratio):
    """Of one level at points θ (k, d): by sums with nodes of their own, at v (k,)."""

    def __init__(self, drawn: _Drawn, theta: np.ndarray, b: int):
        self.inside, self.theta = drawn.inside, theta.copy()
        self.place = drawn.inside.fixed + drawn.level[b]
        self.levels = drawn.cells.level[drawn.cells.block == b]
        self.start = self.inside.level_sums(theta, self.levels).sum(1)

    def __call__(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.theta[:, self.place] = v
        r = self.inside.level_sums(self.theta, self.levels).sum(1) - self.start
        return r, np.zeros_like(r)

    def slopes(self, v: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By differences so wide that nodes' own errors do not matter."""
        h = sd / 2
        low, middle, high = (self(each)[0] for each in (v - h, v, v + h))
        return (high - low) / (2 * h), (2 * middle - low - high) / h**2


class _Averages(_Ratio):
    """Of B levels at k points: by averages over the nodes given all rows, the first axis here; v (k, B)."""

    def __init__(self, drawn: _Drawn, lines: Lines, u: np.ndarray, tail: np.ndarray):
        self.u = u
        self.drawn, rows, at = drawn, drawn.rows, drawn.cells.rows
        self.likelihood, self.phi = rows.likelihood, lifted(rows.phi(tail), 1)
        self.columns = tuple(column[at] for column in rows.columns)
        self.eta = np.ascontiguousarray(np.moveaxis(lines.eta, 2, 0)) + rows.offset[at]
        P = np.ascontiguousarray(np.moveaxis(lines.P[:, drawn.cells.starts], 2, 0))
        self.void = P == 0  # nodes far out, where sums may be beyond all numbers
        self.log_P = np.log(P, where=~self.void, out=np.full(P.shape, -np.inf))
        self.start = self.likelihood.log_p(self.columns, self.eta, self.phi)

    def _moved(self, v: np.ndarray) -> np.ndarray:
        return self.eta + (v - self.u)[:, self.drawn.of] * self.drawn.r

    def _cells(self, each: np.ndarray) -> np.ndarray:
        """Sums of rows' values within the cells."""
        starts = self.drawn.cells.starts
        return each if len(starts) == each.shape[-1] else np.add.reduceat(each, starts, axis=-1)

    def _levels(self, each: np.ndarray) -> np.ndarray:
        return np.add.reduceat(each, self.drawn.first, axis=-1)

    @np.errstate(invalid="ignore")
    def _weighed(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the nodes (K, k, C), but for e^top (k, C)."""
        a = self._cells(self.likelihood.log_p(self.columns, eta, self.phi) - self.start)
        a += self.log_P
        np.copyto(a, -np.inf, where=self.void)
        top = a.max(0)
        a -= top
        return np.exp(a, out=a), top

    def __call__(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weighed, top = self._weighed(self._moved(v))
        total = weighed.sum(0)
        ends = (weighed[0] + weighed[-1]) / total
        return (
            self._levels(top + np.log(total)),
            np.maximum.reduceat(ends, self.drawn.first, axis=-1),
        )

    def slopes(self, v: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By scores and informations of the rows."""
        eta, r = self._moved(v), self.drawn.r
        P, _ = self._weighed(eta)
        P /= P.sum(0)
        score, information = self.likelihood.derivatives(self.columns, eta, self.phi)
        g, h = self._cells(score * r), self._cells(information * r**2)
        mean = (P * g).sum(0, where=~self.void)
        bend = (P * (h - g**2)).sum(0, where=~self.void) + mean**2
        return self._levels(mean), self._levels(bend)
