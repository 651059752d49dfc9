"""Smooths beside whatever is summed out: their coefficients are drawn with β, given a common sd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .coordinates import LOG, Kind
from .inside import Drawn, Effects, Evaluated, Inside, Lines
from .penalties import Penalty

_STEP = 1e-3  # of differences in a log sd


class Smoothed:
    """θ = (β, the terms' part, log sds of penalties, dispersions) around the sums of `inner`.

    `terms` is the length of the terms' part. See: Inside.
    """

    def __init__(self, inner: Inside, penalties: Sequence[Penalty], terms: int):
        self.inner, self.penalties, self.p = inner, tuple(penalties), inner.p
        first = self.p + terms
        self.own = np.arange(first, first + len(self.penalties))

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        inner, first = self.inner.kinds, self.own[0]
        return [*inner[:first], *LOG * len(self.own), *inner[first:]]

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor, or coefficients of the smallest smooth."""
        return min(self.inner.fewest, *(penalty.size for penalty in self.penalties))

    @property
    def work(self) -> float:
        """As without smooths."""
        return self.inner.work

    def start(self) -> np.ndarray:
        """A first θ: sds of ½."""
        start = self.inner.start()
        return np.insert(start, self.own[0], np.full(len(self.own), np.log(0.5)))

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        return self.inner.log_density(self.without(theta)) + self._of_penalties(theta)

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one θ (d,)."""
        at = np.delete(np.arange(len(theta)), self.own)
        value, inner_gradient, inner_hessian = self.inner.derivatives(theta[at])
        gradient, H = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
        gradient[at] = inner_gradient
        H[np.ix_(at, at)] = inner_hessian
        for here, penalty in zip(self.own, self.penalties, strict=True):
            places = penalty.places
            precision = np.exp(-2 * theta[here]) * penalty.unit
            pull = precision @ theta[places]
            gradient[places] -= pull
            H[np.ix_(places, places)] -= precision
            H[places, here] = H[here, places] = 2 * pull
            points = theta[here] + _STEP * np.array([-1.0, 0.0, 1.0])
            beta = np.tile(theta[: self.p], (3, 1))
            low, middle, high = penalty.log_density(points, beta)
            gradient[here] += (high - low) / (2 * _STEP)
            H[here, here] += (high - 2 * middle + low) / _STEP**2
            value += float(middle)
        return value, gradient, H

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with moments as without smooths."""
        found = self.inner.evaluate(self.without(theta))
        return found._replace(value=found.value + self._of_penalties(theta))

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """As without smooths."""
        return self.inner.unfold(self.without(theta), weights, first, second)

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """As without smooths."""
        return self.inner.expand(values)

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """As without smooths, whose columns X has."""
        return self.inner.lines(self.without(theta), X, codes, R)

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """As without smooths."""
        return self.inner.sample(self.without(theta), rng)

    def error(self, theta: np.ndarray) -> np.ndarray:
        """As without smooths."""
        return self.inner.error(self.without(theta))

    def choose_nodes(self, theta: np.ndarray) -> None:
        """As without smooths."""
        self.inner.choose_nodes(self.without(theta))

    def without(self, theta: np.ndarray) -> np.ndarray:
        """θ (n, d) without the sds, of which the rows know nothing given β."""
        return np.delete(theta, self.own, axis=1)

    def _of_penalties(self, theta: np.ndarray) -> np.ndarray:
        beta = theta[:, : self.p]
        parts = [
            penalty.log_density(theta[:, here], beta)
            for here, penalty in zip(self.own, self.penalties, strict=True)
        ]
        return np.sum(parts, axis=0)
