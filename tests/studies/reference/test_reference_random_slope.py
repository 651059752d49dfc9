"""The exact random-slope posterior against dense algebra, brute force, identities and Gibbs."""

import numpy as np
import pytest
from exactness import (
    assert_chain_agrees,
    assert_same_posterior,
    derivatives,
    scaled_legendre,
)
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln

from lrvb import errors
from lrvb.studies.reference import random_slope, simulate


@pytest.fixture(scope="module")
def data():
    """A data set of the study's size."""
    return simulate.random_slope(np.random.default_rng(5))


@pytest.fixture(scope="module")
def columns(data):
    """Its columns, in the order of `exact`."""
    return data["x"], data["r"], data["y"], data["group"]


@pytest.fixture(scope="module")
def posterior(columns):
    """Its exact posterior."""
    return random_slope.exact(*columns)


def dense_evidence(x, r, y, group, nu, tau, beta_var=10.0):
    """Log p(y | ν, τ) from the N × N covariance of y."""
    Z = r[:, None] * (group[:, None] == np.unique(group))
    cov = beta_var * x @ x.T + Z @ Z.T / nu + np.eye(len(y)) / tau
    return stats.multivariate_normal(np.zeros(len(y)), cov).logpdf(y)


@pytest.mark.parametrize(("nu", "tau"), [(0.5, 0.2), (4.0, 1.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_finer_and_wider_changes_nothing(nu, tau, seed):
    """Half the step and tails twice as deep, at the corners of the study's range."""
    data = simulate.random_slope(np.random.default_rng(seed), nu=nu, tau=tau)
    columns = data["x"], data["r"], data["y"], data["group"]
    one = random_slope.exact(*columns)
    two = random_slope.exact(*columns, refine=2, depth=64)
    assert_same_posterior(one, two, rtol=1e-9)


def test_conditional_agrees_with_dense_algebra():
    """Evidence from the covariance of y; moments from the joint precision of (β, z)."""
    data = simulate.random_slope(np.random.default_rng(2), groups=4, per_group=3)
    x, r, y, group = data["x"], data["r"], data["y"], data["group"]
    nu, tau = np.array([0.3, 2.0, 50.0]), np.array([1.5, 0.1, 4.0])
    sums, _ = random_slope.summarize_rows(x, r, y, group)
    given = random_slope.condition(sums, nu, tau, 10.0)
    C = np.hstack([x, r[:, None] * (group[:, None] == np.arange(4))])
    for g in range(3):
        known = dense_evidence(x, r, y, group, nu[g], tau[g])
        assert_allclose(given.log_evidence[g], known, rtol=1e-11)
        cov = np.linalg.inv(tau[g] * C.T @ C + np.diag([0.1] * 2 + [nu[g]] * 4))
        mean = tau[g] * cov @ C.T @ y
        assert_allclose(np.concatenate([given.beta_mean[g], given.z_mean[g]]), mean, rtol=1e-9)
        assert_allclose(given.beta_cov[g], cov[:2, :2], rtol=1e-9)
        assert_allclose(given.z_var[g], np.diag(cov)[2:], rtol=1e-9)
        assert_allclose(given.z_beta_cov[g], cov[2:, :2], rtol=1e-9)


def test_small_data_by_brute_force():
    """ν and τ on their natural scale by Gauss–Legendre, with the dense covariance of y."""
    data = simulate.random_slope(np.random.default_rng(8), groups=3, per_group=2)
    columns = data["x"], data["r"], data["y"], data["group"]
    shapes, rate = (3.0, 4.0), 2.0
    (nu, nu_weight), (tau, tau_weight) = (scaled_legendre(0, 25, 80) for _ in range(2))
    evidence = np.array([[dense_evidence(*columns, a, b) for b in tau] for a in nu])
    top = evidence.max()
    values = np.exp(evidence - top) * np.outer(
        nu_weight * stats.gamma.pdf(nu, shapes[0], scale=1 / rate),
        tau_weight * stats.gamma.pdf(tau, shapes[1], scale=1 / rate),
    )

    def moment(power_nu, power_tau):
        return nu**power_nu @ values @ tau**power_tau

    found = random_slope.exact(
        *columns, nu_shape=shapes[0], nu_rate=rate, tau_shape=shapes[1], tau_rate=rate
    )
    Z = moment(0, 0)
    assert_allclose(found.log_evidence, top + np.log(Z), atol=1e-8)
    assert_allclose(found.mean["nu"], moment(1, 0) / Z, rtol=1e-8)
    product = found.cov.loc["nu", "tau"] + found.mean["nu"] * found.mean["tau"]
    assert_allclose(product, moment(1, 1) / Z, rtol=1e-8)


@pytest.mark.parametrize("name", ["nu", "tau"])
def test_moments_are_derivatives_of_the_log_evidence(columns, posterior, name):
    """Tilts by exp(−tν) and νᵗ (and the same for τ) only move the prior's hyperparameters."""

    def evidence(shape, rate):
        hyper = {f"{name}_shape": shape, f"{name}_rate": rate}
        normaliser = gammaln(shape) - shape * np.log(rate)
        return random_slope.exact(*columns, **hyper).log_evidence + normaliser

    mean, cov = posterior.mean, posterior.cov
    first, second = derivatives(lambda t: evidence(2, 2 + t), 0.05)
    assert_allclose([-first, second], [mean[name], cov.loc[name, name]], rtol=1e-5)
    first, second = derivatives(lambda t: evidence(2 + t, 2), 0.05)
    log_name = f"log({name})"
    assert_allclose([first, second], [mean[log_name], cov.loc[log_name, log_name]], rtol=1e-5)


def test_expected_score_vanishes(columns, posterior):
    """E[∂ log p / ∂β] = 0 ties the covariances of β and z with τ to the means."""
    x, r, y, group = columns
    mean, cov = posterior.mean, posterior.cov
    beta = ["beta[0]", "beta[1]"]
    tau_beta = cov.loc[beta, "tau"] + mean[beta] * mean["tau"]
    tau_z = (posterior.z_cov["tau"] + posterior.z_mean * mean["tau"]).to_numpy()
    score = x.T @ (mean["tau"] * y - x @ tau_beta - r * tau_z[group]) - mean[beta] / 10
    assert_allclose(score, 0, atol=1e-10 * np.abs(x.T @ y).max())


def test_gibbs_agrees(columns, posterior):
    """A conjugate sampler that shares nothing with the quadrature but the model."""
    rng = np.random.default_rng(13)
    x, r, y, group = columns
    C = np.hstack([x, r[:, None] * (group[:, None] == np.arange(30))])
    CC, Cy = C.T @ C, C.T @ y
    burn, sweeps = 200, 30000
    nu, tau = 1.0, 1.0
    draws, locals_ = np.empty((sweeps, 6)), np.empty((sweeps, 30))
    for sweep in range(-burn, sweeps):
        L = np.linalg.cholesky(tau * CC + np.diag([0.1] * 2 + [nu] * 30))
        noise = np.linalg.solve(L.T, np.linalg.solve(L, tau * Cy) + rng.standard_normal(32))
        residual = y - C @ noise
        tau = rng.gamma(2 + len(y) / 2) / (2 + 0.5 * residual @ residual)
        nu = rng.gamma(2 + 15) / (2 + 0.5 * noise[2:] @ noise[2:])
        if sweep >= 0:
            draws[sweep] = *noise[:2], tau, np.log(tau), nu, np.log(nu)
            locals_[sweep] = noise[2:]
    assert_chain_agrees(posterior, posterior.names, draws, locals_)
    skew = stats.skew(draws[:, 4])
    assert_allclose(posterior.skewness["nu"], skew, atol=0.15)


def test_groups_may_be_labelled_and_ordered_anyhow(columns, posterior):
    """Shuffled rows and text labels give the same posterior, with z under its label."""
    x, r, y, group = columns
    order = np.random.default_rng(0).permutation(len(y))
    labels = np.array([f"g{k:02d}" for k in group])
    found = random_slope.exact(x[order], r[order], y[order], labels[order])
    assert list(found.z_mean.index[:2]) == ["g00", "g01"]
    assert_allclose(found.z_mean.to_numpy(), posterior.z_mean.to_numpy(), atol=1e-8)
    assert_allclose(found.cov, posterior.cov, rtol=1e-6, atol=1e-10)


def test_bad_columns_are_named(columns):
    """The message says which column, which row and which value."""
    x, r, y, group = columns
    with pytest.raises(errors.InvalidData, match=r"Column r, row 3: inf"):
        random_slope.exact(x, np.where(np.arange(len(r)) == 3, np.inf, r), y, group)
    with pytest.raises(errors.InvalidData, match=r"x must be \(N, p\)"):
        random_slope.exact(x[:, 0], r, y, group)
