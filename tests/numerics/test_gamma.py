"""Relatives of the gamma function, against SciPy's."""

import numpy as np
from scipy.special import zeta

from lrvb.numerics.gamma import trigamma_above_one


def test_trigamma_is_hurwitz_zeta():
    """ψ′(x) = ζ(2, x); the first term left out of the series is below 2e-13 of it from x + 6 = 7 on."""
    x = np.concatenate([np.linspace(1, 3, 500), np.geomspace(3, 1e8, 500)])
    np.testing.assert_allclose(trigamma_above_one(x), zeta(2, x), rtol=3e-13)
