"""Several cheap starts of a mixture: a few sweeps on a sample of the rows each, ranked by the ELBO.

A mixture's ELBO has local optima, and one k-means start finds the best of them too seldom. Sweeps on
a tenth of the rows (at least `LEAST`) cost less than the fit itself, which then begins near its optimum.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from ...models.gaussian_mixture import feature_weights, row_features
from ...numerics.packing import unpack_symmetric
from .priors import MixturePriors
from .responsibilities import SAFE, responsibilities, start_from, update

FEWEST, MANY = 8, 48  # starts that are tried: `ENTRIES` over those of the sample, within these
ENTRIES = 60_000
LEAST, MOST = 2000, 20_000  # rows that they are tried on: a tenth of all, within these
FIRST, SECOND = 10, 40  # sweeps of every trial, and more of the best few
FEW = 6  # trials that get the second round
CHUNK = 2_000_000  # entries of φ at a time
SAME = 1.0  # nats within which two trials count as the same optimum

Parameters = dict[str, dict[str, Any]]


class Swept(NamedTuple):
    """Many trials at once after some sweeps, each with its ELBO and whether all components live."""

    parameters: Parameters
    elbo: np.ndarray
    alive: np.ndarray

    def ranked(self) -> np.ndarray:
        """The trials, the best first."""
        return np.lexsort((self.elbo, self.alive))[::-1]

    def of(self, t: Any) -> Parameters:
        """The parameters of one trial, or of some."""
        return {b: {k: v[t] for k, v in q.items()} for b, q in self.parameters.items()}


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
    """The best few of many starts of (N, P) standardised rows; later ones stand in for failures."""
    X, weights = _sample(X, K, weights, rng)
    methods = _methods(init, K, X.size)
    starts = [responsibilities(X, K, method, weights, rng) for method in methods]
    first = _swept(X, weights, priors, _begin(X, starts, weights, priors), FIRST)
    order = first.ranked()
    last = _swept(X, weights, priors, first.of(order[:FEW]), SECOND)
    best = last.ranked()
    finished = np.concatenate([last.elbo, first.elbo[order[FEW:]]])
    reached = int(np.sum(finished >= last.elbo[best[0]] - SAME))
    return Trials([last.of(t) for t in best], len(starts), reached)


def _begin(
    X: np.ndarray, starts: list[np.ndarray], weights: np.ndarray | None, priors: MixturePriors
) -> Parameters:
    """The parameters of every start, stacked."""
    each = [start_from(X, R, weights, priors) for R in starts]
    return {b: {k: np.stack([p[b][k] for p in each]) for k in q} for b, q in each[0].items()}


def _methods(init: str, K: int, entries: int) -> list[str]:
    """One component has one optimum; k-means alone would return to the same one too often."""
    if K == 1:
        return [init]
    trials = min(max(ENTRIES // entries, FEWEST), MANY)
    if init != "kmeans":
        return [init] * trials
    others = ["k-means++", "random_from_data"] * trials
    return ["kmeans", *others[: trials - 1]]


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


def _swept(
    X: np.ndarray,
    weights: np.ndarray | None,
    priors: MixturePriors,
    parameters: Parameters,
    sweeps: int,
) -> Swept:
    """Trials after so many sweeps, fewer where one changes none by a hundredth of a nat."""
    last = np.full(1, -np.inf)
    for _ in range(sweeps):
        moments = _moments(parameters)
        sums, value = _pass(X, weights, feature_weights(*moments))
        elbo = value + divergence_from_prior(parameters, moments, priors)
        if np.abs(elbo - last).max() < 0.01:
            break
        last, before = elbo, parameters
        parameters = _updated(sums, priors)
    return Swept(before, last, _all_live(sums[..., 0], priors))


def _pass(
    X: np.ndarray, weights: np.ndarray | None, W: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ_n w_n r_nk φ(x_n) (T, K, φ) of all trials and components, and the rows' part of the ELBO (T,).

    W (T, K, φ) are the `feature_weights` of every trial.
    """
    T, K, size = W.shape
    sums, value = np.zeros_like(W), np.zeros(T)
    step = max(CHUNK // max(size, T * K), 1)
    for start in range(0, len(X), step):
        phi = row_features(X[start : start + step])
        density = (W.reshape(T * K, size) @ phi.T).reshape(T, K, -1)
        top = density.max(axis=1, keepdims=True)
        R = np.exp(density - top)
        total = R.sum(axis=1, keepdims=True)
        R /= total
        row = (top + np.log(total))[:, 0]
        if weights is not None:
            row = row * weights[start : start + step]
            R *= weights[start : start + step]
        value += row.sum(axis=1)
        sums += (R.reshape(T * K, -1) @ phi).reshape(W.shape)
    return sums, value


def _updated(sums: np.ndarray, priors: MixturePriors) -> Parameters:
    """The parameters from sums of r φ(x), which hold a component's weight, mean and products."""
    P = len(priors.mean)
    N = sums[..., 0]
    means = sums[..., 1 : P + 1] / np.maximum(N, SAFE)[..., None]
    products = unpack_symmetric(sums[..., P + 1 :], P)
    outer = means[..., :, None] * means[..., None, :]
    # the difference of products is as exact as their sum, which is what its diagonal is short of
    rounding = 1e-14 * np.trace(products, axis1=-2, axis2=-1)[..., None, None] * np.eye(P)
    return update(N, means, products - N[..., None, None] * outer + rounding, priors)


def _all_live(N: np.ndarray, priors: MixturePriors) -> np.ndarray:
    """With improper priors a component needs rows of its own; its ELBO rises as it loses them."""
    return priors.proper | (N.shape[-1] + len(priors.mean) + 1 < N).all(axis=-1)


class _Normal(NamedTuple):
    x: np.ndarray
    xx: np.ndarray


class _Wishart(NamedTuple):
    x: np.ndarray
    logdet_x: np.ndarray


Moments = tuple[_Normal, _Wishart, np.ndarray]


def _moments(parameters: Parameters) -> Moments:
    """Moments of μ and Λ, and E log π, from the usual parameters."""
    loc, cov = parameters["mu"]["loc"], parameters["mu"]["cov"]
    dof, scale = parameters["Lambda"]["dof"], parameters["Lambda"]["scale"]
    pi = parameters["pi"]["concentration"]
    P = loc.shape[-1]
    logdet = digamma(_shapes(dof, P)).sum(axis=-1) + P * np.log(2) + np.linalg.slogdet(scale)[1]
    return (
        _Normal(loc, cov + loc[..., :, None] * loc[..., None, :]),
        _Wishart(dof[..., None, None] * scale, logdet),
        digamma(pi) - digamma(pi.sum(axis=-1, keepdims=True)),
    )


def divergence_from_prior(
    parameters: Parameters, moments: Moments, priors: MixturePriors
) -> np.ndarray:
    """E_q[log p(μ, Λ, π)] + entropy of q, (...), constants of the prior left out."""
    loc, cov = parameters["mu"]["loc"], parameters["mu"]["cov"]
    dof, scale = parameters["Lambda"]["dof"], parameters["Lambda"]["scale"]
    pi = parameters["pi"]["concentration"]
    P = loc.shape[-1]
    _, Lambda, log_pi = moments
    centred = loc - priors.mean
    second = cov + centred[..., :, None] * centred[..., None, :]
    of_mu = 0.5 * (np.linalg.slogdet(cov)[1] - np.sum(priors.precision * second, axis=(-2, -1)))
    log_partition = 0.5 * dof * (P * np.log(2) + np.linalg.slogdet(scale)[1])
    log_partition += gammaln(_shapes(dof, P)).sum(axis=-1)  # log Γ_P(ν/2), but for a constant
    of_Lambda = log_partition + 0.5 * (priors.dof - dof) * Lambda.logdet_x + 0.5 * dof * P
    of_Lambda -= 0.5 * np.sum(priors.inverse_scale * Lambda.x, axis=(-2, -1))
    of_pi = gammaln(pi) + (priors.concentration - pi) * log_pi
    return np.asarray((of_mu + of_Lambda + of_pi).sum(axis=-1) - gammaln(pi.sum(axis=-1)))


def _shapes(dof: np.ndarray, P: int) -> np.ndarray:
    """(ν − a)/2 for a = 0 … P − 1, (..., P)."""
    return 0.5 * (dof[..., None] - np.arange(P))
