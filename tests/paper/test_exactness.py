"""prop:lrvb_mvn: for a Gaussian posterior and any factorisation, Σ̂ = Σ and the means are exact."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.studies.experiments.exactness import GaussianPosterior, block_sizes, random_covariance


def random_problem(seed: int, dimension: int):
    rng = np.random.default_rng(seed)
    Sigma = random_covariance(rng, dimension)
    sizes = block_sizes(rng, dimension, "random blocks")
    return Sigma, 3 * rng.normal(size=dimension), sizes


@pytest.mark.parametrize(("seed", "dimension"), [(6, 2), (2, 5), (3, 12), (4, 30)])
def test_gaussian_posterior_is_exact(seed, dimension):
    """app:mvn_exact, prop:lrvb_mvn: Σ̂ = Σ to 1e-9 relative, and MFVB visibly too small."""
    Sigma, mu, sizes = random_problem(seed, dimension)
    posterior = lrvb.infer(GaussianPosterior(np.linalg.inv(Sigma), mu, sizes))
    assert_allclose(posterior.mean(), mu, rtol=1e-8, atol=1e-8 * np.sqrt(np.diag(Sigma)).max())
    scale = np.sqrt(np.outer(np.diag(Sigma), np.diag(Sigma)))
    assert_allclose(posterior.cov() / scale, Sigma / scale, atol=1e-9)
    assert (posterior.sd(method="mfvb") < 0.99 * posterior.sd()).any()


def test_without_interaction_linear_response_is_mean_field():
    """H = 0 gives Σ̂ = V: a posterior that factorises is left alone."""
    Sigma = np.diag([0.5, 2.0, 3.0])
    model = GaussianPosterior(np.linalg.inv(Sigma), np.array([1.0, -1.0, 0.0]), (1, 1, 1))
    response = lrvb.respond(lrvb.linearize(lrvb.fit(model)))
    assert_allclose(response.Sigma, response.V, rtol=1e-12, atol=1e-14)
    assert_allclose(lrvb.linearize(response.fit).H, 0, atol=1e-14)
