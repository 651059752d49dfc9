"""Sensitivity of a mixed model to its priors: against reweighted draws, and against new integrations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.estimators.mixed.integral.fit import integrate_model
from mixed_fits import fitted, frame

NAMES = {
    "slopes": {"Intercept.mean", "x.sd", "1|g.scale", "x|g.df", "corr[g].eta", "residual.scale"},
    "yes": {"Intercept.mean", "x.sd", "1|g.scale", "1|g.df"},
}


def changed(model: lrvb.MixedModel, name: str, relative: float):
    """The estimate after another integration with one number of a prior moved."""
    ours = model.posterior_._sensitivity
    h, at = ours._stated[name]
    found = ours.found
    return integrate_model(found.design, at(h.value * (1 + relative)), found.standard).estimate


@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_a_prior_has_a_row(name):
    """By the names that `priors=` has."""
    table = fitted(name, "blocked").posterior_.prior_sensitivity()
    assert NAMES[name] <= set(table["hyperparameter"])
    assert set(table["quantity"]) == set(fitted(name, "blocked").posterior_.names)


@pytest.mark.parametrize(
    ("name", "number"),
    [("slopes", "1|g.scale"), ("slopes", "residual.scale"), ("yes", "1|g.scale")],
)
def test_means_and_sds_follow_a_prior(name, number):
    """Against integrations at ±10 %, each with a Monte Carlo error of about 0.01 sds."""
    model = fitted(name, "blocked")
    ours = model.posterior_._sensitivity
    h, _ = ours._stated[number]
    up, down = changed(model, number, 0.1), changed(model, number, -0.1)
    found = ours.prior_change(h)
    step = 0.2 * h.value
    assert_allclose(found.d_mean * step / ours.sd, (up.m - down.m) / ours.sd, atol=0.02)
    sds = [np.sqrt(np.diag(e.Sigma)) for e in (up, down)]
    assert_allclose(found.d_sd * step / ours.sd, (sds[0] - sds[1]) / ours.sd, atol=0.02)


def test_coefficients_follow_their_own_prior():
    """Of a gaussian model, by hand: dE[β]/db = Var(β)/s² for a prior N(b, s²)."""
    model = fitted("slopes", "blocked")
    ours = model.posterior_._sensitivity
    table = model.posterior_.prior_sensitivity("x")
    row = table[table["hyperparameter"] == "x.mean"].iloc[0]
    s = ours.priors.sd[list(ours.priors.names).index("x")]
    assert_allclose(row["d_mean"], model.posterior_.sd("x")["x"] ** 2 / s**2, rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_whole_steps_are_foretold(family):
    """By weights of the draws, and of β given θ in closed form, beside integrations at the whole steps.

    Those have a Monte Carlo error of about 0.01 sds each, and the weights at a step of an sd three times
    that; the priors are sharp enough for every step to move something by a fifth of an sd.
    """
    y = "y" if family == "gaussian" else "yes"
    priors = {"x": lrvb.prior.Normal(0.0, 0.3), "1|g": lrvb.prior.HalfNormal(0.8)}
    model = lrvb.MixedModel(f"{y} ~ x + (1|g)", family, priors=priors).fit(frame())
    ours = model.posterior_._sensitivity
    for number in ("x.mean", "x.sd", "1|g.scale"):
        found = ours.prior_change(ours._stated[number][0])
        sizes = []
        for step, foretold in zip(found.hyperparameter.steps, found.at_steps, strict=True):
            change = ours.refitted(found.hyperparameter, step, 0.94).change / ours.sd
            assert_allclose(foretold / ours.sd, change, atol=0.06)
            sizes.append(np.abs(change).max())
        assert max(sizes) > 0.2


def test_the_prior_of_a_smooth_is_followed():
    """Twice and half its scale, beside integrations there, to Monte Carlo's 0.01 sds each.

    The prior is sharp, so that either step moves something by a fifth of an sd at least.
    """
    priors = {"s(w)": lrvb.prior.HalfNormal(0.3)}
    model = lrvb.MixedModel("y ~ s(w) + (1|g)", "gaussian", priors=priors).fit(frame())
    ours = model.posterior_._sensitivity
    h = ours._stated["s(w).scale"][0]
    for step, foretold in zip(h.steps, ours.prior_change(h).at_steps, strict=True):
        change = ours.refitted(h, step, 0.94).change / ours.sd
        assert_allclose(foretold / ours.sd, change, atol=0.04)
        assert np.abs(change).max() > 0.2


def test_small_steps_foretold_are_derivatives():
    """Of every number of every prior: a central difference of what is foretold at ±1e-4."""
    for name in NAMES:
        ours = fitted(name, "blocked").posterior_._sensitivity
        for h, _ in ours._stated.values():
            d_mean = ours.prior_change(h).d_mean
            step = 1e-4 * (abs(h.value) or h.step)
            up, down = (ours._at_step(h, s) for s in (step, -step))
            slope = (up - down) / (2 * step)
            assert_allclose(d_mean, slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


RNG = np.random.default_rng(3)
CODES = np.repeat(np.arange(10), 6)
ETA = 0.4 + 0.5 * RNG.standard_normal(10)[CODES]
P = 1 / (1 + np.exp(-ETA))
TRIALS = np.tile([3, 5, 7, 9, 11, 13], 10)
RESPONSES = {
    "gaussian": ETA + 0.6 * RNG.standard_normal(60),
    "student": ETA + 0.5 * RNG.standard_t(4, 60),
    "lognormal": np.exp(ETA + 0.5 * RNG.standard_normal(60)),
    "poisson": RNG.poisson(np.exp(ETA)),
    "negbinomial": RNG.poisson(np.exp(ETA) * RNG.gamma(2, 0.5, 60)),
    "zero_inflated_poisson": RNG.poisson(np.exp(ETA)) * (RNG.uniform(size=60) < 0.8),
    "hurdle_poisson": RNG.poisson(np.exp(ETA)) * (RNG.uniform(size=60) < 0.8),
    "zero_inflated_negbinomial": RNG.poisson(np.exp(ETA) * RNG.gamma(2, 0.5, 60))
    * (RNG.uniform(size=60) < 0.8),
    "hurdle_negbinomial": RNG.poisson(np.exp(ETA) * RNG.gamma(2, 0.5, 60))
    * (RNG.uniform(size=60) < 0.8),
    "bernoulli": (RNG.uniform(size=60) < P).astype(int),
    "gamma": RNG.gamma(3, np.exp(ETA) / 3),
    "beta": RNG.beta(6 * P, 6 * (1 - P)),
    "binomial": RNG.binomial(TRIALS, P),
    "cumulative": 1 + np.digitize(ETA + RNG.logistic(size=60), [-0.5, 1.0]),
}


def test_every_likelihood_has_its_derivatives():
    """None is left out of the law below."""
    assert set(RESPONSES) == {name.partition("(")[0] for name in lrvb.likelihoods.FAMILIES}


@pytest.mark.parametrize("family", RESPONSES)
def test_derivatives_are_those_of_reweighted_draws(family):
    """Every number of a prior, each family: d/dε of means under the draws' weights times p_ε(θ)/p(θ).

    A central difference with a relative step of 1e-4 errs by its square; d_mean to 1e-5, and sds too, beyond
    the digits that a difference of sds loses.
    """
    data = pd.DataFrame({"y": RESPONSES[family], "n": TRIALS, "g": CODES.astype(str)})
    y = "prop(y, n)" if family == "binomial" else "y"
    ours = lrvb.MixedModel(f"{y} ~ 1 + (1|g)", family).fit(data).posterior_._sensitivity
    draws = ours.found.weighted
    within = np.zeros_like(draws.values)
    within[:, : draws.p] = (draws.root**2).sum(2)
    of_coefficients = {f"{name}.{field}" for name in ours.priors.names for field in ("mean", "sd")}
    checked = 0
    for name, (h, at) in ours._stated.items():
        if name in of_coefficients:
            continue  # by hand above
        step = 1e-4 * (abs(h.value) or h.step)
        ends = [ours._log_prior(at(h.value + s)) for s in (step, -step)]
        moments = []
        for log_p in np.array(ends) - np.mean(ends, axis=0):
            w = draws.weights * np.exp(log_p)
            w = w / w.sum()
            mean = w @ draws.values
            moments.append((mean, np.sqrt(w @ ((draws.values - mean) ** 2 + within))))
        d_mean, d_sd = ((up - down) / (2 * step) for up, down in zip(*moments, strict=True))
        found = ours.prior_change(h)
        assert_allclose(found.d_mean, d_mean, rtol=1e-5, atol=1e-5 * np.abs(d_mean).max())
        assert_allclose(found.d_sd, d_sd, rtol=1e-4, atol=1e-5 * np.abs(d_sd).max())
        checked += 1
    assert checked >= 2
