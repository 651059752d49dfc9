"""Expected log densities at a point are log densities: against SciPy, constants included."""

from __future__ import annotations

import numpy as np
import scipy.stats
from numpy.testing import assert_allclose

from lrvb import Gamma, MultivariateNormal, Normal, Wishart
from lrvb.models import densities
from lrvb.numerics.double import double


def test_densities_at_a_point():
    """For statistics T(x) of one x, E log p is log p(x)."""
    x, Lambda = np.array([0.3, -1.2]), np.array([[2.0, 0.4], [0.4, 0.7]])
    W = np.array([[0.9, 0.2], [0.2, 0.5]])
    with double():
        found = [
            densities.normal_log_density(Normal().statistics(np.array(0.7)), 0.2, 2.5),
            densities.spherical_log_density(MultivariateNormal.Stats(x, np.outer(x, x)), 2.5),
            densities.gamma_log_density(Gamma().statistics(np.array(0.7)), 3.5, 1.7),
            densities.wishart_log_density(Wishart(2).statistics(Lambda), 4.5, np.linalg.inv(W)),
        ]
    expected = [
        scipy.stats.norm(0.2, 2.5**0.5).logpdf(0.7),
        scipy.stats.norm(0, 2.5**0.5).logpdf(x).sum(),
        scipy.stats.gamma(3.5, scale=1 / 1.7).logpdf(0.7),
        scipy.stats.wishart(4.5, W).logpdf(Lambda),
    ]
    assert_allclose([float(f) for f in found], expected, rtol=1e-12)
