"""Coordinate-ascent sweeps of a mixture in plain NumPy, many trials at once, each with its ELBO.

A table of a few hundred rows costs so little that dozens of starts are tried where one would be compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from ..numerics.packing import unpack_symmetric
from .mixture_features import feature_weights, row_features

SAFE = 1e-10  # the weight by which an empty component is divided
CHUNK = 2_000_000  # entries of φ at a time

Parameters = dict[str, dict[str, Any]]


class MixturePriors(NamedTuple):
    """μ ~ N(mean, precision⁻¹), Λ ~ Wishart(dof, inverse_scale⁻¹), π ~ Dirichlet(concentration)."""

    mean: np.ndarray
    precision: np.ndarray
    dof: float
    inverse_scale: np.ndarray
    concentration: float

    @property
    def flat_scale(self) -> bool:
        """Whether W₀⁻¹ is zero."""
        return not self.inverse_scale.any()

    @property
    def proper(self) -> bool:
        """Whether a component without rows has a posterior, its prior."""
        P = len(self.mean)
        means = bool((np.diagonal(self.precision) > 0).all())
        return means and self.dof > P - 1 and not self.flat_scale and self.concentration > 0


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


def swept(
    X: np.ndarray,
    weights: np.ndarray | None,
    priors: MixturePriors,
    parameters: Parameters,
    sweeps: int,
) -> Swept:
    """Trials after so many sweeps, fewer where one changes none by a hundredth of a nat."""
    last = np.full(1, -np.inf)
    for _ in range(sweeps):
        found = moments(parameters)
        sums, value = _pass(X, weights, feature_weights(*found))
        elbo = value + divergence_from_prior(parameters, found, priors)
        if np.abs(elbo - last).max() < 0.01:
            break
        last, before = elbo, parameters
        parameters = updated(sums, priors)
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


def updated(sums: np.ndarray, priors: MixturePriors) -> Parameters:
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


def moments(parameters: Parameters) -> Moments:
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
    parameters: Parameters, expected: Moments, priors: MixturePriors
) -> np.ndarray:
    """E_q[log p(μ, Λ, π)] + entropy of q, (...), constants of the prior left out."""
    loc, cov = parameters["mu"]["loc"], parameters["mu"]["cov"]
    dof, scale = parameters["Lambda"]["dof"], parameters["Lambda"]["scale"]
    pi = parameters["pi"]["concentration"]
    P = loc.shape[-1]
    _, Lambda, log_pi = expected
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


def update(
    N: np.ndarray, means: np.ndarray, scatter: np.ndarray, priors: MixturePriors
) -> dict[str, dict[str, Any]]:
    """Usual parameters from each component's weight (..., K), mean and scatter about it."""
    P = means.shape[-1]
    dof = np.maximum(priors.dof, P - 1 + 1e-3) + N
    inverse = priors.inverse_scale + scatter
    # A start needs a proper q(Λ) even where a component owns too few rows for one.
    ridge = 1e-6 * np.trace(inverse, axis1=-2, axis2=-1) / P + 1e-12
    inverse += ridge[..., None, None] * np.eye(P)
    scale = np.linalg.inv(inverse)
    Lambda = dof[..., None, None] * scale
    precision = N[..., None, None] * Lambda + priors.precision + 1e-9 * np.eye(P)
    cov = np.linalg.inv(precision)
    pull = N[..., None] * np.einsum("...ab,...b->...a", Lambda, means)
    pull += priors.precision @ priors.mean
    return {
        "mu": {"loc": np.einsum("...ab,...b->...a", cov, pull), "cov": cov},
        "Lambda": {"dof": dof, "scale": scale},
        "pi": {"concentration": priors.concentration + np.maximum(N, 1e-3)},
    }
