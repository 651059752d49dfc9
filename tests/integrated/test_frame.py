"""Sums over levels whose log integrand has several modes, against dense quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logsumexp
from small import intercepts, log_normal, sloped

from lrvb.integrated.choice import choose
from lrvb.integrated.density import Density
from lrvb.integrated.frame import Frame, Window, find_window, settle
from lrvb.integrated.levels import Levels
from lrvb.integrated.mode import differenced
from lrvb.integrated.nested import Nested
from lrvb.integrated.regression import Regression
from lrvb.integrated.slopes import Slopes
from lrvb.likelihoods import (
    HURDLE_NEGATIVE_BINOMIAL,
    ZERO_INFLATED_NEGATIVE_BINOMIAL,
    ZERO_INFLATED_POISSON,
    Likelihood,
)
from lrvb.prior import Beta, HalfStudentT

FAMILIES = [ZERO_INFLATED_POISSON, ZERO_INFLATED_NEGATIVE_BINOMIAL, HURDLE_NEGATIVE_BINOMIAL]


def rows_of(family: Likelihood, y: np.ndarray, x: np.ndarray) -> Regression:
    """Counts with an intercept and a slope, and the family's own parameters."""
    priors = {"shape": HalfStudentT(3, 10), "zi": Beta(1, 1), "hurdle": Beta(1, 1)}
    return Regression.independent(
        Density(family),
        (y,),
        np.column_stack([np.ones(len(y)), x]),
        np.zeros(len(y)),
        np.array([1.0, 0.0]),
        np.full(2, 3.0),
        tuple(priors[own.name] for own in family.dispersions),
    )


