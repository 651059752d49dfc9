"""Natural splines against SciPy's."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline

from lrvb.integrated.spline import Spline


def test_splines_are_scipys_natural_ones():
    rng = np.random.default_rng(0)
    knots, values = np.linspace(-3, 3, 5), rng.normal(size=(5, 4))
    ours, theirs = Spline(knots, values), CubicSpline(knots, values, bc_type="natural")
    x = np.linspace(-3, 3, 41)
    assert_allclose(ours(x), theirs(x), atol=1e-13)
    assert_allclose(ours.slope(x), theirs(x, 1), atol=1e-12)
    assert_allclose(ours.second(x), theirs(x, 2), atol=1e-12)
