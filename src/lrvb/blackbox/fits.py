"""The Gaussian fits to a log density, mean field and of full rank, and what they respond."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..engine.convergence import Convergence
from ..errors import InvalidModel
from .axes_response import optimum_along_axes, respond_along_axes
from .density import Density
from .gaussian import (
    ATTEMPTS,
    FullRank,
    FullRankObjective,
    MeanField,
    fit_full_rank,
    fit_mean_field,
    normal_draws,
)
from .kernel import Kernel, Values
from .linear_response import (
    Responded,
    coordinate_covariance,
    finite_values,
    mean_field_curvature,
    optimum_with_curvature,
    respond_full_rank,
    respond_mean_field,
)
from .modes import FEW, Modes
from .propriety import require_proper

RANKED = 256  # dimensions to which the Gaussian has a full rank: eight of its draws each
FROM = 3  # modes from which mean field is tried
WITHIN = 30.0  # of the best one's log evidence
RIDGES = 6  # directions of the least curvature along which log p must fall


class Fitted(NamedTuple):
    """The Gaussian fits, q of full rank or none beyond `RANKED` dimensions, and what they respond."""

    mean_field: MeanField
    full_rank: FullRank | None
    answer: Responded
    V: np.ndarray
    mean: np.ndarray
    root: np.ndarray  # of a covariance of x, to whiten with
    spread: np.ndarray  # a root of linear response's covariance of x

    @property
    def converged(self) -> bool:
        """Whether the fit that answers is an optimum."""
        best = self.mean_field if self.full_rank is None else self.full_rank
        return best.converged

    @property
    def convergence(self) -> Convergence:
        """The same as every posterior has it."""
        best = self.mean_field if self.full_rank is None else self.full_rank
        reason = "the gradient is zero" if best.converged else "the steps no longer raise the ELBO"
        residual = np.nan if self.full_rank is None else self.full_rank.residual
        return Convergence(
            float(best.elbo),
            np.array([*self.mean_field.trace, *(self.full_rank.trace if self.full_rank else ())]),
            len(self.mean_field.trace) + (self.full_rank.steps if self.full_rank else 0),
            bool(best.converged),
            reason,
            float(residual),
        )


def fit(density: Density, kernel: Kernel, values: Values, modes: Modes) -> Fitted:
    """Mean field from every good mode, the one of the highest ELBO; full rank from its response."""
    D = kernel.size
    tries = []
    for mode in modes.found[:FROM]:
        if mode.log_evidence > modes.found[0].log_evidence - WITHIN:
            tries.append(fit_mean_field(kernel, mode.x, mode.root))
    if not (modes.only and tries[0].converged):
        scale = np.full(D, 0.1) if not modes.found else modes.found[0].scale
        attempts = 0 if modes.found else ATTEMPTS
        tries.append(fit_mean_field(kernel, modes.slope, np.diag(scale), attempts=attempts))
    q = max(tries, key=lambda found: found.elbo + (1e-3 if found.converged else 0.0))
    require_proper(density, kernel, q.mean, np.diag(q.sd))
    if not np.isfinite(q.elbo):
        raise InvalidModel(
            f"No Gaussian fits {density.source}: near every mode some of its draws have no density. Give "
            "the log density in coordinates without bounds."
        )
    K = mean_field_curvature(kernel, q)
    require_proper(density, kernel, q.mean, np.linalg.eigh(K[:D, :D])[1].T[:RIDGES] * q.sd)
    S = coordinate_covariance(K, np.diag(q.sd))
    root = np.diag(q.sd) if S is None else _root(S)
    return _answered(kernel, values, q, K, q.mean, root)


def fit_from_draws(kernel: Kernel, values: Values, x: np.ndarray) -> Fitted:
    """The fits begun anew where HMC has been: at the mean and covariance of draws x (n, D)."""
    mean, root = x.mean(axis=0), _root(np.cov(x.T).reshape(kernel.size, -1))
    q = fit_mean_field(kernel, mean, root)
    return _answered(kernel, values, q, mean_field_curvature(kernel, q), mean, root)


def _answered(
    kernel: Kernel,
    values: Values,
    q: MeanField,
    K: np.ndarray,
    mean: np.ndarray,
    root: np.ndarray,
) -> Fitted:
    """Mean field q with its curvature K, full rank from N(mean, root rootᵀ), and what they respond."""
    D = kernel.size
    V = np.cov(finite_values(values, q.mean + q.sd * normal_draws(2048, D, seed=7)).T)
    V = V.reshape(len(values.names), -1)
    if D > RANKED:
        return Fitted(q, None, respond_mean_field(q, K, values), V, q.mean, root, root)
    objective = FullRankObjective(kernel)
    best = fit_full_rank(objective, mean, root)
    if D <= FEW:
        best, K = optimum_with_curvature(kernel, objective, best)
        answer = respond_full_rank(best, K, values)
    else:
        best, K = optimum_along_axes(kernel, objective, best)
        answer = respond_along_axes(best, K, values)
    S = coordinate_covariance(K, best.L)
    spread = best.L if S is None else _root(S)
    return Fitted(q, best, answer, V, best.mean, best.L, spread)


def _root(S: np.ndarray) -> np.ndarray:
    sd = np.sqrt(np.diag(S))
    return sd[:, None] * np.linalg.cholesky(S / np.outer(sd, sd) + 1e-10 * np.eye(len(S)))
