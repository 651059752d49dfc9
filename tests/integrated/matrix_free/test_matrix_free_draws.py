"""Posteriors without matrices against those with them, at the same weights."""

from __future__ import annotations

import numpy as np
import pytest
from crossing import RESIDUAL, model, rows_and_terms
from small import intercepts

from integrated.small import NORMAL_ROWS
from lrvb.integrated.direct import integrate_gaussian
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.matrix_free import integration
from lrvb.integrated.matrix_free.integration import integrate_matrix_free
from lrvb.integrated.matrix_free.model import MatrixFree
from lrvb.integrated.regression import Regression
from lrvb.integrated.terms import Term


def agree(free, dense, near=0.03):
    """Log densities at θ's own draws within 0.1; levels and rows within `near` sds, sds by as much."""
    integral = integrate_matrix_free(free)
    theta = free.draws[:32]
    difference = free.log_density(theta) - dense.log_density(theta)
    # right to 0.02 over the draws that checked it; an rms of 32 draws is known to an eighth, twice that
    assert difference.std() < 0.02 * 1.25
    assert abs(difference).max() < 0.1
    found, expected = (inside.moments(theta, np.ones(32)) for inside in (free, dense))
    np.testing.assert_allclose(found.beta, expected.beta, atol=0.01 * expected.beta_sd.min())
    np.testing.assert_allclose(found.beta_sd, expected.beta_sd, rtol=0.01)
    for t in range(len(free.terms)):
        sd = expected.levels_sd[t]
        assert (abs(found.levels[t] - expected.levels[t]) < near * sd).all()
        assert (abs(found.levels_sd[t] / sd - 1) < near).all()
    m = np.arange(6)
    codes = [term.codes[m].copy() for term in free.terms]
    codes[0][2] = -1
    for t, term in enumerate(free.terms):
        if term.codes is free.terms[0].codes:
            codes[t][2] = -1
    R = [term.R[m] for term in free.terms]
    X = free.rows.X[m]
    mean, variance = dense.functionals(theta, X, codes, R)
    got = list(free.lines(theta, X, codes, R))
    eta = np.concatenate([lot.eta[:, :, 0] for lot in got])
    extra = np.concatenate([lot.extra for lot in got])
    sd, found_sd = (np.sqrt(m.var(0) + v.mean(0)) for m, v in ((mean, variance), (eta, extra)))
    assert (abs(eta.mean(0) - mean.mean(0)) < near * sd).all()
    np.testing.assert_allclose(found_sd, sd, rtol=near)
    return integral


@pytest.mark.parametrize(
    ("kind", "times", "near"),
    [("crossed", 3, 0.03), ("nested", 3, 0.1), ("three", 2, 0.03), ("slope beside", 2, 0.03)],
)
def test_agrees_with_dense_matrices(kind, times, near):
    """The nested design's outer sd may be zero, where levels between the points are coarser."""
    rows, terms = rows_and_terms(kind, times)
    integral = agree(model(kind, times), Gaussian(rows, terms, RESIDUAL), near)
    assert integral.noise is None
    assert integral.node_error < 0.02**2


def test_a_correlated_slope():
    """Along a wide axis levels are those of the nearest of 64 draws, here themselves."""
    rows, terms = rows_and_terms("slopes", 2)
    agree(model("slopes", 2), Gaussian(rows, terms, RESIDUAL), near=0.1)


def test_probes_that_are_wanting_are_doubled(monkeypatch):
    """As long as they leave more than half of what is allowed; their noise comes along."""
    monkeypatch.setattr(integration, "MEAN_ERROR", 1e-6)
    free = model("crossed", 3, probes=16)
    rows, terms = rows_and_terms("crossed", 3)
    exact = integrate_gaussian(Gaussian(rows, terms, RESIDUAL))
    integral = integrate_matrix_free(free)
    assert integral.noise is not None
    assert integral.noise.shape == (len(integral.theta), 128)
    w = integral.weighted.weights
    away = integral.theta - w @ integral.theta
    noise = integral.noise - w @ integral.noise
    error = (away.T @ (w[:, None] * noise)).std(1) / np.sqrt(128)
    shift = w @ integral.theta - exact.weighted.mean(exact.theta)
    assert (abs(shift) < 4 * error + 0.05 * exact.weighted.sd(exact.theta)).all()


def test_a_small_factor_beside_and_an_sd_of_zero():
    """Levels of a factor of six are columns; the large factor's sd is zero in truth."""
    rng = np.random.default_rng(5)
    n = 1200
    a, b = rng.integers(0, 60, n), rng.integers(0, 6, n)
    y = rng.normal(size=n) + 0.4 * rng.normal(size=6)[b]
    rows = Regression.independent(
        NORMAL_ROWS, (y,), np.ones((n, 1)), np.zeros(n), np.zeros(1), np.array([5.0])
    )
    terms = [intercepts(b, 6), intercepts(a, 60)]
    free = MatrixFree(rows, terms, RESIDUAL)
    assert len(free.small) == 1
    assert free.exact
    agree(free, Gaussian(rows, terms, RESIDUAL))


def test_few_levels_of_many_effects_are_columns():
    """Five levels with nine effects each, but not thirty with two."""
    rng = np.random.default_rng(0)
    rows, (first, *_) = rows_and_terms("crossed", 3)
    N = len(rows.X)
    for K, q, small in ((5, 9, True), (30, 2, False), (10, 4, True), (11, 4, False)):
        codes, R = rng.integers(K, size=N), rng.normal(size=(q, N, 1))
        beside = [Term(codes, column, K, (RESIDUAL,)) for column in R]
        made = MatrixFree(rows, [first, *beside], RESIDUAL)
        assert [factor.levels for factor in made.small] == ([K] if small else [])


@pytest.mark.parametrize("kind", ["crossed", "slope beside"])
def test_draws_of_levels_have_the_moments_of_dense_matrices(kind):
    """Given one θ: levels' means and sds, and their covariances with β, within five standard errors."""
    rows, terms = rows_and_terms(kind)
    free, dense = model(kind), Gaussian(rows, terms, RESIDUAL)
    integrate_matrix_free(free)
    theta, n = free.draws[:1], 1000
    drawn = free.sample(np.repeat(theta, n, axis=0), np.random.default_rng(0))
    expected = dense.moments(theta, np.ones(1))
    assert (abs(drawn.beta.mean(0) - expected.beta) < 5 * expected.beta_sd / np.sqrt(n)).all()
    away = drawn.beta - drawn.beta.mean(0)
    for t, z in enumerate(drawn.effects):
        sd = expected.levels_sd[t]
        assert (abs(z.mean(0) - expected.levels[t]) < 5 * sd / np.sqrt(n)).all()
        assert (abs(z.std(0) / sd - 1) < 5 * np.sqrt(0.5 / n)).all()
        cross = np.einsum("ngi,np->gip", z - z.mean(0), away) / n
        unit = sd[:, :, None] * expected.beta_sd
        assert (abs(cross - expected.with_beta[t]) < 5 * unit * np.sqrt(2 / n)).all()
