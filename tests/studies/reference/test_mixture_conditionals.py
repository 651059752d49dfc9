"""Each conditional of the mixture's sampler against the moments of its closed form.

All components are drawn at once, so many equal components are many independent draws.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import digamma, polygamma, softmax

from lrvb import errors
from lrvb.studies.reference import mixture_conditionals, mixture_gibbs
from lrvb.studies.reference.mixture_conditionals import ComponentSums

DRAWS = 20_000
P = 3


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def rows():
    """A few rows of one component."""
    return np.random.default_rng(1).standard_normal((6, P)) @ np.diag([1.0, 2.0, 0.5]) + 1


def priors(K=DRAWS, mean=0.5, mean_precision=2.0, dof=4.5, scale=None, concentration=1.5):
    scale = np.diag([0.2, 0.1, 0.4]) + 0.05 if scale is None else scale
    return mixture_conditionals.make_priors(K, P, mean, mean_precision, dof, scale, concentration)


def copies(rows):
    """The sums of DRAWS components that hold the same rows."""
    sums = len(rows), rows.sum(0), rows.T @ rows
    return ComponentSums(*(np.repeat(np.asarray(s, float)[None], DRAWS, axis=0) for s in sums))


def assert_drawn(draws, mean, cov=None):
    """Mean and covariance of independent draws (S, q) within five standard errors."""
    found, n = draws.mean(0), len(draws)
    assert np.abs((found - mean) / (draws.std(0) / np.sqrt(n))).max() < 5
    if cov is not None:
        products = (draws - mean)[:, :, None] * (draws - mean)[:, None, :]
        error = products.std(0) / np.sqrt(n)
        assert np.abs((products.mean(0) - cov) / error).max() < 5


@pytest.mark.parametrize("scale", [None, np.inf])
def test_precisions_are_wishart(rng, rows, scale):
    """E Λ = νW, Cov(Λ_ij, Λ_kl) = ν(W_ik W_jl + W_il W_jk), and both moments of log|Λ|."""
    prior, mu = priors(scale=scale), np.array([0.7, 1.2, 0.9])
    W0_inverse = 0 if scale is np.inf else np.linalg.inv(np.diag([0.2, 0.1, 0.4]) + 0.05)
    W = np.linalg.inv(W0_inverse + (rows - mu).T @ (rows - mu))
    nu = 4.5 + len(rows)
    Lambda, logdet = mixture_conditionals.draw_precisions(
        rng, copies(rows), np.tile(mu, (DRAWS, 1)), prior
    )
    i, j = np.triu_indices(P)
    cov = nu * (W[np.ix_(i, i)] * W[np.ix_(j, j)] + W[np.ix_(i, j)] * W[np.ix_(j, i)])
    assert_drawn(Lambda[:, i, j], nu * W[i, j], cov)
    half = (nu - np.arange(P)) / 2
    known = digamma(half).sum() + P * np.log(2) + np.linalg.slogdet(W)[1]
    assert_drawn(logdet[:, None], known, polygamma(1, half).sum())
    assert_allclose(logdet, np.linalg.slogdet(Lambda)[1], rtol=1e-9)
    assert_allclose(Lambda, Lambda.transpose(0, 2, 1), rtol=1e-12)


def test_flat_precisions_have_the_degrees_of_freedom_of_the_study(rng, rows):
    """dof P + 1 and W₀⁻¹ = 0: Wishart(N_k + P + 1, S_k⁻¹), here by its marginal χ²."""
    prior = priors(dof=None, scale=np.inf)
    mu = rows.mean(0)
    S = (rows - mu).T @ (rows - mu)
    Lambda, _ = mixture_conditionals.draw_precisions(
        rng, copies(rows), np.tile(mu, (DRAWS, 1)), prior
    )
    a = np.array([1.0, -2.0, 0.5])
    chi = np.einsum("i,nij,j->n", a, Lambda, a) / (a @ np.linalg.solve(S, a))
    assert stats.kstest(chi, stats.chi2(len(rows) + P + 1).cdf).pvalue > 1e-4


@pytest.mark.parametrize("mean_precision", [2.0, 0.0])
def test_means_are_normal(rng, rows, mean_precision):
    """Precision N_k Λ + κI, mean the precision-weighted mean of rows and prior."""
    Lambda = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 3.0]])
    prior = priors(mean=np.array([3.0, -1.0, 0.0]), mean_precision=mean_precision)
    cov = np.linalg.inv(len(rows) * Lambda + mean_precision * np.eye(P))
    mean = cov @ (Lambda @ rows.sum(0) + mean_precision * prior.mean)
    draws = mixture_conditionals.draw_means(
        rng, copies(rows), np.tile(Lambda, (DRAWS, 1, 1)), prior
    )
    assert_drawn(draws, mean, cov)


def test_weights_are_dirichlet(rng):
    """E log π_k = ψ(α_k) − ψ(Σα), Cov = ψ'(α_k)1{k = l} − ψ'(Σα)."""
    rows, concentration = np.array([3.0, 0.0, 12.0]), np.array([0.5, 2.0, 0.0])
    sums = ComponentSums(rows, np.zeros((3, P)), np.zeros((3, P, P)))
    prior = priors(K=3, concentration=concentration)
    draws = np.array(
        [mixture_conditionals.draw_weights(rng, sums, prior) for _ in range(DRAWS // 4)]
    )
    alpha = rows + concentration
    cov = np.diag(polygamma(1, alpha)) - polygamma(1, alpha.sum())
    assert_drawn(draws, digamma(alpha) - digamma(alpha.sum()), cov)
    assert_allclose(np.exp(draws).sum(1), 1, rtol=1e-12)


@pytest.mark.parametrize("K", [2, 4])
def test_log_odds_are_those_of_the_densities(rng, rows, K):
    """log π_k N(x | μ_k, Λ_k⁻¹), relative to component 0."""
    mu, root = rng.standard_normal((K, P)), rng.standard_normal((K, P, P))
    Lambda = root @ root.transpose(0, 2, 1) + np.eye(P)
    log_pi = np.log(rng.dirichlet(np.ones(K)))
    joint = np.array(
        [
            log_pi[k] + stats.multivariate_normal(mu[k], np.linalg.inv(Lambda[k])).logpdf(rows)
            for k in range(K)
        ]
    )
    found = mixture_gibbs.log_odds(
        mixture_gibbs.features(rows), mu, Lambda, np.linalg.slogdet(Lambda)[1], log_pi
    )
    assert_allclose(found, joint[1:] - joint[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("odds", [[0.3], [-800.0], [800.0], [1.0, -0.5, 0.2], [900.0, 899.0]])
def test_labels_follow_their_odds(rng, odds):
    """Frequencies of the labels are the softmax of (0, log odds), however large those are."""
    beyond = mixture_gibbs.draw_labels(rng, np.repeat(np.array(odds)[:, None], DRAWS, axis=1))
    known = softmax([0.0, *odds])
    count = np.bincount(beyond.sum(0).astype(int), minlength=len(known))
    assert np.all(np.diff(beyond, axis=0) <= 0)
    error = np.sqrt(DRAWS * known * (1 - known)) + 1e-9
    assert np.abs((count - DRAWS * known) / error).max() < 5


def test_sums_are_those_of_the_labels(rng):
    """Nested sums over {z ≥ k} give each component's number, Σx and Σxxᵀ."""
    X, z, K = rng.standard_normal((50, P)), rng.integers(0, 4, 50), 4
    phi = mixture_gibbs.features(X)
    beyond = (z >= np.arange(1, K)[:, None]).astype(float)
    sums = mixture_gibbs.split(mixture_gibbs.components(phi.sum(1), beyond @ phi.T), P)
    for k in range(K):
        part = X[z == k]
        assert sums.rows[k] == len(part)
        assert_allclose(sums.x[k], part.sum(0), atol=1e-12)
        assert_allclose(sums.xx[k], part.T @ part, atol=1e-12)


def test_rows_that_the_conditionals_need():
    """None with proper priors; P for a flat Wishart; one for a flat mean or Dirichlet."""
    fewest = mixture_conditionals.fewest_rows
    assert fewest(priors(K=2)) == 0
    assert fewest(priors(K=2, mean_precision=0.0)) == 1
    assert fewest(priors(K=2, concentration=0.0)) == 1
    assert fewest(priors(K=2, scale=np.inf)) == P
    assert fewest(priors(K=2, dof=1.0)) == 2  # 1 + N_k > P − 1
    assert fewest(priors(K=2, dof=1.5)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean_precision": -1.0},
        {"dof": -1.0},
        {"scale": 0.0},
        {"scale": -np.eye(P)},
        {"scale": np.eye(2)},
        {"concentration": -0.1},
    ],
)
def test_impossible_priors_are_explained(wrong):
    """What is outside its range is named."""
    with pytest.raises(errors.InvalidModel, match=r"prior's|Wishart scale"):
        priors(**wrong)
