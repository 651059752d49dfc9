"""Lines of rows whose levels are all new, or that lack an effect: made without sums of these."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.integrated.inside import stacked

FORMULAS = ["y ~ x + (1|s/c)", "y ~ x + (1|s/c/e)"]


def made(formula):
    """A fit of factors in factors, its sums, a few draws and the codes of three rows of known levels."""
    rng = np.random.default_rng(4)
    s, c, e = np.arange(96) // 24, np.arange(96) // 8, np.arange(96) // 2
    data = pd.DataFrame({"x": rng.standard_normal(96), "s": s, "c": c, "e": e})
    data["y"] = rng.poisson(np.exp(0.5 + 0.4 * rng.standard_normal(12)[c]))
    model = lrvb.MixedModel(formula, "poisson").fit(data)
    found = model.posterior_._sensitivity.found
    inside, theta = found.statement.inside, found.theta[:5]
    X = rng.standard_normal((3, inside.p))
    at = np.array([0, 40, 95])
    codes = [levels[at] for levels in (s, c, e)][: len(found.design.terms)]
    return model, data, inside, theta, X, codes


def joined(lots, *parts):
    """Parts of lines of all draws."""
    return [np.concatenate([getattr(lot, part) for lot in lots]) for part in parts]


@pytest.mark.parametrize("formula", FORMULAS)
def test_new_levels_need_no_sums(formula):
    """The same as point by point of the sums, which know nothing of such levels: xᵀβ and all variances."""
    _, _, inside, theta, X, codes = made(formula)
    codes = [np.full(3, -1) for _ in codes]
    ones = [np.ones((3, 1))] * len(codes)
    quick = list(inside.lines(theta, X, codes, ones))
    summed = list(stacked(inside._lines(theta, X, codes, np.concatenate(ones, axis=1))))
    parts = "at", "eta", "P", "extra"
    for ours, theirs in zip(joined(quick, *parts), joined(summed, *parts), strict=True):
        assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("formula", FORMULAS)
def test_rows_without_an_effect(formula):
    """None of them leaves xᵀβ; without one, known or new, its level is as a new one without a variance."""
    _, _, inside, theta, X, codes = made(formula)
    k = len(codes)
    ones, nothing = [np.ones((3, 1))] * k, [np.zeros((3, 1))] * k
    eta, extra = joined(list(inside.lines(theta, X, codes, nothing)), "eta", "extra")
    assert_allclose(eta[..., 0], theta[:, : inside.p] @ X.T, rtol=1e-12)
    assert not extra.any()
    for f in range(k):
        R = [part * (i != f) for i, part in enumerate(ones)]
        fresh = [np.where(i == f, -1, code) for i, code in enumerate(codes)]
        variance = np.exp(2 * theta[:, inside.p + f])[:, None]
        for known in (codes, fresh):
            eta, P, extra = joined(list(inside.lines(theta, X, known, R)), "eta", "P", "extra")
            other = joined(list(inside.lines(theta, X, fresh, ones)), "eta", "P", "extra")
            assert_allclose((eta * P).sum(2), (other[0] * other[1]).sum(2), atol=1e-10)
            assert_allclose(extra, other[2] - variance, atol=1e-10)


def test_predictions_of_nested_models_without_groups():
    """On the link's scale xᵀE β and xᵀCov(β)x: to 3 % of an sd, as a part of the draws has it."""
    model, data, *_ = made(FORMULAS[0])
    new = data.assign(x=0.0).head(1)
    found = model.predict(new, groups="none", scale="link")
    row = model.summary().loc["Intercept"]
    assert_allclose(found["mean"], row["mean"], atol=0.03 * row["sd"])
    assert_allclose(found["sd"], row["sd"], rtol=0.03)
