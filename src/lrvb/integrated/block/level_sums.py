r"""What the Gaussian block's evidence misses, level by level.

With q = N(m, Q⁻¹) at the maximum of the bound, log p(y, c | u) = log q(c) + bound + R(c), where R has neither
mean nor linear nor quadratic part under q: log p(y | u) = bound + log E_q exp R. Of R = Σ_n r_n(η_n) what
depends on one level alone, R̄_k(z_k) = E_q[R | z_k], has its own integral, exact in all orders:
Σ_k log E exp R̄_k. The rest, which no level has alone, is small: half its variance, cell by cell.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri

from ...numerics.sobol import sobol
from .averages import gauss_hermite, sd_of
from .fitting import Gaussian
from .layout import PARTS, Layout
from .rows import RowsHere

REACH, COUNT = 5.5, 15  # sds and nodes of a level with one effect
REACH_TWO, STEP_TWO = 6.0, 1.0  # and with two
DRAWS = 256  # with more
# nodes that do up to sds of η, by a level alone and of a row: the sums' second differences are off by 1e-4
LEVELS, ROWS, MOST = {0.05: 5, 0.2: 7, 1.0: 11}, {0.2: 5, 0.8: 9}, 13


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
    own, noise = 0.0, np.zeros(PARTS)
    moved, spread, third, every = [], [], [], []
    levels = [level_nodes(factor.q) for factor in layout.factors]
    rows, own_C = fitted.rows, fitted.covariances
    widest = rows.lean(fitted.Q.variances, own_C, layout.chosen, pattern is None)
    tables = rows.tables(fitted.phi, widest, levels, layout.chosen)
    for f, table in enumerate(tables.levels):
        C, chosen = own_C[f], layout.chosen[f]
        T, log_w = levels[f]
        root = np.linalg.cholesky(C)
        scale = len(chosen) / chosen.sum()
        table += log_w
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
    return Gap(own, max(tables.rest, 0.0) / 2, moved, spread, third, every, noise)


class Counts(NamedTuple):
    """How many nodes each factor's levels (0: those of `level_nodes`) and rows have in `total`."""

    levels: tuple[int, ...]
    rows: int


def counts(layout: Layout, fitted: Gaussian) -> Counts:
    """Those that do at a q, and near it; the same everywhere, so that differences have no steps."""
    rows, found = _leaning(layout, fitted)[0], []
    for factor, lean in zip(layout.factors, rows.leans, strict=True):
        enough = (count for most, count in LEVELS.items() if np.abs(lean.a).max() <= most)
        found.append(next(enough, 0) if factor.q == 1 else 0)
    widest = sd_of(rows.v)
    return Counts(tuple(found), next((n for most, n in ROWS.items() if widest <= most), MOST))


def total(layout: Layout, fitted: Gaussian, counts: Counts) -> float:
    """The total of `gap`: nobody asks for levels' moments, and fewer nodes do."""
    rows, widest = _leaning(layout, fitted)
    levels = [
        _as_level_nodes(count) if count else level_nodes(factor.q)
        for count, factor in zip(counts.levels, layout.factors, strict=True)
    ]
    rule = gauss_hermite(counts.rows)
    tables = rows.tables(fitted.phi, widest, levels, layout.chosen, rule)
    own = sum(
        float(logsumexp(table + log_w, axis=1).sum())
        for table, (_, log_w) in zip(tables.levels, levels, strict=True)
    )
    return own + max(tables.rest, 0.0) / 2


def _leaning(layout: Layout, fitted: Gaussian) -> tuple[RowsHere, np.ndarray]:
    """The rows of a fit, all of which are here, and the largest sds of what is left beside each factor."""
    rows = fitted.rows
    assert isinstance(rows, RowsHere)
    return rows, rows.lean(fitted.Q.variances, fitted.covariances, layout.chosen, True)


def _as_level_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """So many nodes of a level with one effect, as `level_nodes` has them."""
    x, weights = (np.array(part) for part in zip(*gauss_hermite(count), strict=True))
    return x[:, None], np.log(weights)


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
