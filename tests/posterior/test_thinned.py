"""Some rows stand for all where the density is theirs but for two orders: checked, never assumed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.numerics.sobol import normal_points
from lrvb.posterior.certification import Certifier
from lrvb.posterior.target import CLOSE, Target


def mixture(small: int) -> lrvb.Posterior:
    """45,000 rows of two normals, `small` of them in the second."""
    rng = np.random.default_rng(3)
    x = np.r_[rng.normal(size=45_000 - small), rng.normal(3.0, 1.0, size=small)]
    model = lrvb.GaussianMixture(2, random_state=0, certify=False)
    return model.fit(x[:, None]).posterior_


@pytest.fixture(scope="module")
def even() -> lrvb.Posterior:
    return mixture(15_000)


def test_some_rows_stand_for_all_beyond_the_second_order(even):
    """Value and gradient at other points than those where that was tried."""
    target = Target(even.response)
    u = target.center + 1.5 * normal_points(16, target.size) @ target.root.T
    value, (_, gradient) = target(u), target.with_gradient(u)
    assert target.thin(even.response)
    assert np.abs(target(u) - value).max() < CLOSE
    scale = np.abs(gradient @ target.root)  # in sds
    assert np.abs((target.with_gradient(u)[1] - gradient) @ target.root).max() < CLOSE * scale.max()


def test_a_certificate_of_some_rows_is_that_of_all(even, monkeypatch):
    """Means to a hundredth of an sd, sds and evidence to a hundredth; at the optimum nothing is lost."""
    certifier = even._certifier
    assert isinstance(certifier, Certifier)
    given = {"brief": True, "thorough": False, "starts": 0}
    thin = certifier.certify(128, 0, **given)
    monkeypatch.setattr(Target, "thin", lambda self, response: False)
    full = certifier.certify(128, 0, **given)
    a, b = thin.summary(), full.summary()
    assert_allclose(a["mean"], b["mean"], atol=0.01 * b["sd"].min())
    assert_allclose(a["sd"], b["sd"], rtol=0.01)
    assert_allclose(thin.log_evidence, full.log_evidence, atol=0.01)


def test_few_rows_that_decide_are_not_left_out():
    """A component of thirty rows, a dozen of them among those that would stand for all."""
    response = mixture(30).response
    target = Target(response)
    before = target.density
    assert not target.thin(response)
    assert target.density is before
