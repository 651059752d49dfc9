"""Two crossed factors: the larger is summed out, the smaller one's levels are drawn with β.

Given β, the smaller factor's levels w and θ, the larger factor's levels are independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import block_diag

from ..errors import InvalidModel
from .cells import Cells, same_in_cells
from .coordinates import Kind
from .factor_density import Tabulated
from .inside import Drawn, Effects, Evaluated, Lines
from .levels import Levels
from .regression import Regression
from .terms import Term

MOST_DRAWN = 50  # levels that may be drawn: importance sampling in more dimensions wastes its draws


class Crossed:
    """θ = ((β, w), log sd of small, log sd of large, dispersions), the large factor's levels summed out."""

    def __init__(self, rows: Regression, large: Term, small: Term, nodes: int = 17):
        if small.levels > MOST_DRAWN:
            raise InvalidModel(
                f"The smaller of two crossed factors has {small.levels} levels; up to {MOST_DRAWN} can "
                "be drawn along with the coefficients."
            )
        N, K = len(small.codes), small.levels
        columns = np.zeros((N, K))
        columns[np.arange(N), small.codes] = small.R[:, 0]
        joined = replace(
            rows,
            X=np.concatenate([rows.X, columns], axis=1),
            mean=np.concatenate([rows.mean, np.zeros(K)]),
            P=block_diag(rows.P, np.zeros((K, K))),
        )
        self.levels = Levels(joined, large, nodes=nodes)
        self.large, self.small = large, small
        self.p, self.fixed = joined.p, rows.p

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return [*self.levels.kinds[: self.p], "log", *self.levels.kinds[self.p :]]

    @property
    def owner(self) -> np.ndarray:
        """Which of θ is the log sd of each coefficient, (p,): the small factor's levels have one; else −1."""
        return np.where(np.arange(self.p) < self.fixed, -1, self.p)

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor."""
        return self.small.levels

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, levels 0, sds 1, dispersions at their start."""
        inner = self.levels.start()
        return np.concatenate(
            [inner[: self.p], self.small.start(self.levels.rows.unit), inner[self.p :]]
        )

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        return self.levels.log_density(self._without(theta)) + self._of_small(theta)

    def finer(self) -> Self:
        """The same with finer sums. See: FactorNodes.finer."""
        finer = copy(self)
        finer.levels = self.levels.finer()
        return finer

    def error(self, theta: np.ndarray) -> np.ndarray:
        """The error of the sums over the large factor's levels, (n,). See: Levels.error."""
        return self.levels.error(self._without(theta))

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The fewest nodes that suffice at n points."""
        self.levels.choose_nodes(self._without(theta))

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one θ (d,)."""
        at = np.delete(np.arange(len(theta)), self.p)
        value, inner_gradient, inner_hessian = self.levels.derivatives(theta[at])
        gradient, H = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
        gradient[at] = inner_gradient
        H[np.ix_(at, at)] = inner_hessian
        drawn = np.arange(self.fixed, self.p)
        w, precision = theta[drawn], np.exp(-2 * theta[self.p])
        gradient[drawn] -= precision * w
        H[drawn, drawn] -= precision
        H[drawn, self.p] = H[self.p, drawn] = 2 * precision * w
        h = 1e-3
        points = theta + h * np.array([[-1], [0], [1]]) * (np.arange(len(theta)) == self.p)
        low, middle, high = self._of_small(points)
        gradient[self.p] += (high - low) / (2 * h)
        H[self.p, self.p] += (high - 2 * middle + low) / h**2
        return value + float(middle), gradient, H

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E and E² of the small factor's levels, then of the large's."""
        inner = self.levels.evaluate(self._without(theta))
        w = theta[:, self.fixed : self.p]
        return Evaluated(
            inner.value + self._of_small(theta),
            np.concatenate([w, inner.first], axis=1),
            np.concatenate([w**2, inner.second], axis=1),
        )

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Posterior means and sds of the small factor's levels, then of the large one's."""
        K = self.small.levels
        mean, square = first[:K], second[:K]
        own = Effects(mean[:, None], np.sqrt(square - mean**2)[:, None], square.sum().reshape(1, 1))
        return (own, *self.levels.unfold(self._without(theta), weights, first[K:], second[K:]))

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """The small factor's levels as they are, then the large one's."""
        K = self.small.levels
        return (values[:K, None], *self.levels.expand(values[K:]))

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m rows at the nodes of the large factor's levels, with the small one's drawn."""
        known = np.flatnonzero(codes[0] >= 0)
        columns = np.zeros((len(X), self.small.levels))
        columns[known, codes[0][known]] = R[0][known, 0]
        fresh = np.where(codes[0] < 0, R[0][:, 0] ** 2, 0.0)
        wide = np.concatenate([X, columns], axis=1)
        for found in self.levels.lines(self._without(theta), wide, codes[1:], R[1:]):
            own = np.exp(2 * theta[found.at, self.p])[:, None] * fresh
            yield found._replace(extra=found.extra + own)

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """The small factor's levels, which θ has, and a draw of the large one's given them."""
        beta, effects = self.levels.sample(self._without(theta), rng)
        return Drawn(beta[:, : self.fixed], (beta[:, self.fixed :, None], *effects))

    def on(self, rows: Regression, terms: Sequence[Term]) -> Crossed:
        """The same sums of other rows, and other levels of the large factor; terms as in θ."""
        small, large = terms
        return Crossed(rows, large, small)

    def level_sums(self, theta: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Of the large factor's levels, given β and the small factor's. See: Factor.level_sums."""
        return self.levels.level_sums(self._without(theta), levels)

    @property
    def cells(self) -> int:
        """In how many cells both factors have one level each."""
        return self.same_in_cells[1]

    @cached_property
    def same_in_cells(self) -> tuple[np.ndarray, int]:
        """Columns that no cell's rows differ in, and how many cells there are."""
        return same_in_cells(self.levels, self._small_codes)

    def on_cells(self, center: np.ndarray, spread: np.ndarray) -> Tabulated:
        """Cells in place of the rows, near a point of the larger factor's θ."""
        same, _ = self.same_in_cells
        return Cells(self.levels, self._small_codes, center, spread, same)

    @property
    def _small_codes(self) -> np.ndarray:
        """Of the rows in the larger factor's order."""
        return self.small.codes[self.levels.groups.rows]

    @property
    def work(self) -> float:
        """As the large factor's."""
        return self.levels.work

    def _without(self, theta: np.ndarray) -> np.ndarray:
        """θ without the small factor's sd, of which the rows know nothing given its levels."""
        return np.delete(theta, self.p, axis=1)

    def _of_small(self, theta: np.ndarray) -> np.ndarray:
        """log p(w | sd) + log p(log sd) of the small factor, (n,)."""
        part = theta[:, self.p : self.p + 1]
        w = theta[:, self.fixed : self.p]
        K, log_sd = w.shape[1], part[:, 0]
        prior = self.small.log_prior(part, self.small.spread(part))
        inside = -(w**2).sum(1) * np.exp(-2 * log_sd) / 2
        return prior + inside - K * (log_sd + np.log(2 * np.pi) / 2)
