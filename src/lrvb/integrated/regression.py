"""The rows of a mixed model apart from its random effects: η = Xβ + offset + …, and their priors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..likelihoods.dispersion import split_coordinates, values_at
from .density import Columns, Density
from .mode import differenced
from .penalties import Penalty

_CELLS = 2**17  # rows × nodes × points at a time, which fit a processor's cache
_STEP = 1e-4  # of differences of scores in the dispersions; ten times as much for those of log p


class Dispersed(NamedTuple):
    """Derivatives in the coordinates of k dispersions.

    first (N, Q), of each; mixed (k, N), with η, and second (k, k), summed with weights over nodes and rows.
    """

    first: list[np.ndarray]
    mixed: np.ndarray
    second: np.ndarray


@dataclass(frozen=True, eq=False)
class Regression:
    """y_n ~ p(y | η_n, φ), β ~ N(mean, P⁻¹), φ ~ dispersions (with `log_density`).

    columns are rows' arrays (N,), the response first, any weights last; X (N, p); offset (N,);
    P (p, p), which may be singular where β is flat; `constant` is that of log p(β). Where gaussian rows stand
    for others with the same sums, `ones` (N,) is what became of a column of ones: onesᵀones counts those.
    `unit` is the size of η: one on a log or logit scale.
    `penalties` are of coefficients that are flat in P.
    """

    likelihood: Density
    columns: Columns
    X: np.ndarray
    offset: np.ndarray
    mean: np.ndarray
    P: np.ndarray
    constant: float
    dispersions: tuple[Any, ...] = ()
    ones: np.ndarray | None = None
    unit: float = 1.0
    penalties: tuple[Penalty, ...] = ()

    @classmethod
    def independent(
        cls,
        likelihood: Density,
        columns: Columns,
        X: np.ndarray,
        offset: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        dispersions: tuple[Any, ...] = (),
    ) -> Regression:
        """With β_j ~ N(mean_j, sd_j²), independent; a flat prior, sd = ∞, has no constant."""
        finite = np.isfinite(sd)
        constant = -float(np.log(sd[finite]).sum() + finite.sum() * np.log(2 * np.pi) / 2)
        return cls(likelihood, columns, X, offset, mean, np.diag(sd**-2.0), constant, dispersions)

    @property
    def p(self) -> int:
        """Number of coefficients β."""
        return self.X.shape[1]

    @property
    def weights(self) -> np.ndarray | None:
        """How often each row counts, (N,); None where every row counts once."""
        return self.columns[-1] if self.likelihood.weighted else None

    @property
    def plain(self) -> Columns:
        """The columns without weights."""
        return self.columns[:-1] if self.likelihood.weighted else self.columns

    @property
    def n(self) -> float:
        """How many rows these count, or stand, for."""
        if self.ones is not None:
            return float(round(float(self.ones @ self.ones)))
        return float(len(self.X) if self.weights is None else self.weights.sum())

    def spread(self, values: np.ndarray) -> float:
        """Standard deviation over all rows of values (N,), which are among the sums."""
        ones = np.ones(len(values)) if self.ones is None else self.ones
        w = np.ones(len(values)) if self.weights is None else self.weights
        left = values - ones * ((w * ones) @ values / self.n)
        return float(np.sqrt(w @ left**2 / self.n))

    def weighted(self, weights: np.ndarray) -> Regression:
        """The same rows, each counting `weights` (N,) times instead."""
        return replace(self, likelihood=self.likelihood.counting(), columns=(*self.plain, weights))

    def take(self, rows: np.ndarray) -> Regression:
        """Some of the rows, in the order of `rows`."""
        columns = tuple(column[rows] for column in self.columns)
        return replace(self, columns=columns, X=self.X[rows], offset=self.offset[rows])

    def order_within(self, of: np.ndarray) -> np.ndarray:
        """Rows by their groups `of` (N,), and in each by what they are: not by how they were given."""
        alike = self.X @ (np.arange(self.p) + 1.0) ** -0.5 + self.offset
        return np.lexsort((alike, self.columns[0], of))

    def predictor(self, beta: np.ndarray) -> np.ndarray:
        """Xβ + offset at n points (n, p), (n, N)."""
        return beta @ self.X.T + self.offset

    def log_prior(self, beta: np.ndarray) -> np.ndarray:
        """log p(β) at n points (n, p), (n,); a flat prior adds nothing."""
        away = beta - self.mean
        return self.constant - ((away @ self.P) * away).sum(1) / 2

    def log_prior_dispersion(self, theta: np.ndarray) -> np.ndarray:
        """log p of the dispersions' part of θ at n points (n, k), (n,), with its Jacobian."""
        total = np.zeros(len(theta))
        parts = split_coordinates(self.likelihood.dispersions, theta)
        for (dispersion, u), prior in zip(parts, self.dispersions, strict=True):
            total += dispersion.range.log_density(prior, u)
        return total

    def dispersion_start(self) -> np.ndarray:
        """A first value of the dispersions' part of θ, (k,)."""
        parts = [dispersion.range.start() for dispersion in self.likelihood.dispersions]
        return np.concatenate([np.zeros(0), *parts])

    def phi(self, theta: np.ndarray) -> list[np.ndarray]:
        """The dispersions' values at n points of their part of θ (n, k), each (n,)."""
        return values_at(self.likelihood.dispersions, theta)

    def dispersion_derivatives(
        self, tail: np.ndarray, columns: Columns, eta: np.ndarray, weight: np.ndarray
    ) -> Dispersed:
        """Derivatives of rows' log densities in the dispersions' k coordinates, by differences.

        tail (k,) is the dispersions' part of θ; columns (N, 1); eta and weight (N, Q).
        """
        k, wide, E = len(tail), 10 * _STEP, np.eye(len(tail))
        still = np.flatnonzero(~self.likelihood.apart)  # what is apart bends with nothing else
        i, j = (still[place] for place in np.tril_indices(len(still), -1))
        sides = np.stack([E, -E], axis=1)  # up and down along each, (k, 2, k)
        pairs = sides[i] + sides[j]
        ask = self.likelihood

        def log_p(at: np.ndarray, phi: list[np.ndarray]) -> np.ndarray:
            return np.broadcast_to(ask.log_p(columns, at, phi), at.shape)

        def score(at: np.ndarray, phi: list[np.ndarray]) -> np.ndarray:
            return np.broadcast_to(ask.derivatives(columns, at, phi)[0], at.shape)

        moves = np.concatenate([np.zeros((1, k)), sides.reshape(-1, k), pairs.reshape(-1, k)])
        values = self._at(log_p, tail + wide * moves, eta)
        middle = 2 * next(values)
        first: list[np.ndarray] = []
        bends: list[float] = []
        for up, down in zip(values, values, strict=True):
            if len(first) < k:
                first.append((up - down) / (2 * wide))
            bend = up + down
            bend -= middle  # row by row, which rounds least
            bends.append(_total(bend, weight))
        own, both = np.split(np.array(bends), [k])
        second = np.diag(own)
        second[i, j] = second[j, i] = (both - own[i] - own[j]) / 2
        scores = self._at(score, tail + _STEP * sides[still].reshape(-1, k), eta)
        mixed = np.zeros((k, len(eta)))
        for place, (up, down) in zip(still, zip(scores, scores, strict=True), strict=True):
            mixed[place] = np.einsum("nq,nq->n", up - down, weight) / (2 * _STEP)
        return Dispersed(first, mixed, second / wide**2)

    def _at(
        self,
        ask: Callable[[np.ndarray, list[np.ndarray]], np.ndarray],
        tails: np.ndarray,
        eta: np.ndarray,
    ) -> Iterator[np.ndarray]:
        """ask(η, φ) at each of n points (n, k) of the dispersions, as many in one call as fit a cache."""
        few = max(1, _CELLS // max(1, eta.size))
        for start in range(0, len(tails), few):
            phi = lifted(self.phi(tails[start : start + few]), eta.ndim)
            yield from ask(np.broadcast_to(eta, (len(phi[0]), *eta.shape)), phi)

    def with_prior(
        self,
        theta: np.ndarray,
        value: float,
        gradient: np.ndarray,
        H: np.ndarray,
        log_prior: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Derivatives at θ (d,) of rows' sums with those of log p(θ) added.

        β's are in closed form; others', by differences of `log_prior`, which maps (n, d) to (n,) and need not
        have what is of β alone, whose rounding second differences would magnify.
        `value` has the prior already.
        """
        p, d = self.p, len(theta)
        _, first, second = differenced(
            lambda tail: log_prior(np.column_stack([np.tile(theta[:p], (len(tail), 1)), tail]))
        )(theta[p:])
        gradient, H = gradient.copy(), H.copy()
        gradient[:p] -= self.P @ (theta[:p] - self.mean)
        H[:p, :p] -= self.P
        gradient[p:d] += first
        H[p:, p:] += second
        return value, gradient, H


def _total(each: np.ndarray, weight: np.ndarray) -> float:
    """Σ each · weight, both (N, Q), without BLAS, which wakes other processors for so little."""
    return float(np.einsum("nq,nq->", each, weight))


def lifted(phi: Sequence[np.ndarray], axes: int) -> list[np.ndarray]:
    """Dispersions (n,) with further axes, to broadcast against (n, N, …)."""
    return [value.reshape(-1, *(1,) * axes) for value in phi]
