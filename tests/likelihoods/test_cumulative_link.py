"""Expected categories averaged over η, by adaptive quadrature of the same definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from lrvb.likelihoods import likelihood_of

GIVEN = {"threshold[1]": -1.0, "threshold[2]": 0.2, "threshold[3]": 1.5}


def _averaged(f: Callable[[float], float], mean: float, variance: float) -> float:
    """E f over a normal variable, from ten sds below to ten above."""
    if variance == 0:
        return f(mean)
    sd = np.sqrt(variance)
    ends = mean - 10 * sd, mean + 10 * sd
    return float(quad(lambda x: f(x) * norm.pdf(x, mean, sd), *ends, epsabs=1e-11)[0])


@pytest.mark.parametrize("own", [0.0, 0.5])
def test_moments_of_the_expected_category(own: float) -> None:
    """Mean and sd over η ~ N(m, v) of E[1 + Σ P(y > k | η + e)], e ~ N(0, own)."""
    likelihood, m, v = likelihood_of("cumulative"), 0.4, 0.8

    def at(eta: float) -> float:
        return float(likelihood.mean(np.array([eta]), GIVEN)[0])

    def category(eta: float) -> float:
        return _averaged(at, eta, own)

    first = _averaged(category, m, v)
    second = _averaged(lambda eta: category(eta) ** 2, m, v)
    mean, sd = likelihood.mean_moments(np.array([m]), np.array([v]), np.array([own]), GIVEN)
    assert_allclose(mean, first, rtol=1e-6)
    assert_allclose(sd, np.sqrt(second - first**2), rtol=1e-5)
