"""The exact normal–Poisson posterior against brute force, identities and a sampler."""

import numpy as np
import pytest
from exactness import (
    assert_chain_agrees,
    assert_same_posterior,
    derivatives,
    scaled_legendre,
)
from numpy.polynomial.hermite_e import hermegauss
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln

from lrvb import errors
from lrvb.studies.reference import normal_poisson, simulate


@pytest.fixture(scope="module")
def data():
    """Sixty rows with the study's x and parameters in mid range."""
    return simulate.normal_poisson(np.random.default_rng(3), n=60, beta=1.2, sd=0.7)


@pytest.fixture(scope="module")
def posterior(data):
    """Their exact posterior."""
    return normal_poisson.exact(data["x"], data["y"])


@pytest.mark.parametrize(("beta", "sd"), [(0.1, 0.3), (2.8, 1.0)])
def test_finer_and_wider_changes_nothing(beta, sd):
    """Half the steps and tails half as deep again, at the corners of the study's range."""
    data = simulate.normal_poisson(np.random.default_rng(7), n=60, beta=beta, sd=sd)
    one = normal_poisson.exact(data["x"], data["y"])
    two = normal_poisson.exact(data["x"], data["y"], refine=2, depth=48)
    assert_same_posterior(one, two, rtol=1e-8)


def test_two_rows_by_brute_force():
    """β and τ on their natural scale by Gauss–Legendre, z_n by Gauss–Hermite about its prior."""
    x, y = np.array([0.8, -0.5]), np.array([3.0, 0.0])
    beta_var, shape, rate = 2.0, 6.0, 3.0
    t, w = hermegauss(60)
    beta, beta_weight = scaled_legendre(-9, 9, 160)
    tau, tau_weight = scaled_legendre(0, 24, 160)
    density = np.outer(
        beta_weight * stats.norm.pdf(beta, 0, beta_var**0.5),
        tau_weight * stats.gamma.pdf(tau, shape, scale=1 / rate),
    )
    z = beta[:, None, None, None] * x[:, None] + t / np.sqrt(tau)[:, None, None]
    likelihood = w / np.sqrt(2 * np.pi) * stats.poisson.pmf(y[:, None], np.exp(z))

    def moment(power_beta, power_tau, power_z):
        first = (likelihood[..., 0, :] * z[..., 0, :] ** power_z).sum(-1)
        values = density * first * likelihood[..., 1, :].sum(-1)
        return beta**power_beta @ values @ tau**power_tau

    found = normal_poisson.exact(x, y, beta_var=beta_var, tau_shape=shape, tau_rate=rate)
    Z = moment(0, 0, 0)
    mean, sd = found.mean, found.sd
    assert_allclose(found.log_evidence, np.log(Z), atol=1e-8)
    assert_allclose(mean["beta"], moment(1, 0, 0) / Z, atol=1e-8)
    assert_allclose(mean["tau"], moment(0, 1, 0) / Z, atol=1e-8)
    assert_allclose(found.cov.loc["beta", "beta"] + mean["beta"] ** 2, moment(2, 0, 0) / Z, 1e-8)
    assert_allclose(sd["tau"] ** 2 + mean["tau"] ** 2, moment(0, 2, 0) / Z, rtol=1e-8)
    assert_allclose(found.z_mean[0], moment(0, 0, 1) / Z, atol=1e-8)
    assert_allclose(found.z_sd[0] ** 2 + found.z_mean[0] ** 2, moment(0, 0, 2) / Z, rtol=1e-8)
    z_tau = found.z_cov.loc[0, "tau"] + found.z_mean[0] * mean["tau"]
    assert_allclose(z_tau, moment(0, 1, 1) / Z, atol=1e-8)


