"""Rows without random effects: exact sums, and gaussian rows whose β is integrated in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from integrated.small import FAMILIES, HALF_T, dispersion, regression
from lrvb.integrated.density import Density
from lrvb.integrated.fixed import Fixed
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.mode import differenced
from lrvb.integrated.regression import Regression
from lrvb.likelihoods import GAUSSIAN


def rows_of(family, whole=True):
    """Rows of which some are alike."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3, 24).astype(float) if whole else rng.normal(size=24)
    X = np.column_stack([np.ones(24), x])
    return regression(family, 0.2 + 0.3 * x, X)


@pytest.mark.parametrize("family", [*FAMILIES])
def test_the_density_is_that_of_the_rows_one_by_one(family):
    """Σ log p and the priors; rows that are alike are evaluated once and counted."""
    rows = rows_of(family)
    inside = Fixed(rows)
    tail = dispersion(family)
    theta = np.array([[0.1, 0.4, *tail], [-0.5, 0.2, *tail]])
    eta = rows.predictor(theta[:, :2])
    phi = [value[:, None] for value in rows.phi(theta[:, 2:])]
    expected = rows.likelihood.log_p(rows.columns, eta, phi).sum(1)
    expected += rows.likelihood.constant(rows.columns) + rows.log_prior(theta[:, :2])
    expected += rows.log_prior_dispersion(theta[:, 2:])
    assert len(eta[0]) > inside.N
    np.testing.assert_allclose(inside.log_density(theta), expected, rtol=1e-12)


@pytest.mark.parametrize("family", ["poisson", "negbinomial"])
def test_derivatives_are_those_of_the_density(family):
    """Central differences with h = 1e-3 leave h²; second ones rounding over h² besides."""
    inside = Fixed(rows_of(family, whole=False))
    theta = np.array([0.1, 0.4, *dispersion(family)])
    value, gradient, H = inside.derivatives(theta)
    again = differenced(inside.log_density)(theta)
    assert value == again[0]
    np.testing.assert_allclose(gradient, again[1], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(H, again[2], rtol=1e-3, atol=1e-3)


def test_gaussian_rows_without_terms_are_a_normal_vector():
    """y ~ N(Xb, X P⁻¹ Xᵀ + σ²I), rows with weight 2 standing for two."""
    rng = np.random.default_rng(2)
    X = np.column_stack([np.ones(9), rng.normal(size=9)])
    y, sd = X @ [0.3, 0.5] + rng.normal(size=9), np.array([2.0, 1.5])
    w = np.r_[np.full(3, 2.0), np.ones(6)]
    mean = np.array([0.1, -0.2])
    plain = Regression.independent(Density(GAUSSIAN), (y,), X, np.zeros(9), mean, sd)
    theta = np.array([[-0.3], [0.4]])
    twice = np.r_[np.arange(3), np.arange(9)]
    for rows, at in ((plain, np.arange(9)), (plain.weighted(w), twice)):
        found = Gaussian(rows, (), HALF_T)
        for t, value in zip(theta[:, 0], found.log_density(theta), strict=True):
            S = X[at] @ np.diag(sd**2) @ X[at].T + np.exp(2 * t) * np.eye(len(at))
            exact = multivariate_normal(X[at] @ mean, S).logpdf(y[at])
            exact += HALF_T.log_density(np.exp(t)) + t
            np.testing.assert_allclose(value, exact, rtol=1e-10)