def counts(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six groups: ordinary ones, zeros alone, and zeros beside counts that contradict them."""
    rng = np.random.default_rng(seed)
    groups = [
        rng.poisson(3.0, 7),
        np.zeros(9),
        np.r_[np.zeros(30), 40.0],
        np.r_[np.zeros(4), rng.poisson(60.0, 12)],
        np.ones(3),
        np.array([0.0]),
    ]
    y = np.concatenate(groups).astype(float)
    g = np.repeat(np.arange(6), [len(part) for part in groups])
    return y, g, 0.3 * rng.normal(size=len(y))


def points(family: Likelihood) -> list[np.ndarray]:
    """θ's with wide and narrow effects, rare and frequent zeros, small and large shapes."""
    tails = {1: [(-2.0,), (0.5,), (2.5,)], 2: [(0.3, -1.5), (-1.0, 0.5), (2.0, 1.0)]}
    found = []
    for tail in tails[len(family.dispersions)]:
        found += [np.r_[1.2, 0.4, log_sd, tail] for log_sd in (-1.5, 0.3, 1.2)]
    return found


def dense(rows: Regression, g: np.ndarray, theta: np.ndarray) -> float:
    """log p(y | θ) by 4,001 nodes of every level's effect."""
    sd, total = np.exp(theta[2]), 0.0
    z = np.linspace(-25, 25, 4_001) * sd
    phi = [float(part[0]) for part in rows.phi(theta[None, 3:])]
    for level in np.unique(g):
        at = np.flatnonzero(g == level)
        eta = (rows.X[at] @ theta[:2])[:, None] + z
        log_p = rows.likelihood.log_p((rows.columns[0][at][:, None],), eta, phi).sum(0)
        total += logsumexp(log_p + log_normal(z, sd)) + np.log(z[1] - z[0])
    return total


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_levels_with_several_modes(family):
    """Searched for at every θ, to e^−20 at the ends; nodes enough for a narrow peak in a wide window."""
    y, g, x = counts(0)
    rows = rows_of(family, y, x)
    for theta in points(family):
        levels = Levels(rows, intercepts(g, 6), nodes=401)
        found = levels.log_density(theta[None])[0] - levels._log_prior(theta[None])[0]
        assert_allclose(found, dense(rows, g, theta), rtol=0, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
@pytest.mark.parametrize("move", [False, True], ids=["still", "moving"])
def test_a_frame_hangs_on_no_other_level(family, move):
    """What is learnt of a level beside others, some of them far worse, is what is learnt of it alone."""
    y, g, x = counts(2)
    theta = points(family)[2][None]
    together = Levels(rows_of(family, y, x), intercepts(g, 6), merge=False)
    apart = [together._only(together.groups.group[[level]])[0] for level in range(6)]
    together._learn(theta, move)
    for alone in apart:
        alone._learn(theta, move)
    order = together.groups.group
    for part in ("J", "b", "moves"):
        each = np.concatenate([getattr(alone._frame, part) for alone in apart])
        # moves are differences of means over 1e-2 times informations up to 1e3: rounding is 1e-10 there
        assert_allclose(each, getattr(together._frame, part)[order], rtol=1e-9, atol=1e-9)
    for end in (0, 1):
        each = np.concatenate([alone._box[end] for alone in apart])
        assert_allclose(each, together._box[end][order], rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_windows_once_chosen_cover_their_neighbourhood(family):
    """At draws around the center the error that is reported bounds the error that is made."""
    y, g, x = counts(1)
    rows = rows_of(family, y, x)
    k = len(family.dispersions)
    center = np.r_[1.2, 0.4, 0.2, [0.3, -0.5][2 - k :]]
    move = np.r_[0.0, 0.0, 0.5, np.full(k, 0.5)]
    levels = Levels(rows, intercepts(g, 6))
    levels.choose_nodes(np.array([center, center + move, center - move]))
    rng = np.random.default_rng(2)
    for theta in center + rng.normal(size=(4, len(center))) * np.r_[0.2, 0.2, 0.2, np.full(k, 0.3)]:
        found = levels.log_density(theta[None])[0] - levels._log_prior(theta[None])[0]
        off = abs(found - dense(rows, g, theta))
        assert off < 0.02
        assert off < levels.error(theta[None])[0] + 2e-3


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_derivatives_of_sums_with_several_modes(family):
    """Louis's identity against differences: h² and rounding/h²."""
    y, g, x = counts(3)
    rows = rows_of(family, y, x)
    theta = points(family)[1]
    levels = Levels(rows, intercepts(g, 6), nodes=81)
    value, gradient, H = levels.derivatives(theta)
    expected = differenced(lambda t: np.array([levels.log_density(u[None])[0] for u in t]))(theta)
    assert_allclose(value, expected[0], atol=1e-6)
    assert_allclose(gradient, expected[1], atol=1e-3)
    assert_allclose(H, expected[2], atol=2e-2, rtol=1e-3)


def test_slopes_with_several_modes():
    """Two effects a level on a dense grid of 321²."""
    y, g, x = counts(4)
    rows = rows_of(ZERO_INFLATED_POISSON, y, x)
    slopes = Slopes(rows, sloped(g, x, 6, correlated=False), nodes=61)
    theta = np.r_[1.2, 0.4, 0.1, -0.3, 0.2]
    found = slopes.log_density(theta[None])[0] - slopes._log_prior(theta[None])[0]
    sd, total = np.exp(theta[2:4]), 0.0
    u = np.linspace(-6, 6, 321)
    zi = float(expit(theta[4]))
    for level in range(6):
        at = np.flatnonzero(g == level)
        one, two = sd[0] * u[:, None], sd[1] * u
        eta = (rows.X[at] @ theta[:2])[:, None, None] + one + x[at][:, None, None] * two
        log_p = rows.likelihood.log_p((y[at][:, None, None],), eta, [zi]).sum(0)
        log_p = log_p + log_normal(one, sd[0]) + log_normal(two, sd[1])
        total += logsumexp(log_p) + np.log(sd.prod() * (u[1] - u[0]) ** 2)
    assert_allclose(found, total, atol=1e-3)


def test_nested_levels_with_several_modes():
    """Rows within groups of groups, against a product grid."""
    y, g, x = counts(5)
    keep = g != 2  # a grid for all would need too many nodes for a level so well known
    y, g, x = y[keep], g[keep], x[keep]
    outer = (g > 2).astype(int)
    rows = rows_of(ZERO_INFLATED_POISSON, y, x)
    inside = choose(rows, [intercepts(outer, 2), intercepts(g, 6)]).inside
    assert isinstance(inside, Nested)
    theta = np.r_[1.2, 0.4, -0.3, 0.2, 0.3]
    inside.choose_nodes(theta[None])
    found = inside.log_density(theta[None])[0] - inside._log_prior(theta[None])[0]
    sd_o, sd_i, total = np.exp(theta[2]), np.exp(theta[3]), 0.0
    z, o = np.linspace(-8, 8, 601) * sd_i, np.linspace(-8, 8, 81) * sd_o
    for top in range(2):
        log_o = log_normal(o, sd_o)
        for level in np.unique(g[outer == top]):
            at = np.flatnonzero(g == level)
            eta = (rows.X[at] @ theta[:2])[:, None, None] + o[:, None] + z
            log_p = rows.likelihood.log_p((y[at][:, None, None],), eta, [expit(0.3)]).sum(0)
            log_o = log_o + logsumexp(log_p + log_normal(z, sd_i), axis=1) + np.log(z[1] - z[0])
        total += logsumexp(log_o) + np.log(o[1] - o[0])
    assert_allclose(found, total, atol=2e-2)


def test_a_frame_has_the_moments_it_was_made_of():
    """And follows coefficients as normal rows do, which tell of z + Aβ: E z = (J + Λ)⁻¹J(w − Aβ)."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 2, 2))
    J, precision = root @ root.swapaxes(1, 2), np.diag([0.5, 1.0])
    cov = np.linalg.inv(precision + J)
    mean, center, A = rng.normal(size=(4, 2)), np.zeros(3), rng.normal(size=(4, 2, 1))
    frame = Frame.around(mean, cov, precision, center, A)
    z, C = frame.at(np.array([center, [0.3, 0.0, 0.0]]), np.array([precision, precision]))
    assert_allclose(z[0], mean, atol=1e-12)
    assert_allclose(C[0] @ C[0].swapaxes(1, 2), cov, atol=1e-12)
    assert_allclose(z[1], mean - 0.3 * (cov @ J @ A)[..., 0], atol=1e-12)


def test_a_window_holds_both_of_two_distant_peaks():
    """Peaks 30 sds apart, one seen from a frame around it, the other from the prior."""

    def look(groups, z, C, low, high):
        e = low + (high - low) * np.linspace(0, 1, 25)
        Z = z + C[..., 0] * e
        f = np.logaddexp(-((Z - 10) ** 2) / 2, -((Z + 20) ** 2) / 2 - 3)
        return f, Z[..., None]

    one = np.ones((1, 1, 1, 1))
    near = find_window(look, 9 * one[..., 0], one, 14.0)
    assert near.low > -20
    found = settle(look, 9 * one[..., 0], one, 9 * one[0], 14.0)
    found = Window(*(np.squeeze(part) for part in found))
    low, high = found.z + found.C * found.low, found.z + found.C * found.high
    assert -35 < low < -20 - np.sqrt(2 * 11)
    assert 10 + np.sqrt(2 * 14) < high < 25
