"""Importance sampling of densities whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln, log_ndtr, logsumexp
from scipy.stats import norm

from lrvb.errors import LrvbError
from lrvb.integrated.coordinates import Bend
from lrvb.integrated.importance import Budget, Weighted, integrate, tempered
from lrvb.integrated.mode import climb
from lrvb.integrated.proposals import (
    Gaussian,
    Mixture,
    SplitT,
    fit_again,
    fit_blocks,
    fit_mixture,
    fit_sides,
    probed,
)


def normal(x, mean, sd):
    return -(((x - mean) / sd) ** 2) / 2 - np.log(sd) - np.log(2 * np.pi) / 2


def split(d=3, df=5.0):
    rng = np.random.default_rng(d)
    axes = rng.normal(size=(d, d)) + 2 * np.eye(d)
    return SplitT(rng.normal(size=d), axes, rng.uniform(0.5, 2, d), rng.uniform(0.5, 2, d), df)


def test_split_t_is_normalised_and_draws_are_its_own():
    """E_p[q/p] = 1 for a wider t that covers it; and half of each axis's mass is where it should be."""
    q = split(2)
    wide = SplitT(q.center, 2 * q.axes, q.left, q.right, 3.0)
    x = wide.draw(2**14, 0)
    ratio = np.exp(q.log_density(x) - wide.log_density(x))
    assert_allclose(ratio.mean(), 1, atol=5 * ratio.std() / 2**7)
    e = (q.draw(2**12, 1) - q.center) @ np.linalg.inv(q.axes).T
    assert_allclose((e < 0).mean(0), q.left / (q.left + q.right), atol=2.0**-9)


def test_mixture_of_one_is_that_one():
    q = split()
    x = q.draw(64, 0)
    mixture = Mixture((q, q), np.array([0.3, 0.7]))
    assert_allclose(mixture.log_density(x), q.log_density(x), rtol=1e-12)
    assert mixture.draw(101, 0).shape == (101, 3)


def test_mixtures_are_sums_of_their_parts():
    """And −∞ so far out that no part has a number."""
    parts, weights = (split(3), split(3, 7.0)), np.array([0.3, 0.7])
    x = np.vstack([5 * np.random.default_rng(1).normal(size=(50, 3)), np.full((1, 3), 1e100)])
    expected = logsumexp([part.log_density(x) for part in parts], axis=0, b=weights[:, None])
    assert_allclose(Mixture(parts, weights).log_density(x), expected, rtol=1e-12)
    with np.errstate(over="ignore"):
        assert Mixture(parts, weights).log_density(np.full((1, 3), 1e200))[0] == -np.inf


def test_parts_within_parts_have_nets_of_their_own():
    """No two of the same kind have a point in common."""
    one = Gaussian(np.zeros(2), np.eye(2))
    half = np.full(2, 0.5)
    pair = Mixture((one, one), half)
    x = Mixture((Mixture((pair, pair), half), Mixture((pair, one), half)), half).draw(512, 3)
    assert len(np.unique(x, axis=0)) == 512


def test_sides_are_fitted_to_weighted_draws():
    """A split normal's own center and scales come back; the grid of centers is a tenth of an sd."""
    q = SplitT(np.array([1.0, -2.0]), np.eye(2), np.array([0.5, 1.0]), np.array([1.5, 1.0]), 1e6)
    x = q.draw(2**13, 0)
    found = fit_sides(x, np.full(len(x), 1 / len(x)), np.eye(2), 7.0)
    assert_allclose(found.center, q.center, atol=0.1)
    assert_allclose(np.r_[found.left, found.right], [0.5, 1, 1.5, 1], atol=0.1)


def test_two_modes_are_fitted_by_two_parts():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-4, 1, (500, 2)), rng.normal(4, 1, (500, 2))])
    found = fit_mixture(x, np.full(1000, 1e-3), 50.0)
    centers = sorted(part.center[0] for part in found.parts)
    assert_allclose(centers, [-4, 4], atol=0.3)


