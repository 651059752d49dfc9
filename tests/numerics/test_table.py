"""Smooth functions between the knots of a table."""

import numpy as np
import pytest

from lrvb.numerics.table import tabulated

RATES = np.array([[1.0], [1.3]])


def curve(x):
    """sin and sin 1.3x, whose fourth derivatives are below 1 and 1.3⁴ = 2.9."""
    return (np.sin(RATES * x),)


@pytest.mark.parametrize("step", [0.1, 0.05])
def test_cubics_are_off_by_the_fourth_derivative(step):
    """step⁴/384 of it, and a slope off by step⁶/140 of the seventh, a quarter of a step long."""
    x = np.random.default_rng(0).uniform(-3, 4, size=(2, 500, 3))
    (found,) = tabulated(x, curve, step)
    exact = curve(x.reshape(2, -1))[0].reshape(x.shape)
    off = np.abs(found - exact).max((1, 2))
    for largest, rate in zip(off, RATES.ravel(), strict=True):
        bound = step**4 * rate**4 / 384 + step**7 * rate**7 / 560 + 1e-15
        assert bound / 2 < largest < bound


def test_ends_are_knots_and_few_places_need_no_table():
    """The first and the last place are within; with fewer places than knots, nobody gains."""
    x = np.linspace(0, 1, 400)[None]
    (found,) = tabulated(np.concatenate([x, x]), curve, 0.05)
    np.testing.assert_allclose(found[:, [0, -1]], curve(x[:, [0, -1]])[0], atol=1e-7)
    assert tabulated(x, curve, 1e-3) is None
    assert tabulated(np.array([[0.0, np.nan] * 500]), curve, 0.1) is None
