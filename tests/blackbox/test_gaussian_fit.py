"""Gaussian fits on fixed draws, and their linear response, where the answers are known."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from blackbox.densities import density, gaussian
from lrvb.blackbox.gaussian import (
    FullRankObjective,
    fit_full_rank,
    fit_mean_field,
    normal_draws,
)
from lrvb.blackbox.kernel import Kernel, Values
from lrvb.blackbox.linear_response import (
    coordinate_covariance,
    mean_field_curvature,
    optimum_with_curvature,
    respond_full_rank,
    respond_mean_field,
)


def test_draws_have_exact_moments():
    """Mean zero, unit variances, and with four draws a dimension the unit covariance."""
    for n, d in ((64, 5), (64, 40), (256, 64)):
        z = normal_draws(n, d)
        np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-14)
        np.testing.assert_allclose((z**2).mean(axis=0), 1, rtol=1e-12)
        if n >= 4 * d:
            np.testing.assert_allclose(z.T @ z / n, np.eye(d), atol=1e-12)


def test_a_gaussian_is_its_own_answer():
    """Mean field has conditional sds, and linear response of either fit the covariance: prop:lrvb_mvn."""
    target, m, S = gaussian(6)
    kernel, values = Kernel(target), Values(target)
    q = fit_mean_field(kernel, np.zeros(6), np.eye(6))
    np.testing.assert_allclose(q.mean, m, atol=1e-3)  # the gradient is below 1e-4
    np.testing.assert_allclose(q.sd, 1 / np.sqrt(np.diag(np.linalg.inv(S))), rtol=1e-3)
    K = mean_field_curvature(kernel, q)
    np.testing.assert_allclose(coordinate_covariance(K, np.diag(q.sd)), S, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(respond_mean_field(q, K, values).Sigma, S, rtol=1e-6, atol=1e-6)
    objective = FullRankObjective(kernel)
    best, K = optimum_with_curvature(kernel, objective, fit_full_rank(objective, q.mean, np.eye(6)))
    np.testing.assert_allclose(best.L @ best.L.T, S, rtol=1e-2, atol=1e-2)  # residual below 1e-3
    answer = respond_full_rank(best, K, values)
    np.testing.assert_allclose(answer.Sigma, S, rtol=1e-2, atol=1e-2)


def test_the_elbo_of_a_gaussian_is_its_log_integral():
    """log ∫ exp(−½ xᵀPx) = ½ log det 2πS, which full rank attains."""
    target, _, S = gaussian(4)
    objective = FullRankObjective(Kernel(target))
    best = fit_full_rank(objective, np.zeros(4), np.eye(4))
    assert best.elbo == pytest.approx(0.5 * np.linalg.slogdet(2 * np.pi * S)[1], abs=1e-5)


def test_linear_response_is_the_derivative_of_the_mean():
    """eq:lrvb_derivative_defn: tilt log p by t·x₀, refit on the same draws, difference."""

    def log_p(x, t=0.0):
        return -jnp.exp(0.5 * x[0]) - 0.5 * jnp.cosh(x[0] + x[1]) - 0.1 * x @ x + t * x[0]

    def fitted(t):
        kernel = Kernel(density(lambda x: log_p(x, t), np.zeros(2)))
        objective = FullRankObjective(kernel)
        best = fit_full_rank(objective, np.zeros(2), np.eye(2), most=200)
        return kernel, *optimum_with_curvature(kernel, objective, best)

    h = 0.1
    slope = (fitted(h)[1].mean - fitted(-h)[1].mean) / (2 * h)
    _, best, K = fitted(0.0)
    answer = respond_full_rank(best, K, Values(density(log_p, np.zeros(2))))
    # The optimum is good to 1e-3 of an sd, so that the difference is to 1e-2; the draws are others.
    np.testing.assert_allclose(answer.Sigma[0], slope, rtol=0.03, atol=0.02)


def test_the_response_of_a_square_is_exact():
    """Of N(0, S), Var(x₀²) = 2S₀₀² and Cov(x₀, x₀²) = 0."""
    target, m, S = gaussian(3)
    shifted = density(lambda x: target.log_density(x + m), np.zeros(3))
    squares = density(lambda x: 0.0, np.zeros(3))
    object.__setattr__(squares, "values", lambda x: {"a": x[0], "b": x[0] ** 2})
    kernel = Kernel(shifted)
    objective = FullRankObjective(kernel)
    best = fit_full_rank(objective, np.zeros(3), np.linalg.cholesky(S))
    answer = respond_full_rank(
        best, optimum_with_curvature(kernel, objective, best)[1], Values(squares)
    )
    np.testing.assert_allclose(np.diag(answer.Sigma), [S[0, 0], 2 * S[0, 0] ** 2], rtol=1e-5)
    assert abs(answer.Sigma[0, 1]) < 1e-5
