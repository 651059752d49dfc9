"""Posteriors without a finite integral whose bulk looks well: found far out, and no proper one with them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln, log_ndtr

import lrvb
from blackbox.densities import density
from lrvb.blackbox.endless import Endless, Star, _ridge, find_endless
from lrvb.blackbox.kernel import Kernel

J, N = 6, 10
MEANS = 3 * np.sin(np.arange(J))  # of N rows each with sd 1
FLAT = 0.0  # slope of a log sd's prior below


def hierarchy(slope, centred, per_unit=1.0):
    """x = (μ, s, effects): means ~ N(μ + θ, 1/N), θ ~ N(0, e^2s), s with the log prior slope·s − e^s."""

    def log_density(x):
        mu, s, theta = x[0], per_unit * x[1], x[2:]
        effects = theta if centred else jnp.exp(s) * theta
        found = -0.5 * N * ((MEANS - mu - effects) ** 2).sum() - 0.5 * (mu / 5) ** 2
        found += slope * s - (jnp.exp(s) if slope else 0.0)
        return (
            found
            - 0.5 * ((theta * jnp.exp(-s)) ** 2 if centred else theta**2).sum()
            - centred * J * s
        )

    return log_density


def drawn(centred, per_unit=1.0, n=4000):
    """Points of the bulk, as chains give them."""
    rng = np.random.default_rng(0)
    mu, s = 0.3 * rng.standard_normal(n), 0.7 + 0.3 * rng.standard_normal(n)
    theta = MEANS - mu[:, None] + rng.standard_normal((n, J)) / np.sqrt(N)
    effects = theta if centred else theta * np.exp(-s)[:, None]
    return np.column_stack([mu, s / per_unit, effects])


def found_in(log_density, x):
    return find_endless(Kernel(density(log_density, np.zeros(x.shape[1]))), x)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("per_unit", "side"), [(1.0, -1), (0.5, -1), (-0.5, 1)])
def test_a_flat_log_scale_is_endless(centred, per_unit, side):
    """Of a log sd, a log variance and a log precision: p tends to a constant where effects vanish."""
    x = drawn(centred, per_unit)
    assert found_in(hierarchy(FLAT, centred, per_unit), x) == Endless(1, side)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("slope", [0.2, 1.0, 3.0])
def test_a_gamma_prior_is_not(centred, slope):
    """τ ~ Gamma(slope, 1): p falls like τ^slope for each unit of log τ."""
    assert found_in(hierarchy(slope, centred), drawn(centred)) is None


def test_the_ridge_is_the_marginal_of_narrow_effects():
    """Given μ, θ_j is normal with precision N + e^−2s: a quadratic, whose integral is known."""
    x = drawn(True)
    center, sd = x.mean(axis=0), x.std(axis=0)
    away = np.array([7.0, 9.0, 11.0])
    star = Star(Kernel(density(hierarchy(1.0, True), np.zeros(J + 2))), center, sd)
    ridge = _ridge(star, Endless(1, -1), away)
    s = center[1] - away
    v = np.exp(2 * s) + 1 / N
    exact = -0.5 * J * np.log(v) - 0.5 * ((MEANS - center[0]) ** 2).sum() / v + s - np.exp(s)
    # the narrow directions lean towards μ by N·e^2s, of J effects
    assert np.diff(ridge) == pytest.approx(np.diff(exact), abs=J * N * np.exp(2 * s[0]))


def student(x):
    """log of a t's degrees of freedom, its log scale: as the first grows it becomes a normal."""
    y = np.array([-9.0, -2, -1.2, -0.7, -0.3, 0, 0.2, 0.5, 0.9, 1.4, 2.1, 12])
    nu, z = jnp.exp(x[0]), y * jnp.exp(-x[1])
    kernel = -(nu + 1) / 2 * jnp.log1p(z**2 / nu)
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu)
    return (constant + kernel - x[1]).sum() - 0.5 * x[1] ** 2


def separated(x):
    """A coefficient of a probit that only one side of the data limits."""
    return 8 * log_ndtr(2 * x[0]) - 0.5 * (x[1] - 1) ** 2


def test_where_rounding_ends_what_can_be_told():
    """Log gammas of large arguments cancel: before they do, p has stopped falling."""
    x = np.random.default_rng(1).normal([0.5, 0.0], [0.4, 0.2], (1000, 2))
    assert found_in(student, x) == Endless(0, 1)
    assert found_in(lambda x: student(x) - 0.5 * x[0] ** 2, x) is None


def test_a_coefficient_without_a_limit():
    x = np.random.default_rng(1).normal([2.0, 1.0], [0.4, 1.0], (1000, 2))
    assert found_in(separated, x) == Endless(0, 1)


def test_a_probability_cut_off_is_the_programs_edge():
    """Four of ten with p held away from zero and one by the last digit: log p stops at once, at e^−144."""

    def log_density(x):
        p = jnp.clip(1 / (1 + jnp.exp(-x[0])), 2.2e-16, 1 - 2.2e-16)
        return 4 * jnp.log(p) + 6 * jnp.log1p(-p) - 0.5 * x[1] ** 2

    x = np.random.default_rng(2).normal([-0.4, 0.0], [0.65, 1.0], (1000, 2))
    assert found_in(log_density, x) is None


def test_nothing_is_trusted_and_the_sentence_names_the_coordinate():
    """Centred, with a log sd that the data tell well: every other sign is good."""
    log_density = hierarchy(FLAT, True)
    model = lrvb.from_log_density(log_density, np.array([0.0, 0.7, *MEANS]))
    table = model.infer().certificate.summary()
    assert set(table["verdict"]) == {"do not trust"}
    assert all("no finite integral" in why and "[1]'" in why for why in table["why"])
