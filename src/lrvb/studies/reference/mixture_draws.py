"""Draws from the posterior of a Gaussian mixture, and their summary by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from .ess import effective_sample_size


@dataclass(frozen=True)
class MixtureDraws:
    """One chain of n draws of the parameters of K components in P dimensions.

    Quantities are named as in a fitted mixture: mu[k,p], Lambda[k,i,j] with i ≤ j,
    logdet(Lambda[k]), log(pi[k]).
    """

    mu: np.ndarray = field(repr=False)
    """Means μ, (n, K, P)"""
    Lambda: np.ndarray = field(repr=False)
    """Precision matrices Λ, (n, K, P, P)"""
    logdet_Lambda: np.ndarray = field(repr=False)
    """log|Λ|, (n, K)"""
    log_pi: np.ndarray = field(repr=False)
    """log π, (n, K)"""
    sweeps: int
    """Sweeps made, those before the first draw included"""
    seconds: float
    """Time they took"""

    @property
    def names(self) -> list[str]:
        """Names of the scalar quantities."""
        K, P = self.mu.shape[1:]
        upper = [(i, j) for i in range(P) for j in range(i, P)]
        names = [f"mu[{k},{p}]" for k in range(K) for p in range(P)]
        for k in range(K):
            names += [*(f"Lambda[{k},{i},{j}]" for i, j in upper), f"logdet(Lambda[{k}])"]
        return names + [f"log(pi[{k}])" for k in range(K)]

    @cached_property
    def scalars(self) -> pd.DataFrame:
        """Every draw of every scalar quantity, (n, q)."""
        n, K, P = self.mu.shape
        i, j = np.triu_indices(P)
        precisions = np.dstack([self.Lambda[:, :, i, j], self.logdet_Lambda])
        blocks = [self.mu.reshape(n, K * P), precisions.reshape(n, -1), self.log_pi]
        return pd.DataFrame(np.hstack(blocks), columns=self.names)

    @property
    def mean(self) -> pd.Series:
        """Means of the draws."""
        return self.scalars.mean().rename("mean")

    @property
    def sd(self) -> pd.Series:
        """Standard deviations of the draws."""
        return self.scalars.std().rename("sd")

    @property
    def cov(self) -> pd.DataFrame:
        """Covariance matrix of the draws."""
        values = np.atleast_2d(np.cov(self.scalars.to_numpy(), rowvar=False))
        return pd.DataFrame(values, self.names, self.names)

    @cached_property
    def ess(self) -> pd.Series:
        """Effective sample size of each quantity."""
        return pd.Series(effective_sample_size(self.scalars.to_numpy()), self.names, name="ess")

    def summary(self) -> pd.DataFrame:
        """Columns mean, sd, ess, mean_error, sd_error; the errors are Monte Carlo standard errors.

        That of the sd comes from the effective sample size of the squared deviations.
        """
        values = self.scalars.to_numpy()
        mean, sd, ess = values.mean(0), values.std(0, ddof=1), self.ess.to_numpy()
        squares = (values - mean) ** 2
        square_error = squares.std(0, ddof=1) / np.sqrt(effective_sample_size(squares))
        with np.errstate(invalid="ignore"):  # log π of a single component never moves
            columns = {
                "mean": mean,
                "sd": sd,
                "ess": ess,
                "mean_error": sd / np.sqrt(ess),
                "sd_error": square_error / (2 * sd),
            }
        return pd.DataFrame(columns, self.names)
