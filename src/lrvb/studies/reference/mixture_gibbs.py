"""Gibbs sampling of a Gaussian mixture.

With features φ(x) = (1, x, svec xxᵀ) the rows enter twice per sweep, each time as one matrix
product: the log odds of their components are linear in φ(x_n), and the sums over a component's rows
that all other conditionals need are sums of φ(x_n). On a machine that is busy with other work these
products are quickest with one BLAS thread (OPENBLAS_NUM_THREADS=1).
"""

from __future__ import annotations

import time

import numpy as np

from ...errors import InvalidData
from ...numerics.packing import multiplicity, pack_symmetric, unpack_symmetric
from .mixture_conditionals import (
    ComponentSums,
    draw_means,
    draw_precisions,
    draw_weights,
    fewest_rows,
    make_priors,
)
from .mixture_draws import MixtureDraws


def sample(
    rng: np.random.Generator,
    X: np.ndarray,
    start: np.ndarray,
    *,
    draws: int = 1000,
    burn_in: int = 100,
    thin: int = 1,
    mean_prior: float | np.ndarray = 0.0,
    mean_precision_prior: float = 0.0,
    wishart_dof_prior: float | None = None,
    wishart_scale_prior: float | np.ndarray = np.inf,
    weight_concentration_prior: float | np.ndarray = 0.0,
) -> MixtureDraws:
    r"""Draws from p(μ, Λ, π | x), by turns Λ | μ, z;  μ | Λ, z;  π | z;  z | μ, Λ, π.

    The model is x_n ~ N(μ_k, Λ_k⁻¹) given z_n = k, P(z_n = k) = π_k, with independent priors
    μ_k ~ N(mean_prior, I / mean_precision_prior), Λ_k ~ Wishart(dof, scale) with E Λ = dof · scale
    (a number stands for that multiple of I), π ~ Dirichlet(weight_concentration_prior).

    X has shape (N, P). `start` holds labels 0..K−1, (N,), or responsibilities (N, K); component k
    stays component k as long as the chain does not switch labels. `draws` are kept, every
    `thin`-th sweep after `burn_in`. The priors left out are flat: dof P + 1 with infinite scale
    (W₀⁻¹ = 0), concentration 0, so that given z the Wishart has N_k + P + 1 degrees of freedom
    and the Dirichlet N_k. With such priors a component needs rows; one that runs out raises
    InvalidData.

    See: eq:normal_mixture_model, app:mvn_details
    """
    began = time.perf_counter()
    X, responsibilities = _check(X, start)
    P, K = X.shape[1], responsibilities.shape[1]
    center = X.mean(0)  # for the sake of rounding; the sampler works with x − center
    priors = make_priors(
        K,
        P,
        np.asarray(mean_prior, float) - center,
        mean_precision_prior,
        wishart_dof_prior,
        wishart_scale_prior,
        weight_concentration_prior,
    )
    needed = fewest_rows(priors)
    phi = features(X - center)
    total = phi.sum(1)
    sums = split(responsibilities.T @ phi.T, P)
    mu = sums.x / np.maximum(sums.rows, 1)[:, None]

    shapes = (P,), (P, P), (), ()
    kept_mu, kept_Lambda, kept_logdet, kept_log_pi = (np.empty((draws, K, *s)) for s in shapes)
    sweeps = burn_in + draws * thin
    for sweep in range(1, sweeps + 1):
        if (sums.rows < needed).any():
            k = int(sums.rows.argmin())
            raise InvalidData(
                f"Component {k} has {sums.rows[k]:.0f} rows at sweep {sweep}; with these priors it "
                f"needs at least {needed}. Proper priors, fewer components or another start may "
                "help.",
                component=k,
                sweep=sweep,
            )
        Lambda, logdet = draw_precisions(rng, sums, mu, priors)
        mu = draw_means(rng, sums, Lambda, priors)
        log_pi = draw_weights(rng, sums, priors)
        if sweep > burn_in and (sweep - burn_in) % thin == 0:
            row = (sweep - burn_in) // thin - 1
            kept_mu[row], kept_Lambda[row] = mu + center, Lambda
            kept_logdet[row], kept_log_pi[row] = logdet, log_pi
        beyond = draw_labels(rng, log_odds(phi, mu, Lambda, logdet, log_pi))
        sums = split(components(total, beyond @ phi.T), P)
    seconds = time.perf_counter() - began
    return MixtureDraws(kept_mu, kept_Lambda, kept_logdet, kept_log_pi, sweeps, seconds)


