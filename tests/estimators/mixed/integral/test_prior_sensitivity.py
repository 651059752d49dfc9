"""Sensitivity of a mixed model to its priors: against reweighted draws, and against new integrations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.estimators.mixed.integral.fit import integrate_model
from mixed_fits import fitted

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
