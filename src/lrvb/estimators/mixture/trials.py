"""Several cheap starts of a mixture: a few sweeps on a sample of the rows each, ranked by the ELBO.

A mixture's ELBO has local optima, and one k-means start finds the best of them too seldom. Sweeps on
a tenth of the rows (at least `LEAST`) cost less than the fit itself, which then begins near its optimum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, multigammaln

from ...models.gaussian_mixture import log_densities
from .priors import MixturePriors
from .responsibilities import responsibilities, start_from

TRIALS = 8  # starts that are tried
LEAST, MOST = 2000, 20_000  # rows that they are tried on: a tenth of all, within these
FIRST, SECOND = 6, 20  # sweeps of every trial, and more of the best few
FEW = 3  # trials that get the second round
SAME = 1.0  # nats within which two trials count as the same optimum

Parameters = dict[str, dict[str, Any]]


class Trial(NamedTuple):
    """Usual parameters after some sweeps, their ELBO, the next responsibilities, whether all live."""

    parameters: Parameters
    elbo: float
    R: np.ndarray
    alive: bool


class Trials(NamedTuple):
    """Starts for the fit, the best first; how many were tried, and how many reached the best."""

    starts: list[Parameters]
    n_starts: int
    n_best: int


def try_starts(
    X: np.ndarray,
    K: int,
    init: str,
    weights: np.ndarray | None,
    priors: MixturePriors,
    rng: np.random.RandomState,
) -> Trials:
    """The best few of `TRIALS` starts of (N, P) standardised rows; later ones stand in for failures."""
    X, weights = _sample(X, K, weights, rng)
    trials = []
    for method in _methods(init, K):
        R = responsibilities(X, K, method, weights, rng)
        trials.append(_swept(X, R, weights, priors, FIRST))
    chosen = sorted(trials, key=_rank, reverse=True)[:FEW]
    chosen = [_swept(X, trial.R, weights, priors, SECOND) for trial in chosen]
    chosen.sort(key=_rank, reverse=True)
    finished = [t.elbo for t in chosen] + [
        t.elbo for t in sorted(trials, key=_rank)[: -len(chosen)]
    ]
    reached = sum(elbo >= chosen[0].elbo - SAME for elbo in finished)
    return Trials([trial.parameters for trial in chosen], len(trials), reached)


def _methods(init: str, K: int) -> list[str]:
    """One component has one optimum; k-means alone would return to the same one too often."""
    if K == 1:
        return [init]
    if init != "kmeans":
        return [init] * TRIALS
    others = ["k-means++", "random_from_data"] * TRIALS
    return ["kmeans", *others[: TRIALS - 1]]


def _sample(
    X: np.ndarray, K: int, weights: np.ndarray | None, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray | None]:
    """A tenth of the rows of positive weight, at least 50 a component, counting for all of them."""
    size = max(min(len(X) // 10, MOST), LEAST, 50 * K)
    counted = np.arange(len(X)) if weights is None else np.flatnonzero(weights > 0)
    if len(counted) > size:
        share = len(counted) / size
        counted = np.sort(rng.choice(counted, size, replace=False))
        return X[counted], (np.ones(size) if weights is None else weights[counted]) * share
    return (X, None) if weights is None else (X[counted], weights[counted])


def _rank(trial: Trial) -> tuple[bool, float]:
    return trial.alive, trial.elbo


def _swept(
    X: np.ndarray, R: np.ndarray, weights: np.ndarray | None, priors: MixturePriors, sweeps: int
) -> Trial:
    """The trial after so many sweeps, fewer where one changes less than a hundredth of a nat."""
    last = -np.inf
    for _ in range(sweeps):
        parameters = start_from(X, R, weights, priors)
        log_density = expected_log_density(X, parameters)
        top = log_density.max(axis=1, keepdims=True)
        R = np.exp(log_density - top)
        sums = R.sum(axis=1, keepdims=True)
        R /= sums
        row = (top + np.log(sums))[:, 0]
        value = float(row.sum() if weights is None else weights @ row)
        if abs(value - last) < 0.01:
            break
        last = value
    return Trial(
        parameters, value + divergence_from_prior(parameters, priors), R, _all_live(R, priors)
    )


def _all_live(R: np.ndarray, priors: MixturePriors) -> bool:
    """With improper priors a component needs rows of its own; its ELBO rises as it loses them."""
    return priors.proper or bool((R.sum(axis=0) > R.shape[1] + len(priors.mean) + 1).all())


def expected_log_density(X: np.ndarray, parameters: Parameters) -> np.ndarray:
    """E_q[log π_k + log N(x_n | μ_k, Λ_k)], (N, K)."""
    mu, pi = parameters["mu"], parameters["pi"]["concentration"]
    logdet, Lambda = _wishart_moments(parameters)
    return log_densities(
        X,
        mu["loc"],
        np.linalg.cholesky(Lambda),
        logdet,
        digamma(pi) - digamma(pi.sum()),
        np.sum(Lambda * mu["cov"], axis=(1, 2)),
    )


def divergence_from_prior(parameters: Parameters, priors: MixturePriors) -> float:
    """E_q[log p(μ, Λ, π)] + entropy of q, constants of the prior left out."""
    loc, cov = parameters["mu"]["loc"], parameters["mu"]["cov"]
    dof, scale = parameters["Lambda"]["dof"], parameters["Lambda"]["scale"]
    pi = parameters["pi"]["concentration"]
    P = loc.shape[1]
    logdet, Lambda = _wishart_moments(parameters)
    centred = loc - priors.mean
    second = cov + centred[:, :, None] * centred[:, None, :]
    log_pi = digamma(pi) - digamma(pi.sum())
    value = 0.5 * (np.linalg.slogdet(cov)[1] - np.sum(priors.precision * second, axis=(1, 2))).sum()
    log_partition = 0.5 * dof * (P * np.log(2) + np.linalg.slogdet(scale)[1])
    log_partition += np.array([multigammaln(0.5 * nu, P) for nu in dof])
    value += (log_partition + 0.5 * (priors.dof - dof) * logdet + 0.5 * dof * P).sum()
    value -= 0.5 * np.sum(priors.inverse_scale * Lambda)
    value += gammaln(pi).sum() - gammaln(pi.sum()) + ((priors.concentration - pi) * log_pi).sum()
    return float(value)


def _wishart_moments(parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """E log|Λ_k| and E Λ_k."""
    dof, scale = parameters["Lambda"]["dof"], parameters["Lambda"]["scale"]
    P = scale.shape[-1]
    shapes = 0.5 * (dof[:, None] - np.arange(P))
    logdet = digamma(shapes).sum(axis=1) + P * np.log(2) + np.linalg.slogdet(scale)[1]
    return logdet, dof[:, None, None] * scale
