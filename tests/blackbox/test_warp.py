"""Coordinates in which funnels are straight: their Jacobians, and what is read off draws."""

from __future__ import annotations

import numpy as np
import pytest

from lrvb.blackbox.warp import find_warp


def hierarchy(n: int = 4000, seed: int = 0) -> np.ndarray:
    """Exact draws of μ, a log sd s, and three effects N(μ, e^2s) with data of precision 4 each."""
    rng = np.random.default_rng(seed)
    mu, s = rng.normal(2, 0.3, n), rng.normal(-1, 0.7, n)
    prior, J = np.exp(-2 * s), 4.0
    effects = [
        (prior * mu + J * y) / (prior + J) + rng.normal(size=n) / np.sqrt(prior + J)
        for y in (1.0, 3.0, 2.5)
    ]
    return np.column_stack([mu, s, *effects])


def test_a_hierarchy_is_found_and_straightened():
    """Effects follow the log sd with slope 1 from where e^−2s is J; what is left of it drives nothing."""
    x = hierarchy()
    warp = find_warp(x)
    np.testing.assert_array_equal(warp.slope, [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(warp.driver[2:], 1)
    np.testing.assert_allclose(
        warp.turn[2:], -0.5 * np.log(4.0), atol=0.7 / 2
    )  # a step of the grid
    assert find_warp(warp.inverse(x)) is None


def test_draws_without_a_funnel_are_left_as_they_are():
    """Correlated normal ones, and too few."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 6)) @ rng.normal(size=(6, 6))
    assert find_warp(x) is None
    assert find_warp(hierarchy(30)) is None


def test_there_and_back():
    """inverse ∘ forward is the identity."""
    x = hierarchy()
    warp = find_warp(x)
    np.testing.assert_allclose(warp.forward(warp.inverse(x)), x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_the_density_of_v_is_that_of_x_with_the_jacobian(at):
    """log p(v) = log p(x) + log |∂x/∂v|, and the gradient is its central difference."""
    x = hierarchy()
    warp = find_warp(x)
    v, h = warp.inverse(x[at : at + 1]), 1e-6

    def log_p(v):
        x = warp.forward(v)
        gradient = -np.sinh(x) + np.roll(x, 1, axis=1) + np.roll(x, -1, axis=1)
        value = -np.cosh(x).sum(axis=1) + (x * np.roll(x, 1, axis=1)).sum(axis=1)
        return warp.pulled_back(v, value, gradient), value

    (value, gradient), plain = log_p(v)
    steps = h * np.eye(v.shape[1])
    difference = [(log_p(v + e)[0][0] - log_p(v - e)[0][0])[0] / (2 * h) for e in steps]
    np.testing.assert_allclose(gradient[0], difference, rtol=1e-5, atol=1e-6)
    jacobian = [(warp.forward(v + e) - warp.forward(v - e))[0] / (2 * h) for e in steps]
    assert value - plain == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-6)
