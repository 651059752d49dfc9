"""Draws of every family, their coordinates and the densities of these."""

from __future__ import annotations

import numpy as np
from family_cases import SCALE
from family_values import (
    assert_mean,
    drawn,
    evaluated,
    every_drawable_case,
    every_typical_case,
    flat_eta,
)
from numpy.testing import assert_allclose

from lrvb import (
    Wishart,
)

# ---- draws --------------------------------------------------------------------------------


@every_typical_case
def test_draws_have_the_stated_moments(case):
    """E T = m and Cov T = V = CCᵀ."""
    _, m, C, _ = evaluated(case)
    _, T = drawn(case)
    assert_mean(T, m)
    centred = T - m
    assert_mean(centred[:, :, None] * centred[:, None, :], C @ C.T)


@every_typical_case
def test_entropy_is_minus_expected_log_density(case):
    """S = −E_q[η·T − A]."""
    A, _, _, S = evaluated(case)
    _, T = drawn(case)
    assert_mean(A - T @ flat_eta(case), S)


@every_drawable_case
def test_unconstrained_coordinates(case):
    """U = mean + W(T − m) + a rest uncorrelated with T, of covariance R; `constrain` inverts it."""
    family = case.family
    _, m, _, _ = evaluated(case)
    x, T = drawn(case)
    u = case.coordinates(x, case.params)
    center, W, R = family.unconstrained(case.eta)
    for array in (center, W, R):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
    assert W.shape == (u.shape[1], family.size)
    assert_allclose(family.constrain(case.eta, u), x, rtol=1e-8)
    assert_mean(u, center)
    rest = (u - center) - (T - m) @ W.T
    assert_mean(rest[:, :, None] * (T - m)[:, None, :], 0.0)
    assert_mean(rest[:, :, None] * rest[:, None, :], R)
    assert np.linalg.eigvalsh(R).min() > -1e-12


@every_drawable_case
def test_coordinates_are_carried_to_another_member(case):
    """The same variables, whatever the η by which a family measures its coordinates."""
    family, x = case.family, drawn(case)[0][:40]
    u = case.coordinates(x, case.params)
    other = family.unflatten(0.5 * (flat_eta(case) + np.asarray(family.flatten(family.start()))))
    assert_allclose(family.constrain(other, family.carried(case.eta, other, u)), x, rtol=1e-8)


@every_drawable_case
def test_log_jacobian_integrates_the_density(case):
    """∂θ/∂v by differences in the contrasts v of u, or in u itself: its log determinant."""
    family, eta = case.family, case.eta
    x, _ = drawn(case)
    u = case.coordinates(x, case.params)[:40]
    A = family.contrasts()
    v = u if A is None else u @ A.T
    k, h = v.shape[1], 1e-5
    assert_allclose(family.constrain(eta, family.lift(v)), x[:40], rtol=1e-8)

    def coordinates(v):
        """The entries that have a Lebesgue measure: of shares, all but the last."""
        value = family.constrain(eta, family.lift(v))
        if value.ndim == 3:
            return value[(slice(None), *np.triu_indices(value.shape[1]))]
        return value.reshape(len(v), -1)[:, :k]

    steps = h * np.eye(k)
    J = np.stack([(coordinates(v + s) - coordinates(v - s)) / (2 * h) for s in steps], axis=2)
    expected = np.linalg.slogdet(J)[1]
    assert_allclose(family.log_jacobian(eta, family.lift(v)), expected, atol=1e-6)


@every_drawable_case
def test_statistics_are_inverted(case):
    """The variable from T(x)."""
    x, _ = drawn(case)
    assert_allclose(case.family.from_statistics(case.family.statistics(x)), x, rtol=1e-12)


def test_wishart_coordinates_at_many_degrees_of_freedom():
    """R shrinks like 1/ν: at ν = 1e8 it is still positive and T explains nearly everything."""
    family = Wishart(3)
    _, W, R = family.unconstrained(family.from_params(dof=1e8, scale=SCALE))
    assert np.all(np.linalg.eigvalsh(R) > -1e-24)
    assert_allclose(np.diag(R)[3:], np.array([0.5, 0.5, 1.5]) / 1e8, rtol=1e-6)
    assert np.all(np.isfinite(W))
