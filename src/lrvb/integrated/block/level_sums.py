r"""What the Gaussian block's evidence misses, level by level.

With q = N(m, Q⁻¹) at the maximum of the bound, log p(y, c | u) = log q(c) + bound + R(c), where R has neither
mean nor linear nor quadratic part under q: log p(y | u) = bound + log E_q exp R. Of R = Σ_n r_n(η_n) what
depends on one level alone, R̄_k(z_k) = E_q[R | z_k], has its own integral, exact in all orders:
Σ_k log E exp R̄_k. The rest, which no level has alone, is small: half its variance, cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri

from ...numerics.sobol import sobol
from .averages import gauss_hermite, nodes
from .fitting import Gaussian
from .layout import PARTS, Layout

REACH, COUNT = 5.5, 15  # sds and nodes of a level with one effect
REACH_TWO, STEP_TWO = 6.0, 1.0  # and with two
DRAWS = 256  # with more
WIDEST = 1.0  # sd of η for which a row's variance has nodes at least
# nodes that do up to sds of η, by a level alone and of a row: the sums' second differences are off by 1e-4
LEVELS, ROWS, MOST = {0.05: 5, 0.2: 7, 1.0: 11}, {0.2: 5, 0.8: 9}, 13
TOGETHER = 2**14  # rows times nodes at a time


class Gap(NamedTuple):
    """Σ_k log E exp R̄_k, and half the variance of the rest; each level's tilted means and covariances.

    Of each factor: moved (K, q) is E z_k less q's, spread (K, q, q) the covariance, third (K, q) E(z − E z)³,
    each (K,) the log E exp R̄_k. Where some levels stand for all, noise (P,) is what each P-th of them
    alone would add to `own`.
    """

    own: float
    rest: float
    moved: list[np.ndarray]
    spread: list[np.ndarray]
    third: list[np.ndarray]
    each: list[np.ndarray]
    noise: np.ndarray

    @property
    def total(self) -> float:
        """What is added to the bound."""
        return self.own + self.rest


def gap(layout: Layout, fitted: Gaussian, pattern: Pattern | None = None) -> Gap:
    """The sums of all factors' levels; of many rows, those of some levels stand for all.

    Given a pattern, which has the sums of all levels, those change since as the chosen ones' do, and all
    other levels' moments differ from q's as they do there.
    """
    rest, own, noise = 0.0, 0.0, np.zeros(PARTS)
    moved, spread, third, every = [], [], [], []
    for f, factor in enumerate(layout.factors):
        C = fitted.covariances[f]
        chosen = layout.chosen[f]
        rows = _Rows(layout, fitted, None if pattern is None else chosen[factor.codes])
        scale = len(chosen) / chosen.sum()
        if f == 0:
            widest = float(np.sqrt(rows.v.max(initial=0.0)))
            rest += scale * rows.variance(f, nodes(max(widest, WIDEST)))
        root = np.linalg.cholesky(C)
        T, log_w = level_nodes(factor.q)
        table, alone = rows.table(f, rows.follow(f, root), T, log_w)
        rest -= scale * alone
        total = logsumexp(table, axis=1)
        every.append(total)
        if pattern is None:
            own += float(total.sum())
        else:
            change = (total - pattern.found.each[f])[chosen]
            known = scale * float(change.sum())
            own += float(pattern.found.each[f].sum()) + known
            part = np.bincount(np.arange(len(change)) % PARTS, change, PARTS)
            noise += np.sqrt(1 - 1 / scale) * (PARTS * scale * part - known)
        found = _moments(table, total, T, root)
        if pattern is not None:
            others = pattern.at(f, C)
            found = tuple(
                np.where(chosen.reshape(-1, *(1,) * (part.ndim - 1)), part, other)
                for part, other in zip(found, others, strict=True)
            )
        moved.append(found[0])
        spread.append(found[1])
        third.append(found[2])
    return Gap(own, max(rest, 0.0) / 2, moved, spread, third, every, noise)


class Counts(NamedTuple):
    """How many nodes each factor's levels (0: those of `level_nodes`) and rows have in `total`."""

    levels: tuple[int, ...]
    rows: int


