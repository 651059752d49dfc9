"""Simulated data with the settings of the paper's studies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InvalidData

LARGEST_RATE = 1e15  # counts above 2⁵³ are no longer exact as doubles


def normal_poisson(
    rng: np.random.Generator,
    n: int = 500,
    beta: float | None = None,
    sd: float | None = None,
    x: np.ndarray | None = None,
) -> dict[str, Any]:
    r"""Counts y_n ~ Poisson(exp z_n) with z_n ~ N(βx_n, sd²) and τ = 1/sd².

    Whatever is not given is drawn: x ~ N(0, 1), β ~ U(0, 3), sd ~ U(0.3, 1). The study draws x
    once and holds it fixed; pass the `x` of the first data set to the others. Returns
    x, y, z of shape (n,), and the scalars beta, tau.

    See: sec:normal_poisson_model
    """
    x = rng.standard_normal(n) if x is None else np.asarray(x, float)
    beta = rng.uniform(0, 3) if beta is None else float(beta)
    sd = rng.uniform(0.3, 1.0) if sd is None else float(sd)
    z = beta * x + sd * rng.standard_normal(x.shape)
    if z.size and z.max() > np.log(LARGEST_RATE):
        row = int(z.argmax())
        raise InvalidData(
            f"Row {row} has Poisson rate exp({z[row]:.1f}), above {LARGEST_RATE:.0e}. "
            "Try a smaller beta or sd, or x on a smaller scale.",
            column="x",
            row=row,
        )
    return {"x": x, "y": rng.poisson(np.exp(z)), "z": z, "beta": beta, "tau": sd**-2}


def random_slope(
    rng: np.random.Generator,
    groups: int = 30,
    per_group: int = 10,
    beta: np.ndarray | None = None,
    nu: float | None = None,
    tau: float | None = None,
    x: np.ndarray | None = None,
    r: np.ndarray | None = None,
) -> dict[str, Any]:
    r"""Responses y_n ~ N(βᵀx_n + r_n z_k(n), 1/τ) with random slopes z_k ~ N(0, 1/ν).

    Whatever is not given is drawn: x ~ N(0, I₂), r = x₁ + N(0, sd 0.4), β ~ U(0, 3)²,
    ν ~ U(0.5, 4), τ ~ U(0.2, 1). The study draws x and r once and holds them fixed; pass those of
    the first data set to the others. Rows of a group are adjacent. Returns x (N, p), r, y, group
    (N,), z (groups,), beta (p,), and the scalars nu, tau.

    See: sec:random_effects_model
    """
    rows = groups * per_group
    x = rng.standard_normal((rows, 2)) if x is None else np.asarray(x, float)
    r = x[:, 0] + 0.4 * rng.standard_normal(len(x)) if r is None else np.asarray(r, float)
    if len(x) != rows or len(r) != rows:
        raise InvalidData(
            f"x has {len(x)} rows and r has {len(r)}, but {groups} groups of {per_group} "
            f"make {rows}.",
            column="x" if len(x) != rows else "r",
        )
    slopes = np.asarray(rng.uniform(0, 3, x.shape[1]) if beta is None else beta, float)
    nu = rng.uniform(0.5, 4) if nu is None else float(nu)
    tau = rng.uniform(0.2, 1) if tau is None else float(tau)
    group = np.repeat(np.arange(groups), per_group)
    z = rng.standard_normal(groups) / np.sqrt(nu)
    y = x @ slopes + r * z[group] + rng.standard_normal(rows) / np.sqrt(tau)
    return {"x": x, "r": r, "y": y, "group": group, "z": z, "beta": slopes, "nu": nu, "tau": tau}


def gaussian_mixture(rng: np.random.Generator, n: int = 10_000) -> dict[str, Any]:
    r"""Rows x_n ~ N(μ_k, Σ_k) with z_n = k: two overlapping components in the plane.

    Means (0, 0) and (1, 1); Σ_k = √k · 0.25 · D²/max eig(D²) with D = diag(1, 1.5), k = 1, 2;
    weights 3/7 and 4/7. Returns X (n, P), the labels z (n,) from 0, means (K, P),
    covariances (K, P, P), weights (K,).

    See: sec:normal_mixture_model
    """
    D = np.diag([1.0, 1.5])
    return _mixture(rng, n, 2, 0.25 * D @ D / np.max(D @ D))


def scaled_mixture(rng: np.random.Generator, n: int, K: int, P: int) -> dict[str, Any]:
    r"""Rows x_n ~ N(μ_k, Σ_k) with z_n = k: K components on the diagonal of P dimensions.

    Means (k − 1, …, k − 1), Σ_k = 0.16 √k I and weights proportional to k + 2, for k = 1..K.
    Returns what `gaussian_mixture` does.

    See: sec:gmm_scaling
    """
    return _mixture(rng, n, K, 0.16 * np.eye(P))


def _mixture(rng: np.random.Generator, n: int, K: int, covariance: np.ndarray) -> dict[str, Any]:
    """Components k = 1..K at (k − 1, …, k − 1), covariance √k times that given, weight ∝ k + 2."""
    k, P = np.arange(1, K + 1), len(covariance)
    means = np.repeat(k - 1.0, P).reshape(K, P)
    covariances = np.sqrt(k)[:, None, None] * covariance
    weights = (k + 2) / np.sum(k + 2)
    z = rng.choice(K, size=n, p=weights)
    spread = rng.standard_normal((n, P)) @ np.linalg.cholesky(covariance).T
    X = means[z] + np.sqrt(np.sqrt(k))[z, None] * spread
    return {"X": X, "z": z, "means": means, "covariances": covariances, "weights": weights}
