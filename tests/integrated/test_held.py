"""Sums at nodes that stay are those of the rows at any θ, and far modes are found on the way to them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from small import regression, sloped

from lrvb.integrated.held import MOST, Held, can_hold
from lrvb.integrated.importance import resampled
from lrvb.integrated.integration import integrate_path
from lrvb.integrated.slopes import Slopes

LEVELS, SIZE = 40, 7


def patients(family: str = "bernoulli", treated: bool = True) -> tuple[Slopes, np.ndarray]:
    """Zeros and ones at seven times, as a nail heals or not: sds of 6 and 0.8, most patients of one kind."""
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(LEVELS), SIZE)
    times = np.tile([0.0, 1, 2, 3, 6, 9, 12], LEVELS) + 0.3 * rng.random(len(codes))
    arm = (codes % 2 if treated else rng.integers(2, size=len(codes))).astype(float)
    X = np.column_stack([np.ones(len(codes)), times, arm, arm * times])
    z = rng.normal(size=(LEVELS, 2)) * [6.0, 0.8]
    eta = -2 - 0.6 * times + z[codes, 0] + z[codes, 1] * times
    rows = regression(family, np.clip(eta, -20, 3 if family == "poisson" else 20), X)
    theta = np.r_[-2, -0.6, 0, 0, np.log(6.0), np.log(0.8), 0.0]
    return Slopes(rows, sloped(codes, times, LEVELS)), theta


def test_modes_far_away_are_found():
    """The gradient at every group's mode is zero from any start: Newton's steps do not grow for ever."""
    inside, theta = patients()
    wide = np.array([theta, theta, theta])
    wide[1, 4:6] += 1.5
    wide[2, :2] += [6.0, 1.0]
    rows, (precision, _) = inside._rows_at(wide), inside._precision(wide)
    start = np.random.default_rng(0).normal(size=(3, LEVELS, 2)) * [10.0, 2.0]
    z, C = inside._modes(rows, precision, start, 1e-4)
    gradient = rows.slopes(z)[0] - z @ precision
    assert np.abs(np.einsum("ngij,ngi->ngj", C, gradient)).max() < 1e-3


@pytest.mark.parametrize("family", ["bernoulli", "binomial", "poisson"])
def test_held_sums_are_those_of_the_rows(family):
    """Both are trapezoid sums whose nodes were chosen to leave a hundredth of the log density, or less."""
    inside, theta = patients(family)
    assert can_hold(inside)
    spread = np.r_[0.8, 0.2, 1.0, 0.2, 0.3, 0.3, 0.3]
    points = np.vstack([theta, theta + 2 * np.diag(spread), theta - 2 * np.diag(spread)])
    inside.choose_nodes(points)
    held = Held(inside, points)
    away = theta + spread * np.random.default_rng(1).uniform(-1.5, 1.5, size=(6, 7))
    exact, found = inside.evaluate(away), held.evaluate(away)
    assert_allclose(found.value, exact.value, atol=3e-2)
    assert_allclose(held.log_density(away), found.value, rtol=1e-12)
    assert_allclose(found.first, exact.first, atol=2e-2)
    assert_allclose(found.second, exact.second, atol=2e-2 * exact.second.max())
    beyond = away[:1].copy()
    beyond[0, 4] = 50.0
    assert held.log_density(beyond)[0] == -np.inf


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
@pytest.mark.parametrize("axis", [4, 5])
def test_held_sums_say_where_they_are_too_coarse(family, axis):
    """Of sds far below those that nodes were made for, each point is right, or computed from the rows."""
    inside, theta = patients(family)
    spread = np.r_[0.8, 0.2, 1.0, 0.2, 0.3, 0.3, 0.3]
    points = np.vstack([theta, theta + 2 * np.diag(spread), theta - 2 * np.diag(spread)])
    inside.choose_nodes(points)
    held = Held(inside, points)
    small = np.repeat(theta[None], 25, axis=0)
    small[:, axis] -= np.linspace(0, 6, 25)
    small[:, 6] += np.linspace(-2, 2, 25)[np.random.default_rng(2).permutation(25)]
    exact, found = inside.evaluate(small), held.evaluate(small)
    wrong = np.abs(held._sums(small)[0] - exact.value)
    assert wrong.max() > 1  # nodes alone would be far off
    assert_allclose(
        found.value, exact.value, atol=4e-2
    )  # what is left out, and a hundredth of the rows'
    assert_allclose(held.log_density(small), found.value, rtol=1e-12)
    unsure = wrong > 4e-2
    assert_allclose(found.first[unsure], exact.first[unsure], rtol=1e-12)


def test_where_nodes_are_too_coarse_derivatives_are_those_of_the_rows():
    inside, theta = patients()
    small = theta.copy()
    small[5] -= 4
    inside.choose_nodes(np.array([theta, small]))
    held = Held(inside, theta[None])
    assert held.unsure(np.array([small, theta])).tolist() == [True, False]
    for found, exact in zip(held.derivatives(small), inside.derivatives(small), strict=True):
        assert_allclose(found, exact, rtol=1e-12)


def test_points_with_next_to_no_sd_do_not_ask_for_nodes_without_number():
    """Theirs would be e⁹ times as close along an axis; they are left to the rows."""
    inside, theta = patients()
    points = np.vstack([theta, theta + 0.5, theta])
    points[2, 4:6] -= 9
    inside.choose_nodes(points)
    held = Held(inside, points)
    assert sum(nodes.level.size for nodes in held.nodes) < MOST
    assert held.unsure(points).tolist() == [False, False, True]
    assert_allclose(held.log_density(points), inside.log_density(points), atol=3e-2)


def sparse(seed: int) -> Slopes:
    """Counts that are nearly all zero, in 24 groups of three to six rows with hardly any slopes."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(24), rng.integers(3, 7, 24))
    x = 1 + rng.normal(size=len(codes))
    eta = -2 + 0.5 * rng.normal(size=24)[codes]
    rows = regression("poisson", eta, np.column_stack([np.ones(len(codes)), x]), seed)
    return Slopes(rows, sloped(codes, x, 24))


