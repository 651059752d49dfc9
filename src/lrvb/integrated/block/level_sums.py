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
from .averages import nodes
from .fitting import Fitted
from .layout import Layout

REACH, COUNT = 5.5, 15  # sds and nodes of a level with one effect
REACH_TWO, STEP_TWO = 6.0, 1.0  # and with two
DRAWS = 256  # with more


class Gap(NamedTuple):
    """Σ_k log E exp R̄_k, and half the variance of the rest; each level's tilted means and covariances.

    Of each factor: moved (K, q) is E z_k less q's, spread (K, q, q) the covariance, third (K, q) E(z − E z)³.
    """

    own: float
    rest: float
    moved: list[np.ndarray]
    spread: list[np.ndarray]
    third: list[np.ndarray]

    @property
    def total(self) -> float:
        """What is added to the bound."""
        return self.own + self.rest


def gap(layout: Layout, fitted: Fitted) -> Gap:
    """The sums of all levels of all factors."""
    cells = layout.cells
    many = int(cells.max()) + 1
    rest, own = _of_rows(layout, fitted, cells, many), 0.0
    moved, spread, third = [], [], []
    for f, factor in enumerate(layout.factors):
        C = fitted.covariances[f]
        root = np.linalg.cholesky(C)
        c = fitted.Q.with_rows(f, fitted.v, C)
        # η = η̄ + aᵀt + what is left, with t standard normal
        inverse = np.linalg.inv(root)[factor.codes]
        a = np.einsum("nij,nj->ni", inverse, c)
        left = np.sqrt(np.maximum(fitted.v - (a**2).sum(1), 0.0))
        T, log_w = _level_nodes(factor.q)
        table = np.empty((factor.levels, len(T)))
        for j, t in enumerate(T):
            r = _rest_of_log_p(layout, fitted, a @ t, left, (a**2).sum(1))
            table[:, j] = np.bincount(factor.codes, r, factor.levels)
            rest -= np.exp(log_w[j]) * float((np.bincount(cells, r, many) ** 2).sum())
        table += log_w
        total = logsumexp(table, axis=1)
        P = np.exp(table - total[:, None])
        first = P @ T
        second = np.einsum("kj,ja,jb->kab", P, T, T, optimize=True)
        own += float(total.sum())
        moved.append(np.einsum("kij,kj->ki", root, first))
        centred = second - first[:, :, None] * first[:, None, :]
        spread.append(root @ centred @ root.swapaxes(1, 2))
        third.append(
            np.einsum("kj,kji->ki", P, (np.einsum("kab,jb->kja", root, T) - moved[f][:, None]) ** 3)
        )
    return Gap(own, max(rest, 0.0) / 2, moved, spread, third)


def _of_rows(layout: Layout, fitted: Fitted, cells: np.ndarray, many: int) -> float:
    """Σ over cells of the variance of their r, as if a cell's rows had one η."""
    sd, total = np.sqrt(fitted.v), 0.0
    none = np.zeros(layout.N)
    for x, weight in nodes(max(float(sd.max()), 1.0)):
        r = _rest_of_log_p(layout, fitted, x * sd, none, fitted.v)
        total += weight * float((np.bincount(cells, r, many) ** 2).sum())
    return total


def _rest_of_log_p(
    layout: Layout, fitted: Fitted, e: np.ndarray, sd: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """E log p(y | η̄ + e + sd·x) over x less its parts up to the second in e, which has this variance."""
    rows, phi = layout.rows, layout.phi(fitted.u)
    value = np.zeros(layout.N)
    widest = float(sd.max(initial=0.0))
    for x, weight in nodes(widest) if widest > 0 else [(0.0, 1.0)]:
        value += weight * rows.likelihood.log_p(rows.columns, fitted.eta + e + x * sd, phi)
    at = fitted.rows
    return value - at.value - at.score * e + at.information * (e**2 - variance) / 2


@cache
def _level_nodes(q: int) -> tuple[np.ndarray, np.ndarray]:
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