def test_a_gaussian_sampled_from_itself_has_constant_weights():
    d = 4
    mean, sd = np.arange(d), np.arange(1.0, d + 1)
    start = SplitT(mean, np.diag(sd), np.ones(d), np.ones(d), 1e8)

    def target(x):
        return normal(x, mean, sd).sum(1) + 2.5

    found = integrate(target, start, lambda x, w: start)
    assert found.k_hat < 0.1
    assert_allclose(found.ess, len(found.x), rtol=1e-6)
    assert_allclose(found.log_evidence, 2.5, atol=1e-6)
    assert found.log_evidence_error < 1e-5


def check(found, values, mean, sd, log_z=None):
    """Within four Monte Carlo errors, by the errors that the result itself states."""
    assert abs(found.mean(values) - mean) < 4 * found.mean_error(values)
    assert abs(found.sd(values) - sd) < 4 * found.sd_error(values)
    if log_z is not None:
        assert abs(found.log_evidence - log_z) < 4 * found.log_evidence_error


@pytest.mark.parametrize("seed", [0, 1])
def test_a_correlated_t(seed):
    """Five dimensions, 8 degrees of freedom, from a start that is off by an sd."""
    rng = np.random.default_rng(9)
    A = rng.normal(size=(5, 5)) + 2 * np.eye(5)
    inverse = np.linalg.inv(A)
    constant = gammaln(6.5) - gammaln(4) - 2.5 * np.log(8 * np.pi) - np.linalg.slogdet(A)[1]

    def target(x):
        return constant - 6.5 * np.log1p(((x @ inverse.T) ** 2).sum(1) / 8)

    start = probed(target, A[:, 0], 0.8 * A)
    found = integrate(target, start, seed=seed)
    assert found.k_hat < 0.5
    sd = np.sqrt(8 / 6 * (A**2).sum(1))
    for j in range(5):
        check(found, found.x[:, j], 0.0, sd[j], 0.0)


@pytest.mark.parametrize("bend", [0.1, 0.5])
def test_a_banana_is_right_or_says_that_it_is_not(bend):
    """x₁ ~ N(0, 1), x₂ | x₁ ~ N(b x₁², ½²): E x₂ = b, Var x₂ = 2b² + ¼."""

    def target(x):
        return normal(x[:, 0], 0, 1) + normal(x[:, 1], bend * x[:, 0] ** 2, 0.5)

    mode = climb(target, np.array([0.5, 0.5]))
    found = integrate(target, probed(target, mode.x, mode.axes()))
    assert found.k_hat < 0.5 if bend < 0.3 else found.k_hat > 0.5
    check(found, found.x[:, 1], bend, np.sqrt(2 * bend**2 + 0.25), 0.0)
    check(found, found.x[:, 0], 0.0, 1.0)


@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_an_sd_at_the_boundary(scale):
    """A half-normal sd in bent coordinates, whatever their center: mean scale·√(2/π)."""
    bend = Bend(["log"], np.array([0.0]))

    def target(x):
        u = bend.natural(x)
        log_p = np.log(2) + normal(np.exp(u[:, 0]), 0, scale) + u[:, 0]
        return log_p + bend.log_jacobian(x)

    mode = climb(target, np.zeros(1))
    found = integrate(target, probed(target, mode.x, mode.axes()))
    sd = np.exp(bend.natural(found.x)[:, 0])
    assert found.k_hat < 0.5
    check(found, sd, scale * np.sqrt(2 / np.pi), scale * np.sqrt(1 - 2 / np.pi), 0.0)
    assert_allclose(found.quantile(sd, 0.5), 0.6745 * scale, rtol=0.03)


def test_heavy_draws_carry_the_weight():
    def target(x):
        return normal(x, 0, 1).sum(1)

    found = integrate(target, SplitT(np.zeros(2), np.eye(2), np.ones(2), np.ones(2), 7.0))
    assert_allclose(found.weights[found.heavy()].sum(), 1, atol=1e-6)


