"""Hamiltonian Monte Carlo (NUTS) of a Gaussian mixture, as a referee of its Gibbs sampler.

The labels are summed out here and drawn there, so that the two share nothing but the model.
"""

from __future__ import annotations

import itertools
import time

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from . import nuts
from .mixture_draws import MixtureDraws


def sample(
    X: np.ndarray,
    start: np.ndarray,
    *,
    seed: int,
    mean_precision_prior: float,
    wishart_dof_prior: float,
    wishart_scale_prior: float | np.ndarray,
    weight_concentration_prior: float,
    mean_prior: float | np.ndarray = 0.0,
    warmup: int = nuts.WARMUP,
    draws: int = nuts.DRAWS,
) -> tuple[MixtureDraws, int]:
    r"""Draws from p(μ, Λ, π | x) with p(x_n) = Σ_k π_k N(x_n | μ_k, Λ_k⁻¹), and the divergences.

    The priors are those of `mixture_gibbs.sample`, proper, and the same for all components: so the
    chain may find any of their orders, and is put in that which brings its mean μ nearest to the
    means of the rows with start labels 0..K−1, (N,). One that switches labels on its way is of no
    use.

    See: eq:normal_mixture_model
    """
    numpyro, distributions = nuts._numpyro()
    P, K = X.shape[1], int(start.max()) + 1
    center = np.broadcast_to(np.asarray(mean_prior, float), (K, P))
    scale = np.asarray(wishart_scale_prior, float)
    scale = np.broadcast_to(scale if scale.ndim else scale * np.eye(P), (K, P, P))
    concentration = np.full(K, float(weight_concentration_prior))

    def model() -> None:
        mu = numpyro.sample("mu", distributions.Normal(center, mean_precision_prior**-0.5))
        wishart = distributions.WishartCholesky(wishart_dof_prior, scale_matrix=scale)
        L = numpyro.sample("L", wishart)  # Λ = LLᵀ
        pi = numpyro.sample("pi", distributions.Dirichlet(concentration))
        whitened = jnp.einsum("nkp,kpq->nkq", X[:, None] - mu, L)
        root = jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)).sum(-1)  # ½ log |Λ|
        log_density = jnp.log(pi) + root - 0.5 * (whitened**2).sum(-1)
        numpyro.factor("x", logsumexp(log_density, axis=1).sum())

    began = time.perf_counter()
    sites, divergences = nuts.sample(model, seed=seed, warmup=warmup, draws=draws)
    order = _nearest(sites["mu"].mean(0), np.stack([X[start == k].mean(0) for k in range(K)]))
    mu, L, pi = (sites[name][:, order] for name in ("mu", "L", "pi"))
    logdet = 2 * np.log(np.diagonal(L, axis1=-2, axis2=-1)).sum(-1)
    Lambda = L @ np.swapaxes(L, -1, -2)
    seconds = time.perf_counter() - began
    return MixtureDraws(mu, Lambda, logdet, np.log(pi), warmup + draws, seconds), divergences


def _nearest(found: np.ndarray, wanted: np.ndarray) -> list[int]:
    """The order of the rows found, (K, P), that brings them nearest to those wanted."""
    orders = itertools.permutations(range(len(wanted)))
    return list(min(orders, key=lambda order: ((found[list(order)] - wanted) ** 2).sum()))
