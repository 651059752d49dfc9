"""A few points tell a normal density, and long sides; draws made for those have the right sds."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from scipy.special import log_expit

import lrvb
from lrvb.posterior.proposal import Around
from lrvb.posterior.scouts import LONG, scout
from lrvb.posterior.target import Target
from mixtures import overlapping

PLACE = Around(np.array([1.0, -2.0]), np.array([[2.0, 0.0], [0.5, 1.0]]))
NORMAL = scipy.stats.multivariate_normal(PLACE.center, PLACE.root @ PLACE.root.T)


def test_a_normal_density_is_told():
    """To rounding, up to a constant; a fourth power a thousandth as large is another density."""
    assert scout(lambda u: NORMAL.logpdf(u) - 7, PLACE, True).normal
    bent = scout(lambda u: NORMAL.logpdf(u) - 1e-3 * u[:, 0] ** 4, PLACE, True)
    assert not bent.normal
    assert not bent.tails


def test_a_long_side_has_draws_of_its_own():
    """exp(x) to the left of one coordinate: a t that reaches there, and nowhere else."""

    def exponential(u):
        e = np.linalg.solve(PLACE.root, (u - PLACE.center).T)
        return -np.where(e[0] < 0, np.sqrt(1 + e[0] ** 2) - 1, e[0] ** 2 / 2) - e[1] ** 2 / 2

    plain = Around(PLACE.center, np.diag([2.0, 1.0]))
    found = scout(lambda u: exponential(_as(plain, u)), plain, True)
    (tail,) = found.tails
    assert tail.left[0] > LONG
    assert_allclose(np.r_[tail.left[1], tail.right], 1.0)
    x = found.beside(plain.t()).draw(1024, 0)
    assert (x[:, 0] < plain.center[0] - 6 * 2.0).sum() > 20
    assert scout(lambda u: exponential(_as(plain, u)), plain, False).tails == ()


def _as(place, u):
    """The points of PLACE that have the same standard coordinates."""
    return PLACE.center + np.linalg.solve(place.root, (u - place.center).T).T @ PLACE.root.T


class ZeroInflated(lrvb.Model):
    """Counts with more zeros than a Poisson has: log π has an exponential tail to the left."""

    global_blocks = {"pi": lrvb.Beta(), "lam": lrvb.Gamma()}
    local_blocks = {"s": lrvb.Categorical(2)}

    def global_term(self, m):
        return m.lam.log_x - m.lam.x

    def local_term(self, m, z, row):
        zero = jnp.where(row.y == 0, 0.0, -60.0)
        counted = m.pi.log1m_x + row.y * m.lam.log_x - m.lam.x
        return z.x[0] * (m.pi.log_x + zero) + z.x[1] * counted


@pytest.mark.parametrize(
    ("zeros", "ones", "twos"), [(6, 2, 0), (11, 2, 2), (45, 11, 4), (40, 15, 5)]
)
def test_an_exponential_tail_is_filled(zeros, ones, twos):
    """Sds against a grid: three Monte Carlo errors of 3 % where plain draws were up to 30 % off."""
    y = np.repeat([0.0, 1.0, 2.0], [zeros, ones, twos])
    found = lrvb.infer(ZeroInflated(), {"y": y}, certify=False).certify(seed=1).summary()
    logit, log_rate = np.meshgrid(np.linspace(-16, 12, 700), np.linspace(-7, 3, 400))
    rate = np.exp(log_rate)
    log_p, log_q = log_expit(logit), log_expit(-logit)
    value = log_p + log_q + 2 * log_rate - rate
    value += zeros * np.logaddexp(log_p, log_q - rate)
    value += (ones + twos) * (log_q - rate) + (ones + 2 * twos) * log_rate
    w = np.exp(value - value.max())
    w /= w.sum()
    for name, values in (("log(pi)", log_p), ("log(1-pi)", log_q), ("log(lam)", log_rate)):
        mean = (w * values).sum()
        sd = np.sqrt((w * (values - mean) ** 2).sum())
        assert found.loc[name, "verdict"] in ("repaired", "trust")
        assert abs(found.loc[name, "mean"] - mean) < 0.1 * sd
        assert_allclose(found.loc[name, "sd"], sd, rtol=0.09)


def test_shares_have_no_coordinate_too_many():
    """K shares have K − 1 coordinates, so that of one component there are none, and it is certified."""
    X = overlapping()[0]
    for K in (1, 2):
        model = lrvb.GaussianMixture(K, random_state=0, certify=False).fit(X)
        P = X.shape[1]
        target = Target(model.posterior_._certifier.response)
        assert target.size == K * (P + P * (P + 1) // 2) + K - 1
        value, slope = target.with_gradient(target.center[None])
        step = 1e-4 * np.eye(target.size)
        ends = target(target.center + np.concatenate([step, -step])).reshape(2, -1)
        assert_allclose(slope[0], (ends[0] - ends[1]) / 2e-4, atol=1e-4 * abs(slope).max() + 1e-3)
        assert np.isfinite(value).all()
        if K == 1:
            assert set(model.posterior_.certify().summary()["verdict"]) <= {"trust", "repaired"}