def test_progress_and_budget():
    seen = []

    def target(x):
        return normal(x, 0, 1).sum(1)

    start = SplitT(np.zeros(2), np.eye(2), np.ones(2), np.ones(2), 7.0)
    budget = Budget(final=512, explore=128)
    found = integrate(
        target, start, budget=budget, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(128, 640), (256, 768), (768, 768)]
    assert found.x.shape == (768, 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "The log density is nan at"), (-np.inf, "The density is zero at every draw")],
)
def test_broken_densities_are_named(value, message):
    start = SplitT(np.zeros(1), np.eye(1), np.ones(1), np.ones(1), 7.0)
    with pytest.raises(LrvbError, match=message):
        integrate(lambda x: np.full(len(x), value), start)


@pytest.mark.parametrize("kind", ["free", "log", "correlation", "logit"])
def test_bends_invert_and_have_their_jacobian(kind):
    """x(θ(x)) = x out to 6 sds, and log |∂θ/∂x| by differences: O(h²)."""
    bend = Bend([kind], np.array([-1.3]))
    x, h = np.linspace(-6, 6, 25)[:, None], 1e-5
    theta = bend.natural(x)
    assert_allclose(bend.bend(theta), x, rtol=1e-9, atol=1e-9)
    slope = (bend.natural(x + h) - bend.natural(x - h)) / (2 * h)
    assert_allclose(bend.log_jacobian(x), np.log(slope[:, 0]), atol=1e-6)
    assert_allclose(bend.slope(x), slope, rtol=1e-6)


def test_bent_correlations_are_uniform():
    """ρ = 2Φ(x) − 1 with θ = atanh ρ."""
    x = np.linspace(-5, 5, 11)[:, None]
    rho = np.tanh(Bend(["correlation"], np.zeros(1)).natural(x))[:, 0]
    assert_allclose(rho, 2 * np.exp(log_ndtr(x[:, 0])) - 1, rtol=1e-9, atol=1e-12)


def test_weights_are_tempered_until_enough_are_effective():
    """One draw that outweighs all others by e^1000 does not take all that a fit is made of."""
    log_w = np.r_[1000.0, np.random.default_rng(0).normal(size=99)]
    weights = tempered(log_w, 12.0)
    assert 1 / (weights**2).sum() >= 12


def test_a_fit_again_reaches_shoulders():
    """N(0, 0.4²) with a hundredth of N(0, 1), as of an sd that may vanish: no weight far out is large."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3)) * [1.0, 0.1, 0.4]
    x[:40, 2] = rng.normal(size=40)
    w = np.full(len(x), 1 / len(x))
    far = np.array([[0.5, 0.1, -3.5], [-0.5, -0.1, 3.0]])
    log_p = norm.logpdf(far[:, 0]) + norm.logpdf(far[:, 1], scale=0.1)
    log_p += np.log(0.99 * norm.pdf(far[:, 2], scale=0.4) + 0.01 * norm.pdf(far[:, 2]))
    again, before = fit_again(x, w, 1), fit_blocks(x, w, 1)
    assert (log_p - again.log_density(far) < 1).all()
    assert (again.log_density(far) > before.log_density(far)).all()
    narrow = x * [1.0, 1.0, 0.1]
    assert len(fit_again(narrow, w, 1).parts) == 2
    wide = np.concatenate([x, rng.normal(size=(4000, 12))], axis=1)
    assert len(fit_again(wide, w, 15).parts) == 1
    drawn = again.draw(4096, 0)
    inside = again.log_density(drawn)
    assert np.isfinite(inside).all()


def test_the_error_of_an_sd_bears_draws_that_are_far_out():
    """A value of 1e150 with a weight of nearly none: its fourth power is beyond double precision."""
    rng = np.random.default_rng(0)
    n = 1000
    raw, values = np.full(n, 1 / n), rng.standard_normal(n)
    found = Weighted(values[:, None], raw, raw, raw, raw, 0.0, float(n), 0.0, 0.0)
    plain = found.sd_error(values)
    raw = np.append(raw, 1e-310)
    far = Weighted(np.append(values, 1e150)[:, None], raw, raw, raw, raw, 0.0, float(n), 0.0, 0.0)
    with np.errstate(all="raise", under="ignore"):
        assert_allclose(far.sd_error(np.append(values, 1e150)), plain, rtol=1e-6)
    assert_allclose(plain, found.sd(values) / np.sqrt(2 * n), rtol=0.1)  # of a normal