def counts(layout: Layout, fitted: Gaussian) -> Counts:
    """Those that do at a q, and near it; the same everywhere, so that differences have no steps."""
    rows, found = _Rows(layout, fitted), []
    for f, factor in enumerate(layout.factors):
        widest = float(np.abs(rows.follow(f, np.linalg.cholesky(fitted.covariances[f]))).max())
        enough = (count for most, count in LEVELS.items() if widest <= most)
        found.append(next(enough, 0) if factor.q == 1 else 0)
    widest = float(np.sqrt(fitted.v.max()))
    return Counts(tuple(found), next((n for most, n in ROWS.items() if widest <= most), MOST))


def total(layout: Layout, fitted: Gaussian, counts: Counts) -> float:
    """The total of `gap`: nobody asks for levels' moments, and fewer nodes do."""
    rest, own = 0.0, 0.0
    rows = _Rows(layout, fitted)
    for f, factor in enumerate(layout.factors):
        scale = len(layout.chosen[f]) / layout.chosen[f].sum()
        if f == 0:
            rest += scale * rows.variance(f, gauss_hermite(counts.rows))
        a = rows.follow(f, np.linalg.cholesky(fitted.covariances[f]))
        T, log_w = level_nodes(factor.q)
        if counts.levels[f]:
            x, weights = (
                np.array(part) for part in zip(*gauss_hermite(counts.levels[f]), strict=True)
            )
            T, log_w = x[:, None], np.log(weights)
        table, alone = rows.table(f, a, T, log_w)
        rest -= scale * alone
        own += float(logsumexp(table, axis=1).sum())
    return own + max(rest, 0.0) / 2


class Pattern(NamedTuple):
    """How all levels' moments differ from those of a q with these covariances."""

    found: Gap
    covariances: list[np.ndarray]

    def at(self, f: int, C: np.ndarray) -> tuple[np.ndarray, ...]:
        """E z less q's, covariances and third moments of a factor's levels with q's covariances C."""
        ratio = np.sqrt(_diagonal(C) / _diagonal(self.covariances[f]))
        both = ratio[:, :, None] * ratio[:, None, :]
        change = self.found.spread[f] - self.covariances[f]
        return self.found.moved[f] * ratio, C + change * both, self.found.third[f] * ratio**3


def _diagonal(blocks: np.ndarray) -> np.ndarray:
    return np.diagonal(blocks, axis1=1, axis2=2)


