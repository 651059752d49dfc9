"""Two crossed factors: the larger is summed out, the smaller one's levels are drawn with β.

Given β, the smaller factor's levels w and θ, the larger factor's levels are independent.
"""

from __future__ import annotations

import numpy as np

from ..errors import InvalidModel
from .coordinates import Kind
from .inside import Effects, Evaluated
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
        joined = Regression(
            rows.likelihood,
            rows.columns,
            np.concatenate([rows.X, columns], axis=1),
            rows.offset,
            np.concatenate([rows.mean, np.zeros(K)]),
            np.concatenate([rows.sd, np.full(K, np.inf)]),
            rows.dispersions,
        )
        self.levels = Levels(joined, large, nodes=nodes)
        self.large, self.small = large, small
        self.p, self.fixed = joined.p, rows.p

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return [*self.levels.kinds[: self.p], "log", *self.levels.kinds[self.p :]]

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor."""
        return self.small.levels

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, levels 0, sds and dispersions 1."""
        inner = self.levels.start()
        return np.concatenate([inner[: self.p], self.small.start(1.0), inner[self.p :]])

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        return self.levels.log_density(self._without(theta)) + self._of_small(theta)

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
        """log density at n points, with E z and E z² of the large factor's groups. See: Levels."""
        inner = self.levels.evaluate(self._without(theta))
        return inner._replace(value=inner.value + self._of_small(theta))

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Posterior means and sds of the small factor's levels, then of the large one's."""
        drawn = theta[:, self.fixed : self.p]
        mean = weights @ drawn
        sd = np.sqrt(weights @ (drawn - mean) ** 2)
        large = self.levels.unfold(self._without(theta), weights, first, second)
        return (Effects(mean[:, None], sd[:, None]), *large)

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
