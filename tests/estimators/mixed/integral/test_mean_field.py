"""What mean field alone would say of an sd, where that has a closed form."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, polygamma

import lrvb
from lrvb.estimators.mixed.integral.mean_field import one_sd


@pytest.mark.parametrize("count", [2, 8, 300, 20_000])
@pytest.mark.parametrize("square", [1e-6, 1.0, 1e5])
def test_a_gamma_precision_stays_one(count: int, square: float) -> None:
    """λ ~ Gamma(a, b) and n effects with Σ E z² = s: q(λ) is Gamma(a + n/2, b + s/2), sd = λ^−½."""
    a, b = 1.5, 0.02 * square
    shape, rate = a + count / 2, b + square / 2
    mean = np.exp(gammaln(shape - 0.5) - gammaln(shape))
    sd = np.sqrt(rate) * np.sqrt(1 / (shape - 1) - mean**2)
    expected = sd, np.sqrt(shape) / rate, np.sqrt(polygamma(1, shape))
    # of the first 1/(n − 1) less a mean's square is left of one: rounding grows with the count
    assert_allclose(one_sd(lrvb.prior.Gamma(a, b), count, square), expected, rtol=1e-6)
