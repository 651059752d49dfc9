"""A formula without random effects is a Bayesian regression, in every family."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import lrvb
from mixed_fits import frame

PRIORS = {"Intercept": lrvb.prior.Normal(0, 2), "x": lrvb.prior.Normal(0, 1)}


@functools.cache
def fitted(formula, family, stated=True):
    """One small regression."""
    return lrvb.MixedModel(formula, family, PRIORS if stated else None).fit(frame())


def log_p(family, data, eta):
    """log p of all rows at η (…, N)."""
    if family == "poisson":
        return (data["count"].to_numpy() * eta - np.exp(eta)).sum(-1)
    return (data["yes"].to_numpy() * eta - np.logaddexp(0, eta)).sum(-1)


@pytest.mark.parametrize(
    ("formula", "family"), [("count ~ x", "poisson"), ("yes ~ x", "bernoulli")]
)
def test_two_coefficients_agree_with_quadrature(formula, family):
    """On a grid of both; draws leave 5 % of an sd, as their verdict says."""
    data, model = frame(), fitted(formula, family)
    a, b = (np.linspace(-2, 3, 201), np.linspace(-2, 2.5, 201))
    A, B = np.meshgrid(a, b, indexing="ij")
    eta = A[..., None] + B[..., None] * data["x"].to_numpy()
    log = log_p(family, data, eta) - A**2 / 8 - B**2 / 2
    P = np.exp(log - log.max())
    P /= P.sum()
    summary = model.summary()
    for name, values in (("Intercept", A), ("x", B)):
        mean = (P * values).sum()
        sd = np.sqrt((P * (values - mean) ** 2).sum())
        assert abs(summary.loc[name, "mean"] - mean) < 0.05 * sd
        assert abs(summary.loc[name, "sd"] / sd - 1) < 0.05
        assert summary.loc[name, "verdict"] == "trust"
    cell = (a[1] - a[0]) * (b[1] - b[0])
    exact = log.max() + np.log(np.exp(log - log.max()).sum() * cell) - np.log(2 * 2 * np.pi)
    if family == "bernoulli":
        assert abs(model.log_evidence_ - exact) < 0.05


def test_a_gaussian_regression_is_students_t():
    """With flat priors of β and 1/σ² the marginals are t; HalfStudentT(1e4 wide) is flat in σ: one more."""
    data = frame()
    flat = {"fixed": lrvb.prior.Normal(0, 1e6), "residual": lrvb.prior.HalfStudentT(3, 1e6)}
    model = lrvb.MixedModel("y ~ x + c", priors=flat).fit(data)
    X, y = model.design_.X, model.design_.y
    n, p = X.shape
    b = np.linalg.lstsq(X, y, rcond=None)[0]
    dof = n - p - 1  # p(σ) ∝ 1 has one degree less than p(σ) ∝ 1/σ
    scale = np.sqrt(((y - X @ b) ** 2).sum() / dof * np.diag(np.linalg.inv(X.T @ X)))
    summary = model.summary(0.9)
    np.testing.assert_allclose(summary["mean"].iloc[:p], b, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(summary["sd"].iloc[:p], student(dof).std() * scale, rtol=0.01)
    np.testing.assert_allclose(
        summary["upper"].iloc[:p], b + student(dof).ppf(0.95) * scale, rtol=0.01
    )


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ x + c", "gaussian"),
        ("count ~ x", "negbinomial"),
        ("prop(s, n) ~ x", "binomial"),
        ("y ~ 1", "gaussian"),
    ],
)
def test_whatever_is_asked_is_answered(formula, family):
    """Summary, check, contrast, prediction, draws and sensitivity, as of any mixed model."""
    model = fitted(formula, family, stated=False)
    assert "Regression:" in repr(model.summary())
    assert "groups" not in repr(model.summary())
    assert (model.summary()["verdict"] == "trust").all()
    assert "convergence" in repr(model.check())
    assert np.isfinite(model.contrast("2*Intercept")["sd"]).all()
    new = frame(seed=3)
    for kind in ("mean", "response"):
        table = model.predict(new, interval=0.9, kind=kind)
        assert (table["lower"] <= table["mean"]).all()
        assert (table["mean"] <= table["upper"]).all()
    pd.testing.assert_frame_equal(model.predict(frame()), model.predict(), rtol=1e-9)
    pd.testing.assert_frame_equal(model.predict(groups="none"), model.predict())
    assert len(model.posterior_.draws(4, 0)["beta"]) == 4
    assert len(model.posterior_.prior_sensitivity())


def test_separated_rows_are_fitted_under_default_priors():
    """The likelihood has no maximum; the posterior is wide, and its mean far from zero."""
    data = pd.DataFrame({"x": np.linspace(-2, 2, 20), "y": np.repeat([0, 1], 10)})
    summary = lrvb.MixedModel("y ~ x", "bernoulli").fit(data).summary()
    assert summary.loc["x", "lower"] > 2
    assert summary.loc["x", "sd"] > 2
    assert summary.loc["x", "verdict"] == "trust"


def test_what_a_regression_has_not_is_said():
    """No levels, nothing to factorise, nothing to estimate."""
    model = fitted("y ~ x + c", "gaussian", stated=False)
    with pytest.raises(lrvb.LrvbError, match="no random effects; its coefficients are in summary"):
        model.ranef()
    with pytest.raises(lrvb.LrvbError, match="factorization='mean_field' would factorise"):
        lrvb.MixedModel("y ~ x", factorization="mean_field").fit(frame())
    with pytest.raises(lrvb.LrvbError, match="no effects at all"):
        lrvb.MixedModel("y ~ 0").fit(frame())
