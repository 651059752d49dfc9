"""Levels' coefficients, variances and shares of them: identities, and truth that was simulated."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.errors import InvalidModel
from lrvb.estimators.mixed.answers.expression import Expression
from lrvb.estimators.mixed.answers.variation import noise_on_link
from lrvb.likelihoods import likelihood_of

MCSE = 5 / np.sqrt(2000)  # five errors of means of 4000 draws, with the weights' own


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(2)
    N = 300
    g, x = rng.integers(0, 15, N), rng.normal(size=N)
    y = 1 + 0.6 * x + rng.normal(0, 0.9, 15)[g] + rng.normal(0, 0.4, 15)[g] * x
    y = y + rng.normal(0, 0.7, N)
    data = pd.DataFrame({"x": x, "g": [f"g{k:02d}" for k in g], "y": y})
    return lrvb.MixedModel("y ~ x + (x|g)").fit(data)


def test_vcov_is_that_of_the_posterior(model):
    assert_allclose(model.vcov(), model.posterior_.cov(["Intercept", "x"]))


def test_coefficients_are_fixed_and_random_effects_together(model):
    """Means add up; variances with twice the covariance."""
    summary, ranef = model.summary(), model.ranef()
    mean, sd = model.coef(), model.coef("g", "sd")
    for name, effect in (("Intercept", "1|g"), ("x", "x|g")):
        own, beta = ranef.loc[effect], summary.loc[name]
        cov = model.posterior_.local(effect)["cov"].sel(quantity=name).values
        expected = np.sqrt(own["sd"] ** 2 + beta["sd"] ** 2 + 2 * cov)
        assert (abs(mean[name] - own["mean"] - beta["mean"]) < MCSE * expected).all()
        assert_allclose(sd[name], expected, rtol=MCSE)
    lower, upper = (model.coef(what=what) for what in ("lower", "upper"))
    assert (lower < mean).all(axis=None)
    assert (mean < upper).all(axis=None)


def test_variances_are_means_of_squares(model):
    """E σ² = (E σ)² + Var σ, and sds and correlations are those of the summary."""
    table, summary = model.var_corr(), model.summary()
    assert table["group"].tolist() == ["g", "g", "g", "Residual"]
    names = ["sd[1|g]", "sd[x|g]", "corr[g][1,x]", "sd[residual]"]
    assert (abs(table["sdcor"] - summary.loc[names, "mean"].to_numpy()) < MCSE * table["sd"]).all()
    square = table["vcov"].to_numpy()[[0, 1, 3]]
    own = table[["sdcor", "sd"]].to_numpy()[[0, 1, 3]]
    assert_allclose(square, (own**2).sum(1), rtol=1e-9)


def test_shares_are_formulas_of_the_sds(model):
    """Of a normal response with standardised x, whose mean square is nearly one."""
    x = model.design_.X[:, 1]
    r2, icc = model.r2(), model.icc()
    draws = {name: part.values for name, part in model.draws(4000, 0).items()}
    between = draws["sd[1|g]"] ** 2 + draws["sd[x|g]"] ** 2 * (x**2).mean()
    between += 2 * draws["corr[g][1,x]"] * draws["sd[1|g]"] * draws["sd[x|g]"] * x.mean()
    fixed, rest = draws["x"] ** 2 * x.var(), draws["sd[residual]"] ** 2
    total = fixed + between + rest
    assert_allclose(r2["mean"]["marginal"], (fixed / total).mean(), rtol=1e-9)
    assert_allclose(r2["mean"]["conditional"], ((fixed + between) / total).mean(), rtol=1e-9)
    assert_allclose(icc["mean"]["g"], (between / (between + rest)).mean(), rtol=1e-9)


@pytest.mark.parametrize(
    ("family", "link", "noise"),
    [("bernoulli", "logit", np.pi**2 / 3), ("poisson", "log", None)],
)
def test_icc_on_the_links_scale(family, link, noise):
    """σ²/(σ² + π²/3) of a logit; of counts the noise is log(1 + 1/μ)."""
    rng = np.random.default_rng(4)
    N = 240
    g = rng.integers(0, 12, N)
    eta = 0.3 + rng.normal(0, 0.8, 12)[g]
    y = (
        rng.poisson(np.exp(eta))
        if family == "poisson"
        else rng.uniform(size=N) < 1 / (1 + np.exp(-eta))
    )
    data = pd.DataFrame({"y": np.asarray(y, dtype=int), "g": g.astype(str)})
    model = lrvb.MixedModel("y ~ 1 + (1|g)", family).fit(data)
    draws = model.draws(4000, 0)
    square = draws["sd[1|g]"].values ** 2
    if noise is None:
        noise = np.log1p(np.exp(-draws["Intercept"].values - square / 2))
    assert_allclose(model.icc()["mean"]["g"], (square / (square + noise)).mean(), rtol=1e-9)
    assert_allclose(model.r2()["mean"]["marginal"], 0, atol=1e-12)


def test_formulas_as_contrasts(model):
    """On draws; a sum beside them is exact as before."""
    share = "sd[1|g]**2 / (sd[1|g]^2 + sd[residual]**2)"
    table = model.contrast(["exp(x)", share, "2*x", "x * Intercept"])
    draws = model.draws(4000, 0)
    assert_allclose(table["mean"]["exp(x)"], np.exp(draws["x"].values).mean(), rtol=1e-9)
    one, rest = draws["sd[1|g]"].values ** 2, draws["sd[residual]"].values ** 2
    assert_allclose(table["mean"][share], (one / (one + rest)).mean(), rtol=1e-9)
    assert_allclose(table["mean"]["2*x"], 2 * model.posterior_.mean()["x"], rtol=1e-12)
    mean, mfvb_sd = model.posterior_.mean(), model.posterior_.sd(method="mfvb")
    # by the delta method: f′ times the sd, to the square of a difference's step
    assert_allclose(table["mfvb_sd"]["exp(x)"], np.exp(mean["x"]) * mfvb_sd["x"], rtol=1e-5)
    assert_allclose(table["mfvb_sd"]["2*x"], 2 * mfvb_sd["x"], rtol=1e-12)
    assert table.notna().all(axis=None)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("exp(z)", "no quantity 'z'"),
        ("open(x)", "calls 'open'"),
        ("x.__class__", "quantity"),
        ("exp(x, 2)", "one argument"),
        ("log(x - 100)", "not a finite number"),
        ("exp(2)", "without a name"),
        ("(lambda: 1)()", "something other"),
        ("[x for x in x]", "quantity|expected"),
        ("exp(x) if 1 else 2", "something other"),
        ("exp('x')", "something other"),
    ],
)
def test_what_is_no_formula_is_refused(model, text, match):
    with pytest.raises(InvalidModel, match=match):
        model.contrast(text)


def test_names_are_whole_words():
    """The longest name wins, and none is found within another."""
    known = ["log(precision[1|g])", "x", "x:a[b]", "xx"]
    read = Expression("exp(x) * x:a[b] + log(precision[1|g]) + xx", known)
    assert sorted(read.names.values()) == known


def test_bad_requests_are_refused(model):
    for ask in (
        lambda: model.coef("h"),
        lambda: model.coef(what="median"),
        lambda: model.r2(prob=3),
    ):
        with pytest.raises(InvalidModel, match="must"):
            ask()


def test_an_effect_of_each_row_is_noise_and_offsets_are_no_effect():
    """With (1|obs) the rest is σ²_o + log(1 + 1/μ); log days is in μ, not in the fixed effects' share."""
    rng = np.random.default_rng(5)
    N = 150
    g, x, days = rng.integers(0, 10, N), rng.normal(size=N), rng.uniform(1, 30, N)
    eta = 0.3 * x + np.log(days) + rng.normal(0, 0.5, 10)[g] + rng.normal(0, 0.6, N)
    data = pd.DataFrame({"y": rng.poisson(np.exp(eta)), "x": x, "g": g, "days": days})
    data["obs"] = np.arange(N)
    text = "y ~ x + offset(log(days)) + (1|g) + (1|obs)"
    model = lrvb.MixedModel(text, "poisson").fit(data)
    draws = model.draws(4000, 0)
    group, own = draws["sd[1|g]"].values ** 2, draws["sd[1|obs]"].values ** 2
    level = draws["Intercept"].values + draws["x"].values * x.mean() + np.log(days).mean()
    rest = own + np.log1p(np.exp(-level - (group + own) / 2))
    assert_allclose(model.icc()["mean"]["g"], (group / (group + rest)).mean(), rtol=1e-9)
    fixed = draws["x"].values ** 2 * x.var()
    share = (fixed / (fixed + group + rest)).mean()
    assert_allclose(model.r2()["mean"]["marginal"], share, rtol=1e-9)


def test_noise_of_shares_is_theirs_over_the_slope():
    """Var y/(dE y/dη)² of a beta response, the slope by differences: O(h²) of them."""
    likelihood, given = likelihood_of("beta"), {"phi": np.array([1.0, 7.0, 90.0])}
    eta, h = np.array([-1.0, 0.3, 2.0]), 1e-5
    slope = (likelihood.mean(eta + h, given) - likelihood.mean(eta - h, given)) / (2 * h)
    expected = likelihood.variance(eta, given) / slope**2
    assert_allclose(noise_on_link(likelihood, eta, given), expected, rtol=1e-6)


@pytest.mark.parametrize("family", ["cumulative", "bernoulli", "binomial"])
def test_noise_of_categories_is_that_of_the_variable_behind_them(family):
    """A logistic variable, cut at thresholds, has the variance π²/3 wherever they are."""
    found = noise_on_link(likelihood_of(family), np.array([-1.0, 2.0]), {})
    assert_allclose(found, np.pi**2 / 3, rtol=1e-12)