@pytest.mark.parametrize("seed", [1, 2])
def test_slopes_that_may_vanish_are_drawn(seed):
    """Where most draws have an sd near zero nodes that stay save nothing, and the rows are asked."""
    found = integrate_path(sparse(seed))
    assert found.weighted.k_hat < 0.7
    assert found.weighted.ess > 0.2 * len(found.weighted.x)


def test_only_columns_of_whole_levels_can_be_held():
    """An arm that changes within a patient is no A_g of an intercept and a slope."""
    inside, _ = patients(treated=False)
    assert not can_hold(inside)
    inside, _ = patients()
    A = inside.within_groups()
    assert A is not None
    rebuilt = np.einsum("nq,nqp->np", inside.R, A[inside.groups.of])
    assert_allclose(rebuilt, inside.rows.X, atol=1e-9)


def test_nodes_that_cost_more_than_the_rows_are_not_used():
    """A lattice that suits the smallest sds has to reach as far as the largest ones."""
    inside, theta = patients()
    spread = np.r_[0.8, 0.2, 1.0, 0.2, 0.3, 0.3, 0.3]
    near = np.vstack([theta, theta + spread, theta - spread])
    far = near.copy()
    far[:, 4:6] = np.log([[1.0, 0.3], [3.0, 1.0], [0.2, 0.05]])
    inside.choose_nodes(near)
    assert Held(inside, near).saves(near)
    inside.choose_nodes(far)
    held = Held(inside, far)
    assert not held.saves(far)
    held.reach(far)  # at any price they are right, if slow
    assert_allclose(held.log_density(far), inside.log_density(far), atol=4e-2)


def test_wide_slopes_of_zeros_and_ones_are_summed():
    """log p(y, θ) at draws of the posterior is that of a dense grid over nine prior sds."""
    inside, _ = patients()
    found = integrate_path(inside, seed=1)
    assert found.node_error < 0.05
    assert found.weighted.k_hat < 0.7
    theta = found.theta[resampled(found.weighted.weights, 3)]
    e = np.linspace(-9, 9, 301)
    grid = np.stack(np.meshgrid(e, e, indexing="ij"), axis=-1).reshape(-1, 2)
    brute = inside._log_prior(theta)
    for i, point in enumerate(theta):
        root = np.linalg.cholesky(np.linalg.inv(inside._precision(point[None])[0][0]))
        z = grid @ root.T
        eta = inside.rows.predictor(point[None, :4])[0][:, None] + inside.R @ z.T
        columns = tuple(column[:, None] for column in inside.rows.columns)
        rows = inside.groups.sum(inside.rows.likelihood.log_p(columns, eta, []), axis=0)
        f = rows - (grid**2).sum(1) / 2
        each = logsumexp(f, axis=1) + 2 * np.log(e[1] - e[0]) - np.log(2 * np.pi)
        brute[i] += each @ inside.groups.counts
    assert_allclose(inside.log_density(theta), brute, atol=0.05)
