"""A slip in the moments is suspected aloud; strong correlations are named as the other possibility."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES


class Slip(lrvb.Model):
    """y ~ N(b, 1) with E[b]² in place of E[b²]."""

    global_blocks = {"b": lrvb.Normal()}

    def global_term(self, m):
        return -0.5 * m.b.xx / 100

    def local_term(self, m, z, row):
        return row.y * m.b.x - 0.5 * m.b.x**2


class Intercept(lrvb.Model):
    """y ~ N(b + u, 1) with an effect u of one group: rightly written, and strongly correlated."""

    global_blocks = {"b": lrvb.Normal(), "u": lrvb.Normal()}

    def global_term(self, m):
        return -0.5 * (m.b.xx / 100 + m.u.xx)

    def local_term(self, m, z, row):
        return row.y * (m.b.x + m.u.x) - 0.5 * (m.b.xx + m.u.xx + 2 * m.b.x * m.u.x)


def rows(n):
    return {"y": 1 + np.random.default_rng(0).normal(size=n)}


def test_a_square_of_a_mean_is_suspected():
    with pytest.warns(lrvb.LargeCorrection, match=r"'b'.*m.b.x\*\*2 for m.b.xx") as caught:
        lrvb.infer(Slip(), rows(100))
    warning = caught[0].message
    assert warning.block == "b"
    assert_allclose(warning.mfvb_sd, 10, rtol=1e-9)
    assert caught[0].filename == __file__


def test_strong_correlations_are_named_too_and_answered():
    with pytest.warns(lrvb.LargeCorrection, match="strongly correlated"):
        posterior = lrvb.infer(Intercept(), rows(1000))
    exact = np.linalg.inv(1000 * np.ones((2, 2)) + np.diag([0.01, 1.0]))
    assert_allclose(posterior.cov(), exact, rtol=1e-8)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shipped_models_do_not_set_it_off(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error", lrvb.LargeCorrection)
        lrvb.summarize(case.response())
        lrvb.infer(Intercept(), rows(20))
