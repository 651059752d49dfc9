"""The row integral over z_n against adaptive quadrature."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

from lrvb.studies.reference.poisson_rows import row_moments


def adaptive(mu, tau, y):
    """Log integral, mean and variance of z by scipy's adaptive rule about the modal region."""
    z = np.linspace(-200, 30, 230001)
    log_f = stats.norm.logpdf(z, mu, tau**-0.5) + stats.poisson.logpmf(y, np.exp(z))
    top, peak = log_f.max(), z[log_f.argmax()]
    inside = z[log_f > top - 40]

    def moment(power):
        def integrand(t):
            log_value = stats.norm.logpdf(t, mu, tau**-0.5) + stats.poisson.logpmf(y, np.exp(t))
            return (t - peak) ** power * np.exp(log_value - top)

        pairs = pairwise(np.linspace(inside[0], inside[-1], 9))
        return sum(quad(integrand, a, b, epsabs=0, epsrel=1e-11, limit=200)[0] for a, b in pairs)

    zeroth, first, second = moment(0), moment(1), moment(2)
    mean = first / zeroth
    return top + np.log(zeroth), peak + mean, second / zeroth - mean**2


@pytest.mark.parametrize(
    ("mu", "tau", "y"),
    [(0, 1, 0), (-9, 11, 0), (2, 1, 0), (9, 2, 15000), (0.5, 0.01, 1), (-3, 0.01, 0), (1, 200, 7)],
)
# quad warns that it has reached rounding, which is what it is asked for.
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_row_agrees_with_adaptive_quadrature(mu, tau, y):
    """Common rows, empty rows far from their mean, huge counts, and nearly flat priors."""
    log_integral, mean, var = adaptive(mu, tau, y)
    args = [np.array([float(value)]) for value in (mu, tau, y)]
    found = row_moments(*args, refine=1, depth=32)
    assert_allclose(found.log_integral, log_integral, atol=1e-9)
    assert_allclose(found.mean, mean, atol=1e-9 * np.sqrt(var))
    assert_allclose(found.var, var, rtol=1e-8)


def test_doubling_the_nodes_changes_nothing():
    """A wide sweep of rows, with steps halved and tails twice as deep."""
    rng = np.random.default_rng(0)
    mu, tau = rng.uniform(-10, 10, 5000), 10 ** rng.uniform(-4, 3, 5000)
    y = rng.poisson(np.exp(np.minimum(mu + rng.standard_normal(5000), 11)))
    one = row_moments(mu, tau, y, refine=1, depth=32)
    two = row_moments(mu, tau, y, refine=2, depth=64)
    assert_allclose(one.log_integral, two.log_integral, atol=1e-9)
    assert_allclose((one.mean - two.mean) / np.sqrt(two.var), 0, atol=1e-9)
    assert_allclose(one.var, two.var, rtol=1e-8)


def test_probabilities_of_all_counts_sum_to_one():
    """The normalising constants: Σ_y p(y | μ, τ) = 1."""
    y = np.arange(5000.0)
    total = np.exp(row_moments(np.array(0.7), np.array(2.0), y, refine=1, depth=32)[0]).sum()
    assert_allclose(total, 1, atol=1e-10)