def test_moments_are_derivatives_of_the_log_evidence(data):
    """Tilts by exp(−tτ), τᵗ and exp(−tβ²/2) only move the prior's hyperparameters."""
    x, y = data["x"][:40], data["y"][:40]
    v, a, b = 2.0, 5.0, 3.0

    def evidence(v, a, b):
        found = normal_poisson.exact(x, y, beta_var=v, tau_shape=a, tau_rate=b)
        return found.log_evidence + 0.5 * np.log(v) + gammaln(a) - a * np.log(b)

    posterior = normal_poisson.exact(x, y, beta_var=v, tau_shape=a, tau_rate=b)
    mean, cov = posterior.mean, posterior.cov
    first, second = derivatives(lambda t: evidence(v, a, b + t), 0.1)
    assert_allclose([-first, second], [mean["tau"], cov.loc["tau", "tau"]], rtol=1e-5)
    first, second = derivatives(lambda t: evidence(v, a + t, b), 0.1)
    known = [mean["log(tau)"], cov.loc["log(tau)", "log(tau)"]]
    assert_allclose([first, second], known, rtol=1e-5)
    first, _ = derivatives(lambda t: evidence(1 / (1 / v + t), a, b), 0.02)
    assert_allclose(-2 * first, cov.loc["beta", "beta"] + mean["beta"] ** 2, rtol=1e-7)


def test_expected_score_vanishes(data, posterior):
    """E[∂ log p / ∂β] = 0 ties the covariances of z with τ to the means and Cov(β, τ)."""
    x, mean, cov = data["x"], posterior.mean, posterior.cov
    tau_z = posterior.z_cov["tau"] + posterior.z_mean * mean["tau"]
    tau_beta = cov.loc["beta", "tau"] + mean["beta"] * mean["tau"]
    score = x @ tau_z - x @ x * tau_beta - mean["beta"] / 10
    assert_allclose(score / (x @ x * mean["tau"]), 0, atol=1e-10)


def test_quantiles_integrate_to_the_mean(posterior):
    """E[θ] = lower + ∫ (1 − F), and the distribution function inverts the quantiles."""
    for name in posterior.names:
        lower, upper = (posterior.quantile(name, p) for p in (1e-7, 1 - 1e-7))
        c, weight = scaled_legendre(lower, upper, 80)
        mean = lower + weight @ [1 - posterior.cdf(name, value) for value in c]
        assert_allclose((mean - posterior.mean[name]) / posterior.sd[name], 0, atol=1e-5)
        assert_allclose(posterior.cdf(name, posterior.quantile(name, 0.2)), 0.2, atol=1e-10)
    lower, upper = posterior.interval("tau", 0.9)
    assert lower < posterior.mean["tau"] < upper
    with pytest.raises(ValueError, match="inside"):
        posterior.quantile("tau", 1.0)


def test_metropolis_within_gibbs_agrees(data, posterior):
    """A sampler that shares nothing with the quadrature but the model."""
    rng = np.random.default_rng(11)
    x, y = data["x"], data["y"]
    burn, sweeps = 2000, 60000
    z, beta, tau = np.log(y + 0.5), 1.0, 1.0
    draws, locals_ = np.empty((sweeps, 3)), np.empty((sweeps, len(x)))
    width = 2.4 / np.sqrt(2 + y)
    for sweep in range(-burn, sweeps):
        for step in rng.standard_normal((2, len(x))):
            new = z + width * step
            gain = y * (new - z) - np.exp(new) + np.exp(z)
            gain -= 0.5 * tau * ((new - beta * x) ** 2 - (z - beta * x) ** 2)
            z = np.where(np.log(rng.random(len(x))) < gain, new, z)
        q = tau * (x @ x) + 0.1
        beta = tau * (x @ z) / q + rng.standard_normal() / np.sqrt(q)
        tau = rng.gamma(1 + len(x) / 2) / (1 + 0.5 * ((z - beta * x) ** 2).sum())
        if sweep >= 0:
            draws[sweep] = beta, tau, np.log(tau)
            locals_[sweep] = z
    assert_chain_agrees(posterior, posterior.names, draws, locals_)


def test_bad_columns_are_named():
    """The message says which column, which row and which value."""
    x = np.array([0.1, 0.2, 0.3])
    with pytest.raises(errors.InvalidData, match=r"Column y, row 1: -1\.0"):
        normal_poisson.exact(x, np.array([0, -1, 2]))
    with pytest.raises(errors.InvalidData, match=r"Column x, row 2: nan"):
        normal_poisson.exact(np.array([0.1, 0.2, np.nan]), np.array([0, 1, 2]))
    with pytest.raises(errors.InvalidData, match="equally long"):
        normal_poisson.exact(x, np.array([0, 1]))
