"""A mixture and its ground truth: variational fit and Gibbs chain with the same flat priors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...collapsed.gram import GramSum
from ...engine.curvature import linearize
from ...engine.response import Response, respond
from ...estimators.mixture.estimator import GaussianMixture
from ..reference import MixtureDraws, mixture_gibbs

LONGEST = 10  # times the first length; a chain that is still too short then is not going to mix


def fit(X: np.ndarray, labels: np.ndarray, **options: Any) -> GaussianMixture:
    """The mixture with flat priors, started from labels 0..K−1.

    The priors are those that `mixture_gibbs.sample` has when none are given, so that fit and chain
    have one posterior.
    """
    K, P = int(labels.max()) + 1, X.shape[1]
    flat: dict[str, Any] = {
        "mean_precision_prior": 0.0,
        "wishart_dof_prior": P + 1,
        "wishart_scale_prior": np.inf,
        "weight_concentration_prior": 0.0,
    }
    start = np.eye(K)[labels]
    return GaussianMixture(K, init=start, certify=False, **{**flat, **options}).fit(X)


def linear_response(mixture: GaussianMixture) -> Response:
    """V, H and Σ̂ at the optimum once more, in the fit's own coordinates: what is timed."""
    return respond(linearize(mixture.posterior_.fit, local_sum=GramSum()))


def chain(
    seed: list[int],
    X: np.ndarray,
    labels: np.ndarray,
    *,
    draws: int,
    burn_in: int,
    least: float,
    **priors: Any,
) -> MixtureDraws:
    """A Gibbs chain whose slowest quantity is worth at least `least` effective draws.

    One that is too short is made again, longer, from the same seed; `seconds` are those of the
    chain returned. After ten times the first length it is returned as it is: its effective sample
    sizes say so.
    """
    length = draws
    while True:
        made = mixture_gibbs.sample(
            np.random.default_rng(seed), X, labels, draws=length, burn_in=burn_in, **priors
        )
        found = slowest(made)
        if found >= least or length >= LONGEST * draws:
            return made
        length = min(int(length * max(1.15 * least / found, 1.2)), LONGEST * draws)


def slowest(draws: MixtureDraws) -> float:
    """Effective sample size of the slowest of μ, Λ and log π."""
    return float(draws.ess[parameters(draws.names)].min())


def parameters(names: list[str]) -> list[str]:
    """The entries of μ, Λ and log π among the quantities; log|Λ| is a function of them."""
    return [name for name in names if not name.startswith("logdet")]


def kind(name: str) -> str:
    """Which of mu, Lambda and log(pi) a quantity belongs to."""
    return {"mu": "mu", "Lambda": "Lambda", "log(pi": "log(pi)"}[name.partition("[")[0]]


def compare(mixture: GaussianMixture, draws: MixtureDraws) -> pd.DataFrame:
    """A row for each parameter: its mean, sd and mfvb_sd, and mean, sd and ess of the chain."""
    names, posterior = parameters(draws.names), mixture.posterior_
    columns = {
        "mean": posterior.mean(names),
        "sd": posterior.sd(names),
        "mfvb_sd": posterior.sd(names, method="mfvb"),
        "gibbs_mean": draws.mean[names],
        "gibbs_sd": draws.sd[names],
        "ess": draws.ess[names],
    }
    table = pd.DataFrame({name: np.asarray(values) for name, values in columns.items()})
    table.insert(0, "quantity", names)
    return table


def covariances(mixture: GaussianMixture, draws: MixtureDraws) -> pd.DataFrame:
    """A row for each pair of parameters: its covariance by linear response, mean field and chain."""
    names, posterior = parameters(draws.names), mixture.posterior_
    i, j = np.triu_indices(len(names), 1)
    table = pd.DataFrame({"first": np.array(names)[i], "second": np.array(names)[j]})
    for column, matrix in (
        ("lrvb", posterior.cov(names)),
        ("mfvb", posterior.cov(names, method="mfvb")),
        ("gibbs", draws.cov.loc[names, names]),
    ):
        table[column] = matrix.to_numpy()[i, j]
    return table
