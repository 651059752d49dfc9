"""What sums over levels leave out beyond the ends of their grids."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_less
from scipy.stats import norm

from lrvb.integrated.factor_nodes import beyond


@pytest.mark.parametrize("end", [1.0, 2.0, 4.0])
def test_the_tails_of_a_normal_are_below_the_bound(end):
    """Φ(−end) on either side, from nodes within ±end: a log-concave tail falls at least geometrically."""
    z, step = np.linspace(-end, end, 201, retstep=True)
    bound = beyond(norm.pdf(z)[None, None] * step)[0, 0]
    left_out = 2 * norm.sf(end)
    # φ/λ with λ = −(log φ)′ at the end, and the last node itself
    assert left_out < bound < 2 * norm.pdf(end) * (1 / (end - step) + 2 * step)


def test_two_axes_have_a_tail_each():
    """P(|z_i| > 2 for some i) is below the sum of both margins' tails."""
    z, step = np.linspace(-2, 2, 81, retstep=True)
    P = np.multiply.outer(norm.pdf(z), norm.pdf(z)) * step**2
    inside = (2 * norm.cdf(2) - 1) ** 2
    assert 1 - inside < beyond(P[None, None])[0, 0] + 1e-12


def test_an_end_before_the_mode_is_far_too_near():
    """Where the density still rises at an end, nothing bounds what is beyond: the bound is large."""
    z = np.linspace(-5, -1, 41)
    P = norm.pdf(z)[None, None]
    assert_array_less(10 * P.sum(-1), beyond(P))