def features(x: np.ndarray) -> np.ndarray:
    """φ(x) = (1, x, svec xxᵀ) of every row, (N, P) → (F, N)."""
    i, j = np.triu_indices(x.shape[1])
    return np.vstack([np.ones(len(x)), x.T, x.T[i] * x.T[j]])


def split(sums: np.ndarray, P: int) -> ComponentSums:
    """ComponentSums of φ over the rows of each component, (K, F), in their three parts."""
    return ComponentSums(sums[:, 0], sums[:, 1 : P + 1], unpack_symmetric(sums[:, P + 1 :], P))


def log_odds(
    phi: np.ndarray, mu: np.ndarray, Lambda: np.ndarray, logdet: np.ndarray, log_pi: np.ndarray
) -> np.ndarray:
    """Log of P(z_n = k | rest) / P(z_n = 0 | rest) for k = 1..K−1, shape (K−1, N)."""
    linear = (Lambda @ mu[:, :, None])[:, :, 0]
    constant = log_pi + 0.5 * logdet - 0.5 * (linear * mu).sum(1)
    quadratic = -0.5 * multiplicity(mu.shape[1]) * pack_symmetric(Lambda)
    coefficients = np.hstack([constant[:, None], linear, quadratic])
    return (coefficients[1:] - coefficients[0]) @ phi


def draw_labels(rng: np.random.Generator, odds: np.ndarray) -> np.ndarray:
    """Indicators 1{z_n ≥ k} for k = 1..K−1 of labels with these log odds, shape (K−1, N).

    z_n is the number of edges of cumulated weight that a uniform draw lies beyond.
    """
    top = np.maximum(odds.max(0), 0.0) if len(odds) > 1 else 0.0
    beyond = np.empty(odds.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite odds are odds
        weight = np.exp(odds - top)
        edge = np.exp(-top)
        level = rng.random(odds.shape[1]) * (edge + weight.sum(0))
    for k in range(len(odds)):
        np.greater_equal(level, edge, out=beyond[k])
        edge = edge + weight[k]
    return beyond


def components(total: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    """ComponentSums over {z = k}, (K, F), from those over all rows (F,) and over {z ≥ k}, (K−1, F)."""
    nested = np.vstack([total, beyond, np.zeros_like(total)])
    return nested[:-1] - nested[1:]


def _check(X: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """X as floats, and responsibilities (N, K), or what is wrong with them."""
    X, start = np.asarray(X, float), np.asarray(start)
    if X.ndim != 2 or not X.size or start.ndim not in (1, 2) or len(start) != len(X):
        raise InvalidData(
            f"X must be (N, P) and start (N,) or (N, K), not {X.shape} and {start.shape}."
        )
    if start.ndim == 1:
        labels, codes = np.unique(start, return_inverse=True)
        if not np.array_equal(labels, np.arange(len(labels))):
            raise InvalidData(f"Labels must be 0..K−1, each in use, not {labels[:10]}.")
        start = np.eye(len(labels))[codes]
    proper = (start >= 0).all(1) & (np.abs(start.sum(1) - 1) < 1e-6)
    for name, values, right, kind in (
        ("X", X, np.isfinite(X).all(1), "finite"),
        ("start", start, proper, "a distribution over components"),
    ):
        if not right.all():
            row = int(right.argmin())
            message = f"Column {name}, row {row}: {values[row]} is not {kind}."
            raise InvalidData(message, column=name, row=row)
    return X, start.astype(float)
