"""Smooth functions between the knots of a table."""

import numpy as np
import pytest

from lrvb.numerics.table import OFF, tabulated

RATES = np.array([[1.0], [1.3]])


def curve(x):
    """sin and sin 1.3x, whose sixth derivatives are below 1 and 1.3⁶ = 4.8."""
    return (np.sin(RATES * x),)


@pytest.mark.parametrize("step", [0.1, 0.05])
def test_polynomials_are_off_by_the_sixth_derivative(step):
    """A bound that is reached, each function having steps of its own."""
    x, steps = np.random.default_rng(0).uniform(-3, 4, size=(2, 1000, 3)), step * np.array([1, 0.7])
    (found,) = tabulated(x, curve, steps)
    exact = curve(x.reshape(2, -1))[0].reshape(x.shape)
    off = np.abs(found - exact).max((1, 2))
    for largest, rate, own in zip(off, RATES.ravel(), steps, strict=True):
        bound = OFF * own**6 * rate**6
        assert bound / 2 < largest < bound + 2e-15


def test_a_value_hangs_on_no_other_place():
    """Knots are where they are whatever is asked: of some places, and some functions, the same."""
    x = np.random.default_rng(1).uniform(-3, 4, size=(2, 5000))
    steps = np.array([0.05, 0.037])
    (whole,) = tabulated(x, curve, steps)
    some = np.sort(np.argsort(np.abs(x[1] - 0.3))[:2000])
    part = tabulated(x[1:, some], lambda knots: (np.sin(1.3 * knots),), steps[1:])
    np.testing.assert_allclose(part[0][0], whole[1, some], rtol=0, atol=1e-15)


def test_ends_are_within_and_few_places_need_no_table():
    """The first and the last place are within; with fewer places than knots, nobody gains."""
    x = np.linspace(0, 1, 400)[None]
    (found,) = tabulated(np.concatenate([x, x]), curve, np.full(2, 0.05))
    np.testing.assert_allclose(found[:, [0, -1]], curve(x[:, [0, -1]])[0], atol=1e-9)
    assert tabulated(x, curve, np.array([1e-3])) is None
    assert tabulated(np.array([[0.0, np.nan] * 500]), curve, np.array([0.1])) is None
