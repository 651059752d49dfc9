"""The rows of a mixed model apart from its random effects: η = Xβ + offset + …, and their priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from .coordinates import Kind
from .likelihood import Columns, Likelihood


@dataclass(frozen=True, eq=False)
class Regression:
    """y_n ~ p(y | η_n, φ), β_j ~ N(mean_j, sd_j²), φ ~ dispersions (with `log_density`).

    columns are rows' arrays (N,), the response first; X (N, p); offset (N,); sd may be ∞.
    """

    likelihood: Likelihood
    columns: Columns
    X: np.ndarray
    offset: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    dispersions: tuple[Any, ...] = ()

    @property
    def p(self) -> int:
        """Number of coefficients β."""
        return self.X.shape[1]

    def take(self, rows: np.ndarray) -> Regression:
        """Some of the rows, in the order of `rows`."""
        columns = tuple(column[rows] for column in self.columns)
        return Regression(
            self.likelihood,
            columns,
            self.X[rows],
            self.offset[rows],
            self.mean,
            self.sd,
            self.dispersions,
        )

    def predictor(self, beta: np.ndarray) -> np.ndarray:
        """Xβ + offset at n points (n, p), (n, N)."""
        return beta @ self.X.T + self.offset

    def log_prior(self, beta: np.ndarray) -> np.ndarray:
        """log p(β) at n points (n, p), (n,); a flat prior adds nothing."""
        proper = np.isfinite(self.sd)
        z = (beta[:, proper] - self.mean[proper]) / self.sd[proper]
        constant = np.log(self.sd[proper]).sum() + proper.sum() * np.log(2 * np.pi) / 2
        return -(z**2).sum(1) / 2 - constant

    def log_prior_dispersion(self, theta: np.ndarray) -> np.ndarray:
        """log p of the dispersions' part of θ at n points (n, k), (n,), with its Jacobian."""
        total = np.zeros(len(theta))
        for j, (kind, prior) in enumerate(
            zip(self.likelihood.dispersions, self.dispersions, strict=True)
        ):
            t = theta[:, j]
            total += prior.log_density(natural(kind, t))
            total += t if kind == "log" else log_expit(t) + log_expit(-t)
        return total

    def phi(self, theta: np.ndarray) -> list[np.ndarray]:
        """The dispersions themselves at n points of their part of θ (n, k), each (n,)."""
        return [natural(kind, theta[:, j]) for j, kind in enumerate(self.likelihood.dispersions)]


def natural(kind: Kind, theta: np.ndarray) -> np.ndarray:
    """A dispersion from its coordinate: e^θ, or 1/(1 + e^−θ) of a logit."""
    return np.exp(theta) if kind == "log" else expit(theta)


def lifted(phi: Sequence[np.ndarray], axes: int) -> list[np.ndarray]:
    """Dispersions (n,) with further axes, to broadcast against (n, N, …)."""
    return [value.reshape(-1, *(1,) * axes) for value in phi]
