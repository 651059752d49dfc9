"""The gamma function's relatives above one."""

import numpy as np
from scipy.special import gammaln, psi, zeta

from lrvb.numerics.gamma import digamma_above_one, log_gamma_above_one

X = np.concatenate([np.linspace(1.0, 30.0, 4001), np.logspace(0.0, 15.0, 301)])


def test_digamma_and_trigamma_above_one():
    """ψ and ψ′(x) = ζ(2, x), to what the series leave at x + 6 ≥ 7."""
    first, second = digamma_above_one(X)
    np.testing.assert_allclose(first, psi(X), rtol=3e-13, atol=3e-13)
    np.testing.assert_allclose(second, zeta(2, X), rtol=3e-13)


def test_log_gamma_above_one():
    """Stirling's series leaves 691/360360/7¹¹ = 1e-12, near the zeros at 1 and 2 too."""
    np.testing.assert_allclose(log_gamma_above_one(X), gammaln(X), rtol=1e-14, atol=2e-12)
