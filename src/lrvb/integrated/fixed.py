"""No random effects: rows are independent given β and φ, and nothing is left to be summed out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .coordinates import FREE, Kind
from .groups import repeat
from .inside import Drawn, Effects, Evaluated, Lines
from .regression import Regression, lifted

_CELLS, _POINTS = 2**16, 256  # rows × points at a time, and points: what fits a processor's cache
_MOST = 3e5  # work of a point that is owned up to


class Fixed:
    """θ = (β, dispersions): Σ_n log p(y_n | x_nᵀβ, φ) and the prior. Rows that are alike are one."""

    def __init__(self, rows: Regression):
        self.constant = rows.likelihood.constant(rows.columns)
        self.n, self.rows = len(rows.X), _merged(rows)
        self.p, self.N = rows.p, len(self.rows.X)

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return FREE * self.p + self.rows.likelihood.kinds

    @property
    def fewest(self) -> int:
        """Rows: there are no levels that could be few."""
        return self.n

    @property
    def work(self) -> float:
        """One evaluation a row, and its predictor; no more than is worth its time: there is no other way."""
        return min(self.N * (0.7 + self.p / 150), _MOST)

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, and the dispersions' own."""
        return np.concatenate([self.rows.mean, self.rows.dispersion_start()])

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        value = self._log_prior(theta) + self.of_rows(theta)
        return np.where(np.isnan(value), -np.inf, value)

    def of_rows(self, theta: np.ndarray) -> np.ndarray:
        """The log density of the rows alone, but for their constant, at n points (n,)."""
        rows, p, value = self.rows, self.p, np.zeros(len(theta))
        with np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, len(theta), _POINTS):
                at = theta[first : first + _POINTS]
                beta, phi = np.ascontiguousarray(at[:, :p].T), rows.phi(at[:, p:])
                step = max(1, _CELLS // len(at))
                for start in range(0, self.N, step):
                    here = slice(start, start + step)
                    eta = rows.X[here] @ beta + rows.offset[here, None]
                    columns = tuple(column[here, None] for column in rows.columns)
                    log_p = rows.likelihood.log_p(columns, eta, phi)
                    value[first : first + _POINTS] += log_p.sum(0)
        return value

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one θ (d,)."""
        value = float(self.log_density(theta[None])[0])
        return self.rows.with_prior(theta, value, *self.slopes_of_rows(theta), self._log_prior)

    def slopes_of_rows(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of the rows alone at one θ (d,)."""
        rows, p, d = self.rows, self.p, len(theta)
        eta, phi = rows.predictor(theta[None, :p])[0], lifted(rows.phi(theta[None, p:]), 0)
        score, information = rows.likelihood.derivatives(rows.columns, eta, phi)
        gradient, H = np.zeros(d), np.zeros((d, d))
        gradient[:p] = rows.X.T @ score
        H[:p, :p] = -rows.X.T @ (rows.X * information[:, None])
        columns = tuple(column[:, None] for column in rows.columns)
        if d > p:
            once = np.ones((len(eta), 1))
            found = rows.dispersion_derivatives(theta[p:], columns, eta[:, None], once)
            gradient[p:] = [slope.sum() for slope in found.first]
            H[p:, :p] = found.mixed @ rows.X
            H[:p, p:] = H[p:, :p].T
            H[p:, p:] = found.second
        return gradient, H

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, and moments of nothing."""
        none = np.zeros((len(theta), 0))
        return Evaluated(self.log_density(theta), none, none.copy())

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """No effects."""
        return ()

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """No levels."""
        return ()

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η = Xβ of m rows, certain given each point."""
        eta = theta[:, : self.p] @ X.T
        one = np.ones((*eta.shape, 1))
        yield Lines(np.arange(len(theta)), eta[:, :, None], one, np.zeros(eta.shape))

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """β of the points: there is nothing else."""
        return Drawn(theta[:, : self.p], ())

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Sums of rows are exact."""
        return np.zeros(len(theta))

    def choose_nodes(self, theta: np.ndarray) -> None:
        """There are none."""

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        """log p(θ) and the rows' constant, (n,)."""
        tail = self.rows.log_prior_dispersion(theta[:, self.p :])
        return self.rows.log_prior(theta[:, : self.p]) + tail + self.constant


def _merged(rows: Regression) -> Regression:
    """Rows that are alike as one row that counts for all of them."""
    values = values_of(rows)
    if not repeat(values):
        return rows
    _, first, inverse = np.unique(values, axis=0, return_index=True, return_inverse=True)
    counts = np.bincount(inverse.reshape(-1), weights=rows.weights)
    return rows.take(first).weighted(counts.astype(np.float64))


def values_of(rows: Regression) -> np.ndarray:
    """All that the density of a row hangs on, (N, k)."""
    return np.column_stack([rows.X, rows.offset, *rows.plain])
