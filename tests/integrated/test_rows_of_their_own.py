"""Rows of one zero or one with an effect each: a function made once, and the nested sums as referee."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_expit

from lrvb.integrated.density import Density
from lrvb.integrated.integration import integrate_path
from lrvb.integrated.logistic_normal import LogisticNormal
from lrvb.integrated.nested import Nested
from lrvb.integrated.regression import Regression
from lrvb.integrated.single_rows import SingleRows, Starred, are_single
from lrvb.integrated.terms import Term
from lrvb.likelihoods import BERNOULLI, POISSON
from lrvb.prior import HalfStudentT


def rows(binary=False, seed=0, levels=6, n=60, likelihood=BERNOULLI, each=1):
    """Zeros and ones in a few levels with an effect of every row, or of every two."""
    rng = np.random.default_rng(seed)
    g, x = np.arange(n) % levels, rng.normal(size=n)
    if binary:
        x = (x > 0).astype(float)
    y = (rng.random(n) < 0.6).astype(float)
    X = np.column_stack([np.ones(n), x])
    given = Regression.independent(
        Density(likelihood), (y,), X, np.zeros(n), np.zeros(2), np.full(2, 5.0)
    )
    own, half = rng.permutation(n) // each, (HalfStudentT(3, 2.5),)
    if each > 1:
        own = g * n + own
        own = np.unique(own, return_inverse=True)[1]
    return Nested(
        given,
        Term(g, np.ones((n, 1)), levels, half),
        Term(own, np.ones((n, 1)), int(own.max()) + 1, half),
    )


POINTS = np.array([[0.4, -0.3, -0.5, 0.2], [1.0, 0.5, 0.7, 1.6], [0.0, 0.0, -2.0, -2.5]])


@pytest.mark.parametrize("sd", [1e-3, 0.3, 1.0, 3.0, 20.0])
def test_log_p_is_the_integral(sd):
    """To 2e-7: series of degree 31 in τ, and of degree three between knots; beyond, exactly."""
    odds = LogisticNormal(sd)
    eta = np.array([-11.0, -5.0, -1.01, 0.0, 0.37, 2.0, 9.0]) * odds.kappa

    def p(at):
        def inside(u):
            return np.exp(log_expit(at + sd * u) - u**2 / 2) / np.sqrt(2 * np.pi)

        turn = -at / sd
        return sum(
            quad(inside, low, high, limit=400, epsabs=0, epsrel=1e-10)[0]
            for low, high in [(-12, np.clip(turn, -11, 11)), (np.clip(turn, -11, 11), 12)]
        )

    np.testing.assert_allclose(odds.log_p(eta), np.log([p(at) for at in eta]), atol=2e-7)


@pytest.mark.parametrize("sd", [0.3, 3.0, 40.0])
def test_slopes_are_differences(sd):
    """Central differences over a hundredth of κ: O(h²) of derivatives that are of order 1/κᵏ⁺²."""
    odds = LogisticNormal(sd)
    eta, h = np.linspace(-6, 6, 31) * odds.kappa, 0.01 * odds.kappa
    value, first, second = odds.slopes(eta)
    np.testing.assert_allclose(value, odds.log_p(eta), atol=1e-6)
    up, down = odds.slopes(eta + h)[0], odds.slopes(eta - h)[0]
    assert np.abs((up - down) / (2 * h) - first).max() < 1e-4 / odds.kappa
    up, down = odds.slopes(eta + h)[1], odds.slopes(eta - h)[1]
    assert np.abs((up - down) / (2 * h) - second).max() < 1e-3 / odds.kappa**2


def test_several_sds_have_a_part_each():
    """As each alone, within knots and beyond them."""
    sds = np.array([0.01, 0.7, 4.0])
    eta = np.random.default_rng(0).normal(size=(3, 5, 4)) * 12
    together = LogisticNormal(sds)
    for i, sd in enumerate(sds):
        alone = LogisticNormal(sd)
        np.testing.assert_allclose(together.log_p(eta)[i], alone.log_p(eta[i]), rtol=1e-12)
        for part, own in zip(together.slopes(eta, 3), alone.slopes(eta[i], 3), strict=True):
            np.testing.assert_allclose(part[i], own, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("binary", [False, True])
def test_sums_and_moments_are_the_nested_ones(binary):
    """Both to what their nodes leave: 1e-2 of a log density at most, of which sums here have 1e-4."""
    nested = rows(binary)
    fast = SingleRows(nested)
    assert (len(nested.of) > fast.N) == binary
    nested.choose_nodes(POINTS)
    slow = nested.finer().evaluate(POINTS)
    fast.choose_nodes(POINTS, 1e-4)
    found = fast.evaluate(POINTS)
    np.testing.assert_allclose(found.value, slow.value, atol=5e-3)
    np.testing.assert_allclose(fast.log_density(POINTS), found.value, atol=1e-9)
    np.testing.assert_allclose(found.first, slow.first, atol=3e-3)
    np.testing.assert_allclose(found.second, slow.second, rtol=3e-3, atol=1e-3)
    assert (fast.error(POINTS) < 1e-2).all()


@pytest.mark.parametrize("binary", [False, True])
def test_derivatives_are_those_of_the_nested_sums(binary):
    """Those of the nested sums are exact for their nodes, here twice as dense as they need be."""
    nested = rows(binary)
    nested.choose_nodes(POINTS)
    fast = SingleRows(nested)
    for point in POINTS[:2]:
        slow, found = nested.finer().derivatives(point), fast.derivatives(point)
        np.testing.assert_allclose(found[1], slow[1], atol=5e-3)
        np.testing.assert_allclose(found[2], slow[2], atol=2e-2)


def test_other_coordinates_have_the_same_density():
    """p(θ*) = p(θ) |∂θ/∂θ*|, whose Jacobian is differenced; derivatives by the chain rule likewise."""
    fast = SingleRows(rows())
    fast.choose_nodes(POINTS, 1e-6)
    other, h = Starred(fast), 1e-4
    np.testing.assert_allclose(other.stated(other.starred(POINTS)), POINTS, atol=1e-12)
    E = np.eye(4)
    for point in other.starred(POINTS[:2]):
        J = (other.stated(point + h * E) - other.stated(point - h * E)) / (2 * h)
        volume = np.linalg.slogdet(J)[1]
        whole = fast.log_density(other.stated(point[None])) + volume
        np.testing.assert_allclose(other.log_density(point[None]), whole, atol=1e-6)
        value, gradient, H = other.derivatives(point)
        assert value == pytest.approx(float(whole[0]), abs=1e-6)
        step = 1e-2
        up, down = (
            np.array([other.derivatives(point + side * step * e)[1] for e in E]) for side in (1, -1)
        )
        values = [other.log_density(point + side * step * E) for side in (1, -1)]
        np.testing.assert_allclose((values[0] - values[1]) / (2 * step), gradient, atol=3e-3)
        np.testing.assert_allclose((up - down) / (2 * step), H, atol=2e-2)


def test_only_rows_that_are_one_zero_or_one_each_are_meant():
    """Counts, and levels of two rows, are summed as before."""
    assert are_single(rows())
    assert not are_single(rows(each=2))
    assert not are_single(rows(likelihood=POISSON))


def test_levels_are_those_of_all_draws():
    """Moments at some draws, carried to all by κ and the outer sd: within 3 % of those at every draw."""
    inside = rows(levels=20, n=400)
    found = integrate_path(inside)
    assert found.near is not None
    exact = found.near.evaluate(found.theta)
    w = found.weighted.weights
    effects = inside.unfold(found.theta, w, w @ exact.first, w @ exact.second)
    for some, every in zip(found.effects, effects, strict=True):
        np.testing.assert_allclose(some.sd, every.sd, rtol=0.03)
        assert np.abs(some.mean - every.mean).max() < 0.03 * every.sd.min()
