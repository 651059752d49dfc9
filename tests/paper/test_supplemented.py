"""app:SEM and fig:sparsity_patterns: the covariance by iteration, and by the full matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.models import NormalPoisson
from lrvb.studies.experiments import sparsity
from lrvb.studies.experiments.supplemented import (
    CASES,
    ascent_jacobian,
    compare,
    stated,
    supplemented_covariance,
)
from lrvb.studies.reference import simulate


@pytest.mark.parametrize("case", CASES)
def test_sem_is_linear_response(case):
    """app:SEM: V(I − DM)⁻¹, DM from the update alone; five-point differences err by h⁴ = 1e-12."""
    tables = compare(case, np.random.default_rng(5))
    assert tables["sem"]["gap"].max() < 1e-8
    predicted, observed = tables["rates"].loc[0, ["predicted", "observed"]]
    assert 0.05 < predicted < 1
    assert_allclose(observed, predicted, atol=1e-3)


def test_sem_of_a_normal_posterior_is_its_covariance():
    """Both corrections against Σ itself, the moments θ in the first coordinates of each block."""
    model, data, _ = stated("normal", np.random.default_rng(6))
    fitted = lrvb.fit(model, data)
    found = supplemented_covariance(fitted, ascent_jacobian(fitted))
    first = [0, 1, 2, 9, 10]  # x of blocks with 3 + 6 and 2 + 3 statistics
    assert_allclose(found[np.ix_(first, first)], np.linalg.inv(model.Lambda), atol=1e-8)


def test_the_full_solve_is_the_small_one():
    """fig:sparsity_patterns: (I − VH)⁻¹V over all mean parameters.

    Its blocks are Σ̂ and the rows' covariances.
    """
    data = simulate.normal_poisson(np.random.default_rng(2), 5, beta=1.0, sd=0.5)
    posterior = lrvb.infer(NormalPoisson(local="gaussian"), {"x": data["x"], "y": data["y"]})
    V, H = sparsity.full_covariance(posterior.fit), sparsity.full_hessian(posterior.fit)
    assert V.shape == H.shape == (14, 14)
    Sigma = np.linalg.solve(np.eye(14) - V @ H, V)
    assert_allclose(Sigma[:4, :4], posterior.response.Sigma, rtol=1e-9, atol=1e-12)
    z = posterior.local("z")
    assert_allclose(np.sqrt(np.diag(Sigma)[4::2]), z["sd"], rtol=1e-9)
    assert_allclose(Sigma[4::2, 0], z["cov"].sel(quantity="beta"), rtol=1e-8)
    assert_allclose(Sigma[4::2, 2], z["cov"].sel(quantity="tau"), rtol=1e-8)
