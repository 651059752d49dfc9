"""The two-dimensional quadrature against densities whose integrals are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import gammaln

from lrvb.studies.reference.posterior import Marginal
from lrvb.studies.reference.quadrature import integrate, step_kernel


def marginal(grid, k):
    """Marginal of coordinate k of a lattice."""
    return Marginal(grid.weight, grid.points[:, k], grid.spacing[k], step_kernel)


def log_gamma_pair(shapes, shear):
    """Log density, unnormalised, of logs of independent Gammas, the second sheared by the first."""

    def log_density(u):
        a, b = u[:, 0], u[:, 1] - shear * u[:, 0]
        return shapes[0] * a - np.exp(a) + shapes[1] * b - np.exp(b)

    return log_density


def test_gaussian_is_integrated_to_rounding():
    """Integral, mean, covariance and distribution functions of a strongly correlated normal."""
    mean, cov = np.array([3.0, -1.0]), np.array([[4.0, -0.19], [-0.19, 0.01]])
    Q = np.linalg.inv(cov)
    grid = integrate(lambda u: -0.5 * ((u - mean) @ Q * (u - mean)).sum(1), np.zeros(2))
    log_integral = np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(cov)[1]
    assert_allclose(grid.log_integral, log_integral, atol=1e-11)
    center = grid.weight @ grid.points
    shift = grid.points - center
    assert_allclose(center, mean, atol=1e-11)
    assert_allclose((grid.weight[:, None] * shift).T @ shift, cov, rtol=1e-10)
    for k in (0, 1):
        side = stats.norm(mean[k], np.sqrt(cov[k, k]))
        for p in (1e-4, 0.2, 0.5, 0.99):
            assert_allclose(marginal(grid, k).cdf(side.ppf(p)), p, atol=1e-8)


@pytest.mark.parametrize("shapes", [(0.5, 1.0), (1.0, 30.0), (2.0, 2.0)])
@pytest.mark.parametrize("shear", [0.0, 0.4])
def test_skewed_tails_are_followed(shapes, shear):
    """Logs of Gammas: one tail is only exponential, and reaches tens of sds below the mode."""
    grid = integrate(log_gamma_pair(shapes, shear), np.zeros(2))
    assert_allclose(grid.log_integral, gammaln(shapes).sum(), atol=1e-10)
    u = grid.points.T - np.outer([0, shear], grid.points[:, 0])
    for power in (1, 2, 3):
        known = [np.exp(gammaln(a + power) - gammaln(a)) for a in shapes]
        assert_allclose(np.exp(power * u) @ grid.weight, known, rtol=1e-8)
    for p in (0.01, 0.3, 0.975):
        known = np.log(stats.gamma(shapes[0]).ppf(p))
        assert_allclose(marginal(grid, 0).cdf(known), p, atol=1e-6)


def test_distribution_function_of_a_sheared_coordinate():
    """The sum of a log Gamma and an independent normal, by one-dimensional integration."""

    def log_density(u):
        b = u[:, 1] - u[:, 0]
        return 3 * u[:, 0] - np.exp(u[:, 0]) - 0.5 * b**2

    grid = integrate(log_density, np.zeros(2))
    t = np.linspace(-15, 4, 4001)
    density = stats.gamma(3).pdf(np.exp(t)) * np.exp(t) * (t[1] - t[0])
    for c in (-1.0, 0.5, 3.0):
        assert_allclose(marginal(grid, 1).cdf(c), density @ stats.norm.cdf(c - t), atol=1e-7)


def test_a_kink_is_reported():
    """The trapezoid rule is not exact for a density with a kink, and the sublattices show it."""
    with pytest.raises(ArithmeticError, match="not converged"):
        integrate(lambda u: -np.abs(u[:, 0]) - 0.5 * (u**2).sum(1), np.full(2, 0.3), depth=12)


def test_not_a_number_is_reported():
    """A density that breaks down inside the lattice is refused."""

    def log_density(u):
        return np.where(u[:, 0] > 3, np.nan, -0.5 * (u**2).sum(1))

    with pytest.raises(ArithmeticError, match="not a number"):
        integrate(log_density, np.zeros(2))