def _moments(
    table: np.ndarray, total: np.ndarray, T: np.ndarray, root: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Means, covariances and third central moments of levels root·t from log weights (K, J) of nodes."""
    P = np.exp(table - total[:, None])
    first = P @ T
    second = np.einsum("kj,ja,jb->kab", P, T, T, optimize=True)
    centred = second - first[:, :, None] * first[:, None, :]
    mean = np.einsum("kij,kj->ki", root, first)
    third = np.zeros_like(mean)
    for j, t in enumerate(T):
        third += P[:, [j]] * (root @ t - mean) ** 3
    return mean, root @ centred @ root.swapaxes(1, 2), third


class _Rows:
    """Rows of a fit, all or those kept (N,), cell by cell: a cell's have all levels and columns in common."""

    def __init__(self, layout: Layout, fitted: Gaussian, kept: np.ndarray | None = None):
        rows, known = layout.rows, fitted.rows
        self.at = at = layout.by_cell if kept is None else layout.by_cell[kept[layout.by_cell]]
        self.layout, self.fitted, self.likelihood = layout, fitted, rows.likelihood
        self.columns = tuple(column[at] for column in rows.columns)
        self.eta, self.v = fitted.eta[at], fitted.v[at]
        self.value, self.score, self.information = (part[at] for part in known)
        self.starts = np.flatnonzero(np.diff(layout.cells[at], prepend=-1))

    def follow(self, f: int, root: np.ndarray) -> np.ndarray:
        """a (n, q) in η = η̄ + aᵀt + what is left, where a factor's levels are root·t, t standard normal."""
        c = self.fitted.Q.with_rows(f, self.fitted.v, self.fitted.covariances[f])[self.at]
        codes = self.layout.factors[f].codes[self.at]
        return np.einsum("nij,nj->ni", np.linalg.inv(root)[codes], c)

    def table(
        self, f: int, a: np.ndarray, T: np.ndarray, log_w: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """R̄ of every level of a factor at nodes, with their weights (K, J); Σ E r² of cells that count."""
        left = np.sqrt(np.maximum(self.v - (a**2).sum(1), 0.0))
        level, counted = self._levels(f)
        table, squares = np.empty((self.layout.factors[f].levels, len(T))), 0.0
        for here, r in self._rest_of_log_p(a, left, T):
            for j, each in zip(range(len(T))[here], r, strict=True):
                table[:, j] = np.bincount(level, each, len(table))
            squares += float(np.exp(log_w[here]) @ (r[:, counted] ** 2).sum(1))
        return table + log_w, squares

    def variance(self, f: int, rule: Iterable[tuple[float, float]]) -> float:
        """Σ E r² of cells that count, as if a cell's rows had one η, by nodes and weights."""
        x, weights = (np.array(part) for part in zip(*rule, strict=True))
        sd, counted, total = np.sqrt(self.v), self._levels(f)[1], 0.0
        for here, r in self._rest_of_log_p(sd[:, None], np.zeros_like(sd), x[:, None]):
            total += float(weights[here] @ (r[:, counted] ** 2).sum(1))
        return total

    def _levels(self, f: int) -> tuple[np.ndarray, np.ndarray]:
        """Every cell's level of a factor, (C,), and whether that is one that stands for all."""
        found = self.layout.factors[f].codes[self.at[self.starts]]
        return found, self.layout.chosen[f][found]

    def _rest_of_log_p(
        self, a: np.ndarray, left: np.ndarray, T: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Of some t in T (J, q) at a time every cell's Σ r_n(t), (·, C).

        With η = η̄ + aᵀt + e, r_n(t) is E log p(y | η) over e, whose sd is `left`, less its parts up to the
        second in aᵀt.
        """
        known = [self.value + self.information * (a**2).sum(1) / 2]
        known += [self.score * own for own in a.T]
        known += [-self.information * x * y / 2 for x in a.T for y in a.T]
        coefficients = self._sums(np.array(known))
        widest = float(left.max(initial=0.0))
        inner = list(nodes(widest)) if widest > 0 else [(0.0, 1.0)]
        step = max(1, TOGETHER // max(len(a), 1))
        for start in range(0, len(T), step):
            here = slice(start, start + step)
            t = T[here]
            mean = t @ a.T
            mean += self.eta
            value = sum(
                weight * self.likelihood.log_p(self.columns, mean + x * left, self.fitted.phi)
                for x, weight in inner
            )
            squares = (t[:, :, None] * t[:, None, :]).reshape(len(t), -1)
            powers = np.hstack([np.ones((len(t), 1)), t, squares])
            yield here, self._sums(value) - powers @ coefficients

    def _sums(self, each: np.ndarray) -> np.ndarray:
        """Over every cell's rows, (…, C)."""
        if len(self.starts) == each.shape[-1]:
            return each
        return np.add.reduceat(each, self.starts, axis=-1)


@cache
def level_nodes(q: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (J, q) of a standard normal and the logarithms of their weights."""
    if q > 2:
        T = ndtri(np.clip(sobol(DRAWS, q, 0), 1e-9, 1 - 1e-9))
        return T, np.full(DRAWS, -np.log(DRAWS))
    if q == 1:
        T = np.linspace(-REACH, REACH, COUNT)[:, None]
    else:
        one = np.arange(-np.floor(REACH_TWO / STEP_TWO), REACH_TWO + 1e-9, STEP_TWO)
        T = np.array([t for t in product(one, repeat=2) if np.hypot(*t) <= REACH_TWO])
    log_w = -(T**2).sum(1) / 2
    return T, log_w - logsumexp(log_w)
