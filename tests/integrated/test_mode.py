"""A mode in round numbers: what rounding leaves of a search changes nothing that is made from it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lrvb.integrated.mode import Mode, differenced, rounded, steadied

A = np.array([[4.0, 1.0, 0.3], [1.0, 90.0, -2.0], [0.3, -2.0, 0.7]])
CENTER = np.array([1.3, -40.0, 2e-3])


def log_p(x):
    """Quadratic, and a little skewed."""
    away = x - CENTER
    return -((away @ A) * away).sum(1) / 2 + 0.02 * np.sin(away).sum(1)


def derivatives(x):
    away = x - CENTER
    gradient = -A @ away + 0.02 * np.cos(away)
    return float(log_p(x[None])[0]), gradient, -A - 0.02 * np.diag(np.sin(away))


@pytest.mark.parametrize("known", [None, derivatives])
def test_noise_of_a_search_leaves_no_trace(known):
    """Points and Hessians that differ in their ninth digits lead to the same bits."""
    found = []
    for noise in (0.0, 1e-9):
        off = noise * np.array([1.0, -2.0, 3.0])
        H = -A * (1 + noise)

        def near(x, off=off):
            return tuple(part * (1 + off[0]) for part in known(x))

        mode = Mode(CENTER + off, 0.0, H)
        found.append(steadied(log_p, mode, None if known is None else near))
        assert_array_equal(rounded(mode), found[0].x)
    assert_array_equal(found[0].x, found[1].x)
    assert_array_equal(found[0].hessian, found[1].hessian)


def test_round_numbers_are_near_and_curvature_is_there():
    """Within 1/64 sd; curvature by derivatives is that of differences, but for their own steps."""
    sd = np.diag(A) ** -0.5
    mode = Mode(CENTER, 0.0, -A)
    by_steps, known = steadied(log_p, mode), steadied(log_p, mode, derivatives)
    assert (np.abs(known.x - CENTER) < sd / 64).all()
    assert known.value == log_p(known.x[None])[0]
    assert_allclose(known.hessian, derivatives(known.x)[2], rtol=0, atol=2e-4 * A.max())
    unit = np.outer(sd, sd)
    assert_allclose(known.hessian * unit, by_steps.hessian * unit, atol=1e-3)
    assert_allclose(differenced(log_p, 1e-3)(known.x)[2], derivatives(known.x)[2], atol=1e-4)
