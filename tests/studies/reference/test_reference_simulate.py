"""The simulators draw what the paper's studies say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lrvb import errors
from lrvb.studies.reference import simulate


def test_normal_poisson_settings():
    """Ranges of β and τ, shapes, and a design that stays fixed when passed."""
    rng = np.random.default_rng(0)
    x = simulate.normal_poisson(rng)["x"]
    sets = [simulate.normal_poisson(rng, x=x) for _ in range(300)]
    beta, tau = np.array([[d["beta"], d["tau"]] for d in sets]).T
    assert 0 <= beta.min() < 0.1
    assert 2.9 < beta.max() <= 3
    assert 1 <= tau.min() < 1.1
    assert 10 < tau.max() <= 0.3**-2
    assert all(d["x"] is x or np.array_equal(d["x"], x) for d in sets)
    assert x.shape == sets[0]["y"].shape == sets[0]["z"].shape == (500,)


def test_normal_poisson_moments():
    """z has mean βx and precision τ; y has mean exp z."""
    d = simulate.normal_poisson(np.random.default_rng(1), n=200_000, beta=0.5, sd=0.5)
    residual = d["z"] - 0.5 * d["x"]
    assert d["tau"] == pytest.approx(4)
    assert_allclose(residual.var(), 0.25, rtol=0.02)
    pearson = (d["y"] - np.exp(d["z"])) / np.exp(d["z"] / 2)
    assert abs(pearson.mean()) < 5 / np.sqrt(200_000)
    assert_allclose(pearson.var(), 1, rtol=0.03)


def test_random_slope_settings():
    """Ranges, shapes and a fixed design; r is x₁ plus noise of sd 0.4."""
    rng = np.random.default_rng(2)
    first = simulate.random_slope(rng)
    x, r = first["x"], first["r"]
    sets = [simulate.random_slope(rng, x=x, r=r) for _ in range(300)]
    for name, low, high in (("nu", 0.5, 4), ("tau", 0.2, 1), ("beta", 0, 3)):
        values = np.array([d[name] for d in sets])
        assert low <= values.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < values.max() <= high
    assert all(np.array_equal(d["x"], x) and np.array_equal(d["r"], r) for d in sets)
    assert (x.shape, r.shape, first["z"].shape) == ((300, 2), (300,), (30,))
    assert_array_equal(np.bincount(first["group"]), np.full(30, 10))
    assert_allclose((r - x[:, 0]).std(), 0.4, rtol=0.15)


def test_random_slope_moments():
    """Residuals have precision τ and the random slopes precision ν."""
    d = simulate.random_slope(np.random.default_rng(3), groups=20_000, per_group=5, nu=2, tau=0.5)
    residual = d["y"] - d["x"] @ d["beta"] - d["r"] * d["z"][d["group"]]
    assert_allclose(residual.var(), 2, rtol=0.03)
    assert_allclose(d["z"].var(), 0.5, rtol=0.05)


def test_gaussian_mixture_settings():
    """Two components in the plane with the study's covariances and weights, and 10000 rows."""
    d = simulate.gaussian_mixture(np.random.default_rng(6))
    assert d["X"].shape == (10_000, 2)
    assert_array_equal(d["means"], [[0, 0], [1, 1]])
    assert_allclose(d["covariances"][0], np.diag([1 / 9, 0.25]), rtol=1e-12)
    assert_allclose(d["covariances"][1], np.diag([0.1571, 0.3536]), atol=5e-5)
    assert_allclose(d["weights"], [3 / 7, 4 / 7], rtol=1e-12)


def test_scaled_mixture_settings():
    """Means k − 1, covariances 0.16 √k I, weights 3, 4, 5, … in proportion."""
    d = simulate.scaled_mixture(np.random.default_rng(7), 50, K=3, P=4)
    assert (d["X"].shape, d["z"].shape) == ((50, 4), (50,))
    assert_array_equal(d["means"], np.arange(3)[:, None] * np.ones(4))
    assert_allclose(d["covariances"], 0.16 * np.sqrt([1, 2, 3])[:, None, None] * np.eye(4))
    assert_allclose(d["weights"], np.array([3, 4, 5]) / 12)


@pytest.mark.parametrize("K", [None, 3])
def test_mixture_moments(K):
    """The rows of each component have its mean and covariance, and it has its share of them."""
    rng, n = np.random.default_rng(8), 200_000
    d = simulate.gaussian_mixture(rng, n) if K is None else simulate.scaled_mixture(rng, n, K, P=2)
    for k, weight in enumerate(d["weights"]):
        rows, cov = d["X"][d["z"] == k], d["covariances"][k]
        error = np.sqrt(np.diag(cov) / len(rows))
        assert abs(len(rows) - n * weight) < 5 * np.sqrt(n * weight * (1 - weight))
        assert np.all(np.abs(rows.mean(0) - d["means"][k]) < 5 * error)
        assert_allclose(np.cov(rows.T), cov, atol=0.02 * cov.max())


def test_same_seed_same_data():
    """Data follow from the generator alone."""
    one, two = (simulate.normal_poisson(np.random.default_rng(4)) for _ in range(2))
    assert_array_equal(one["y"], two["y"])


def test_impossible_requests_are_explained():
    """Rates too large for exact counts, and designs of the wrong length."""
    rng = np.random.default_rng(5)
    with pytest.raises(errors.InvalidData, match="Poisson rate"):
        simulate.normal_poisson(rng, beta=100.0)
    with pytest.raises(errors.InvalidData, match="make 300"):
        simulate.random_slope(rng, x=np.zeros((10, 2)))
