"""The marginal of what drives a funnel: exact in a normal hierarchy, and off where draws missed the neck."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from lrvb.blackbox.density import Density
from lrvb.blackbox.kernel import Kernel, Values
from lrvb.blackbox.necks import off_the_marginal

Y = 3 * np.sin(np.arange(12))
T = np.linspace(-18, 8, 8001)


def log_density(x):
    """y ~ N(θ, 1.5²), θ ~ N(μ, τ²), μ ~ N(0, 10²), τ half-Cauchy of 5; x = (μ, log τ, θ)."""
    mu, t, theta = x[0], x[1], x[2:]
    found = -0.5 * (((Y - theta) / 1.5) ** 2).sum() - 0.5 * (mu / 10) ** 2
    found -= 0.5 * ((theta - mu) ** 2).sum() * jnp.exp(-2 * t) + len(Y) * t
    return found + t - jnp.log1p((jnp.exp(t) / 5) ** 2)


@pytest.fixture(scope="module")
def exact():
    """Draws of x, with μ and θ normal given log τ, whose marginal is a grid's; and those of log τ and τ."""
    v = np.exp(2 * T) + 1.5**2
    precision = 0.01 + len(Y) / v
    mean = Y.sum() / v / precision
    log_p = -0.5 * len(Y) * np.log(v) - 0.5 * np.log(precision) + T - np.log1p((np.exp(T) / 5) ** 2)
    log_p += -0.5 * (Y**2).sum() / v + 0.5 * mean**2 * precision
    p = np.exp(log_p - log_p.max())
    n, rng = 20_000, np.random.default_rng(0)
    at = np.searchsorted(np.cumsum(p) / p.sum(), (np.arange(n) + 0.5) / n)
    mu = mean[at] + rng.standard_normal(n) / np.sqrt(precision[at])
    width = 1 / (np.exp(-2 * T[at]) + 1 / 1.5**2)
    center = width[:, None] * (np.exp(-2 * T[at]) * mu)[:, None] + width[:, None] * Y / 1.5**2
    theta = center + np.sqrt(width)[:, None] * rng.standard_normal((n, len(Y)))
    return np.column_stack([mu, T[at], theta])


def looked(x):
    """Of τ and of θ₀, by draws x."""
    names = tuple(f"x[{i}]" for i in range(len(Y) + 2))
    density = Density(
        log_density,
        lambda x: {"log_tau": x[1], "tau": jnp.exp(x[1]), "theta": x[2]},
        np.zeros((1, len(names))),
        names,
        "f",
    )
    values = Values(density)
    return off_the_marginal(Kernel(density), values, x, values(x))


def test_exact_draws_are_on_it(exact):
    """To the grid's step, a half of the draws' sd; θ drives nothing."""
    found = looked(exact)
    assert (found[:2] < 0.02).all()
    assert np.isnan(found[2])


def test_draws_that_missed_the_neck_are_off(exact):
    """By what the mean and sd of log τ lack without its lowest twentieth."""
    t = exact[:, 1]
    kept = exact[t > np.quantile(t, 0.05)]
    off = max(abs(kept[:, 1].mean() - t.mean()) / t.std(), np.log(t.std() / kept[:, 1].std()))
    assert off > 0.15
    assert looked(kept)[0] == pytest.approx(off, rel=0.1)


def test_without_a_funnel_nothing_is_said():
    """Of independent normals."""
    x = np.random.default_rng(1).normal(size=(2000, len(Y) + 2))
    assert np.isnan(looked(x)).all()
