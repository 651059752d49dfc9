"""The gamma function's relatives above one."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import gammaln, psi, zeta

from lrvb.numerics.gamma import digamma_above_one, log_gamma_above_one, log_rising

X = np.concatenate([np.linspace(1.0, 30.0, 4001), np.logspace(0.0, 15.0, 301)])


def test_digamma_and_trigamma_above_one():
    """ψ and ψ′(x) = ζ(2, x), to what the series leave at x + 6 ≥ 7."""
    first, second = digamma_above_one(X)
    np.testing.assert_allclose(first, psi(X), rtol=3e-13, atol=3e-13)
    np.testing.assert_allclose(second, zeta(2, X), rtol=3e-13)


def test_log_gamma_above_one():
    """Stirling's series leaves 691/360360/7¹¹ = 1e-12, near the zeros at 1 and 2 too."""
    np.testing.assert_allclose(log_gamma_above_one(X), gammaln(X), rtol=1e-14, atol=2e-12)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 1), (3,), ()], ids=str)
def test_log_rising_factorials(shape):
    """log Γ(s + y)/Γ(s) with 30 digits, however large s is, and of counts too large to add up.

    Adding y logarithms leaves y roundings; two of Γ of 1e6 leave 1e7 of them.
    """
    s = np.array([1.5, 0.01, 1e6])[: int(np.prod(shape))].reshape(shape)
    for y in ([0.0, 1.0, 7.0], [0.0, 3.0, 1e5]):
        counts = np.array(y)
        found = log_rising(counts, s)
        assert found.shape == np.broadcast_shapes(counts.shape, s.shape)
        with mp.workdps(30):
            exact = [
                float(mp.loggamma(mp.mpf(a) + mp.mpf(b)) - mp.loggamma(mp.mpf(a)))
                for a, b in np.broadcast(s, counts)
            ]
        np.testing.assert_allclose(found.reshape(-1), exact, rtol=1e-12, atol=4e-9)
