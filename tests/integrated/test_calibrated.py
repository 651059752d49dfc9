"""Draws whose weights have what is known of a normal: the regression estimate, and its errors."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import digamma, polygamma

from lrvb.integrated.calibrated import calibrated
from lrvb.integrated.importance import Budget, integrate
from lrvb.integrated.proposals import Gaussian, SplitT


class ByChance:
    """A t drawn by chance, in place of a net of points."""

    def __init__(self, proposal):
        self.proposal, self.log_density = proposal, proposal.log_density

    def draw(self, n, seed):
        rng, t = np.random.default_rng(seed), self.proposal
        e = rng.standard_normal((n, len(t.center)))
        return t.center + e * np.sqrt(t.df / rng.chisquare(t.df, n))[:, None] @ t.axes.T


def wide(d):
    return ByChance(SplitT(np.zeros(d), 1.3 * np.eye(d), np.ones(d), np.ones(d), 7.0))


def drawn(log_density, d, n=512, seed=0):
    return integrate(log_density, wide(d), budget=Budget(n, rounds=0), seed=seed)


def log_gamma(shape):
    """Gamma variables on the log scale, standardised, and their exact mean and sd."""

    def log_density(x):
        log_t = np.log(shape) + x / np.sqrt(shape)
        return (shape * log_t - np.exp(log_t)).sum(1)

    mean = np.sqrt(shape) * (digamma(shape) - np.log(shape))
    return log_density, mean, np.sqrt(shape * polygamma(1, shape))


def test_of_a_normal_all_but_the_square_of_what_is_off_is_known():
    """p/q·f is a sum of controls where p is their normal, which is off as the draws are."""
    A = np.array([[1.0, 0.0], [0.6, 0.5]])
    found = drawn(lambda x: -((x @ np.linalg.inv(A).T) ** 2).sum(1) / 2, 2)
    known = calibrated(found)
    V, evidence = A @ A.T, np.log(2 * np.pi) + np.log(0.5)
    size = np.linalg.norm(found.mean(found.x)) + np.linalg.norm(
        found.sd(found.x) - np.sqrt(np.diag(V))
    )
    assert size > 0.04
    assert_allclose(known.mean(found.x), 0.0, atol=3 * size**2)
    assert_allclose(known.sd(found.x), np.sqrt(np.diag(V)), atol=3 * size**2)
    assert_allclose(known.log_evidence, evidence, atol=3 * size**2)
    assert known.log_evidence_error < 0.1 * found.log_evidence_error


def test_controls_have_their_known_sums():
    """Shares v with Σ v = 1 and Σ v (G/q)H = (1, 0, …): so do the draws' weights over p/q."""
    log_density, _, _ = log_gamma(8.0)
    found = drawn(log_density, 2)
    known = calibrated(found)
    n = len(found.x)
    share = known.weights / found.weights
    share /= share.sum()
    assert share.min() > 0
    away = found.x - found.mean(found.x)
    V = (away * found.weights[:, None]).T @ away
    g = Gaussian(found.mean(found.x), np.linalg.cholesky(V))
    ratio = np.exp(g.log_density(found.x) - found.log_q)
    assert_allclose(share @ ratio, 1.0, rtol=1e-9)
    assert_allclose((share * ratio) @ away, 0.0, atol=1e-9)
    assert_allclose((away * (share * ratio)[:, None]).T @ away, V, atol=1e-9)
    assert_allclose(known.controls.T @ known.controls, np.eye(known.controls.shape[1]), atol=1e-9)
    assert abs((np.full(n, 1 / n) * ratio).sum() - 1) > 1e-3  # which the draws alone have not


@pytest.mark.parametrize("shape", [2.0, 20.0])
def test_errors_are_those_over_many_sets_of_draws(shape):
    """Of skewed posteriors, drawn by chance 200 times: root mean squares of what is off over what is said."""
    log_density, mean, sd = log_gamma(shape)
    off = {"plain": [], "known": []}
    said = {"plain": [], "known": []}
    for seed in range(200):
        found = drawn(log_density, 2, 512, seed)
        for name, each in (("plain", found), ("known", calibrated(found))):
            x = each.x
            off[name].append(np.r_[each.mean(x) - mean, each.sd(x) - sd])
            said[name].append(np.r_[each.mean_error(x), each.sd_error(x)])
    rms = {name: np.sqrt(np.mean(np.square(each), axis=0)) for name, each in off.items()}
    claimed = {name: np.sqrt(np.mean(np.square(each), axis=0)) for name, each in said.items()}
    assert_allclose(rms["known"] / claimed["known"], 1.0, atol=0.25)
    assert (rms["known"] < (0.8 if shape < 10 else 0.35) * rms["plain"]).all()


def test_too_few_or_unreliable_draws_stay_as_they_are():
    """Below 8 draws for each control; and of weights that a few draws have."""
    few = drawn(lambda x: -(x**2).sum(1) / 2, 2, n=40)
    assert calibrated(few) is few
    narrow = Gaussian(np.zeros(1), 0.4 * np.eye(1))
    bad = integrate(lambda x: -(x[:, 0] ** 2) / 2, narrow, budget=Budget(4096, rounds=0))
    assert not bad.k_hat < 0.7
    assert calibrated(bad) is bad


def test_errors_without_controls_are_those_of_independent_draws():
    found = drawn(lambda x: -(x**2).sum(1) / 2, 2)
    x = found.x
    assert_allclose(
        found.mean_error(x), np.sqrt(found.raw**2 @ (x - found.mean(x)) ** 2), rtol=1e-12
    )
    both = found.error(np.stack([found.raw[:, None] * x, x], axis=2))
    assert both.shape == (2, 2)
    assert_allclose(both[:, 1], np.sqrt((x**2).sum(0)), rtol=1e-12)
