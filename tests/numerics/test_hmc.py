"""Hamiltonian Monte Carlo against densities whose moments are known."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from lrvb.numerics.hmc import (
    ControlVariates,
    average,
    control_variates,
    hmc,
    normal_scores,
    r_hat,
    steady,
)

COV = np.array([[4.0, 1.2, 0.0], [1.2, 1.0, -0.3], [0.0, -0.3, 0.25]])


def normal(x):
    """A correlated normal with mean 2 in every coordinate."""
    white = np.linalg.solve(COV, (x - 2.0).T).T
    return -0.5 * ((x - 2.0) * white).sum(axis=1), -white


@pytest.mark.parametrize("scale", [1.0, 1.7], ids=["whitened", "whitened badly"])
def test_a_normal(scale):
    """Means and variances within four errors, from the spread of 64 chains; chains agree."""
    rng = np.random.default_rng(0)
    root = scale * np.linalg.cholesky(COV)
    start = 2.0 + rng.normal(size=(64, 3)) @ root.T
    chains = hmc(normal, start, np.full(3, 2.0), root, rng)
    assert chains.x.shape == (25, 64, 3)
    assert 0.6 < chains.acceptance <= 1.0
    assert r_hat(chains.x).max() < 1.05
    for values, exact in ((chains.x, 2.0), ((chains.x - 2.0) ** 2, np.diag(COV))):
        averages = values.mean(axis=0)
        error = averages.std(axis=0, ddof=1) / 8
        assert (np.abs(averages.mean(axis=0) - exact) < 4 * error).all()


def test_a_density_with_an_edge():
    """Exponential in log x: where the value is −∞ every step is rejected."""

    def target(u):
        inside = u[:, 0] < 3.0
        value = np.where(inside, u[:, 0] - np.exp(u[:, 0]), -np.inf)
        return value, np.where(inside[:, None], 1 - np.exp(u), 0.0)

    rng = np.random.default_rng(1)
    chains = hmc(target, rng.normal(size=(64, 1)) - 0.6, np.full(1, -0.58), np.eye(1) * 1.2, rng)
    x = np.exp(chains.x[..., 0])
    averages = x.mean(axis=0)
    assert abs(averages.mean() - 1) < 4 * averages.std(ddof=1) / 8
    assert chains.x.max() < 3.0


def test_r_hat_sees_chains_apart():
    """One for independent draws, and far from one where half of the chains are three sds away."""
    x = np.random.default_rng(2).normal(size=(50, 20, 2))
    assert (np.abs(r_hat(x) - 1) < 0.03).all()
    x[:, :10, 0] += 3.0
    assert r_hat(x)[0] > 1.3
    assert r_hat(np.ones((10, 4, 1)))[0] == 1.0


def test_normal_scores():
    """The same for every increasing function, normal quantiles in order; equal values have one score."""
    x = np.random.default_rng(3).normal(size=(5, 4, 2))
    x[..., 1] = np.round(x[..., 1])
    scores = normal_scores(x)
    np.testing.assert_allclose(normal_scores(np.exp(x)), scores)
    expected = [NormalDist().inv_cdf((k + 0.5) / 20) for k in range(20)]
    np.testing.assert_allclose(np.sort(scores[..., 0].ravel()), expected)
    for value in np.unique(x[..., 1]):
        assert np.ptp(scores[..., 1][x[..., 1] == value]) == 0
    np.testing.assert_array_equal(normal_scores(np.ones((3, 2, 1))), np.zeros((3, 2, 1)))


def test_what_a_regression_leaves_is_as_large_as_new_draws_would_have_it():
    """Noise that hangs on nothing keeps its variance, however many functions are fitted to it."""
    rng = np.random.default_rng(4)
    n, k = 60, 40
    Q = np.linalg.qr(rng.standard_normal((n, k)))[0]
    left = ControlVariates(np.full(n, 1 / n), Q).residual(rng.standard_normal((n, 4000)))
    variance = (left**2).mean()
    np.testing.assert_allclose(variance, 1, atol=5 * np.sqrt(2 / (4000 * (n - k))))


def test_control_variates_leave_no_error_of_a_normal():
    """Means, squares and products of a normal's draws are exact; other functions are improved."""
    rng = np.random.default_rng(0)
    y = rng.standard_normal((500, 3)) + 0.1  # whitened with an error: Stein's functions do not mind
    controls = control_variates(y, -y)
    F = np.column_stack([y, y**2, y[:, :1] * y[:, 1:2]])
    np.testing.assert_allclose(controls.weights @ F, [0, 0, 0, 1, 1, 1, 0], atol=1e-10)
    np.testing.assert_allclose(controls.residual(F), 0, atol=1e-10)
    assert controls.weights.sum() == pytest.approx(1)
    cube = np.exp(0.5 * y[:, :1])
    assert controls.residual(cube).var() < 0.05 * cube.var()


def test_gradients_come_with_the_draws():
    """They are those of log p at the draws, whatever the whitening."""
    S = np.array([[2.0, 1.0], [1.0, 3.0]])
    P = np.linalg.inv(S)

    def target(x):
        return -0.5 * np.einsum("ni,ij,nj->n", x, P, x), -x @ P

    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(S)
    chains = hmc(target, rng.normal(size=(16, 2)), np.ones(2), root, rng, keep=5, jitter=0.8)
    np.testing.assert_allclose(chains.gradient, -chains.x @ P, atol=1e-10)


def test_a_constant_is_known():
    """1.365… at every draw: its rounding is no disagreement of chains, and no error of an average."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 16, 2))
    g = np.column_stack([x.reshape(-1, 2)[:, 0], np.full(800, 1.3656351)])
    found = average(x, -x, g)
    assert found.sound
    assert found.mean_error[1] == found.sd_error[1] == found.plain_error[1] == 0
    assert r_hat(g.reshape(50, 16, 2))[1] == 1


def test_what_rounding_makes_of_a_constant_is_one():
    """Two runs, each with a constant of its own rounding, are constant together; small spreads stay."""
    g = np.array([[1.0, 1.0], [1 - 2e-16, 1 + 1e-9]])
    assert np.ptp(steady(g)[:, 0]) == 0
    np.testing.assert_array_equal(steady(g)[:, 1], g[:, 1])
