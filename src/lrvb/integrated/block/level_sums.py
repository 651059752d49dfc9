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
from .fitting import Gaussian
from .layout import PARTS, Layout

REACH, COUNT = 5.5, 15  # sds and nodes of a level with one effect
REACH_TWO, STEP_TWO = 6.0, 1.0  # and with two
DRAWS = 256  # with more


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
