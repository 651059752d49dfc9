"""Linear response along axes: exact where log p is quadratic, and full rank's own where axes are all."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from blackbox.densities import density, gaussian
from lrvb.blackbox.axes_response import along_axes, optimum_along_axes, respond_along_axes
from lrvb.blackbox.gaussian import FullRank, FullRankObjective, climb_full_rank, fit_full_rank
from lrvb.blackbox.kernel import Kernel, Values
from lrvb.blackbox.linear_response import optimum_with_curvature, respond_full_rank


def test_a_gaussian_is_its_own_answer():
    """prop:lrvb_mvn, of x and of the square of its first entry."""
    target, m, S = gaussian(6)
    centred = density(lambda x: target.log_density(x + m), np.zeros(6))
    object.__setattr__(centred, "values", lambda x: {"x": x, "square": x[0] ** 2})
    kernel = Kernel(centred)
    objective = FullRankObjective(kernel)
    begun = FullRank(np.zeros(6), np.linalg.cholesky(S), 0.0, 0.0, 0, ())
    best, K = optimum_along_axes(kernel, objective, begun)
    answer = respond_along_axes(best, K, Values(centred))
    np.testing.assert_allclose(answer.Sigma[:6, :6], S, rtol=1e-5, atol=1e-5)
    # A square has parts off the axes, whose share comes from 2048 quasi-random draws.
    assert answer.Sigma[6, 6] == pytest.approx(2 * S[0, 0] ** 2, rel=0.02)


def test_independent_coordinates_answer_as_at_full_rank():
    """A product density couples no two axes: both responses are one formula on other draws."""
    target = density(lambda x: (-jnp.exp(0.5 * x) + 0.3 * x - 0.1 * x**2).sum(), np.zeros(3))
    kernel, values = Kernel(target), Values(target)
    objective = FullRankObjective(kernel)
    begun = fit_full_rank(objective, np.zeros(3), np.eye(3))
    best, K = optimum_with_curvature(kernel, objective, begun)
    whole = respond_full_rank(best, K, values)
    axes = respond_along_axes(*optimum_along_axes(kernel, objective, begun), values)
    # 64 against 256 quasi-random draws of a smooth function.
    np.testing.assert_allclose(np.diag(axes.Sigma), np.diag(whole.Sigma), rtol=0.02)
    np.testing.assert_allclose(axes.mean, whole.mean, atol=0.01)


def test_climbing_reaches_the_optimum_of_newtons_method():
    """Two ascents of one objective on the same draws end at the same Gaussian."""

    def log_p(x):
        return -jnp.exp(0.5 * x[0]) - 0.5 * jnp.cosh(x[0] + x[1]) - 0.1 * x @ x

    kernel = Kernel(density(log_p, np.zeros(2)))
    objective = FullRankObjective(kernel)
    newton, _ = optimum_with_curvature(
        kernel, objective, fit_full_rank(objective, np.zeros(2), np.eye(2), most=200)
    )
    begun = FullRank(np.full(2, 0.5), 2 * np.eye(2), 0.0, 1.0, 0, ())
    climbed = climb_full_rank(objective, begun)
    assert climbed.converged
    assert climbed.elbo == pytest.approx(newton.elbo, abs=1e-4)  # residuals below 1e-2, squared
    np.testing.assert_allclose(climbed.mean, newton.mean, atol=0.02)


def test_axes_are_those_of_the_coordinates():
    """LLᵀ stays as it is, and L is the root that is symmetric once sds are taken out."""
    L = np.linalg.cholesky(gaussian(4)[2])
    turned = along_axes(FullRank(np.zeros(4), L, 0.0, 0.0, 0, ())).L
    S = L @ L.T
    np.testing.assert_allclose(turned @ turned.T, S, rtol=1e-10)
    half = turned / np.sqrt(np.diag(S))[:, None]
    np.testing.assert_allclose(half, half.T, atol=1e-12)
