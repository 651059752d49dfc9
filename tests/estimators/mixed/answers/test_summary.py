"""The summary of a mixed model: sds and correlations are right, and it prints as expected."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from jax.scipy.special import gammaln
from numpy.testing import assert_allclose

import lrvb
from lrvb.engine.functions import at_natural, covariance_of_natural
from lrvb.estimators.mixed.answers.standard_deviations import inverse_mean, sd_table
from mixed_fits import FORMULAS, fitted, frame, mean_of_inverse


def test_the_inverse_of_an_inverse_wisharts_diagonal_is_gamma():
    """1/(Λ⁻¹)_ii ~ Gamma((ν − q + 1)/2, (W⁻¹)_ii/2), and E Λ⁻¹ = W⁻¹/(ν − q − 1)."""
    W = np.array([[1.0, 0.3, 0.1], [0.3, 0.5, -0.2], [0.1, -0.2, 2.0]])
    nu, q = 9.0, 3
    drawn = scipy.stats.wishart(nu, W).rvs(20_000, random_state=1)
    inverse = np.linalg.inv(drawn)
    for i in range(q):
        law = scipy.stats.gamma((nu - q + 1) / 2, scale=2 / np.linalg.inv(W)[i, i])
        assert scipy.stats.kstest(1 / inverse[:, i, i], law.cdf).pvalue > 0.001
    error = inverse.std(axis=0) / np.sqrt(len(inverse))
    np.testing.assert_array_less(
        np.abs(inverse.mean(axis=0) - np.linalg.inv(W) / (nu - q - 1)), 5 * error
    )


@pytest.mark.parametrize("name", ["slopes", "crossed", "rows"])
def test_sds_follow_the_natural_parameters(name):
    """Differentiating E_q λ^(-½) by autodiff gives the same linear response."""
    model = fitted(name)
    response = model.posterior_.response
    table = sd_table(model.design_, response, 0.9)

    def expected(eta):
        values = []
        for term in model.design_.terms:
            q = len(term.coefficients)
            block = eta[f"precision[{term.name}]" if q == 1 else f"Lambda[{term.name}]"]
            a = block[1] + 1
            for i in range(q):
                b = -block.x if q == 1 else -block.x[i, i]
                values.append((a, b))
        if "precision[residual]" in eta:
            values.append((eta["precision[residual]"].log_x + 1, -eta["precision[residual]"].x))
        a, b = (jnp.stack([jnp.asarray(pair[k]) for pair in values]) for k in (0, 1))
        return jnp.stack([jnp.sqrt(b) * jnp.exp(gammaln(a - 0.5) - gammaln(a)), b / (a - 1)])

    mean, square = at_natural(response, expected)
    assert_allclose(table["mean"], mean, rtol=1e-10)
    own = square - mean**2
    assert_allclose(table["mfvb_sd"], np.sqrt(own), rtol=1e-8)

    def just_means(eta):
        return expected(eta)[0]

    moved = np.diag(covariance_of_natural(response, just_means))
    explained = np.diag(covariance_of_natural(response, just_means, method="mfvb"))
    assert (explained <= own * (1 + 1e-10)).all()  # a projection
    assert_allclose(table["sd"], np.sqrt(moved - explained + own), rtol=1e-8)


def test_intervals_of_sds_are_those_of_precisions():
    """For a Gamma the interval of λ^(-½) is that of λ, transformed."""
    model = fitted("crossed")
    ours, precisions = model.summary(0.8), model.posterior_.summary(0.8)
    for name in ("1|g", "x|g", "1|h", "residual"):
        lower, upper = precisions.loc[f"precision[{name}]", ["lower", "upper"]]
        assert_allclose(ours[["lower", "upper"]].loc[f"sd[{name}]"], [upper**-0.5, lower**-0.5])


def test_correlations_are_those_of_draws():
    """Mean and sd within Monte Carlo error of other draws; the interval inside (−1, 1)."""
    model = fitted("slopes")
    row = model.summary(0.94).loc["corr[g][1,x]"]
    Sigma = np.linalg.inv(model.posterior_.draws(20_000, seed=5)["Lambda[g]"])
    corr = Sigma[:, 0, 1] / np.sqrt(Sigma[:, 0, 0] * Sigma[:, 1, 1])
    assert abs(row["mean"] - corr.mean()) < 5 * corr.std() * np.sqrt(2 / 20_000)
    assert_allclose(row["sd"], corr.std(), rtol=0.03)
    assert -1 < row["lower"] < row["mean"] < row["upper"] < 1
    assert row["mfvb_sd"] < row["sd"]


def test_sds_against_draws_of_the_posterior():
    """Draws of a precision have its mean and the sd of its log: 5 Monte Carlo errors of 40,000."""
    model = fitted("crossed")
    drawn = model.posterior_.draws(40_000, seed=2)["precision[1|g]"]
    mean, sd = model.posterior_.mean(), model.posterior_.sd()
    assert_allclose(drawn.mean(), mean["precision[1|g]"], rtol=5 * drawn.std() / drawn.mean() / 200)
    assert_allclose(np.log(drawn).std(), sd["log(precision[1|g])"], rtol=5 * 0.8 / 200)


def test_it_is_a_flat_table():
    summary = fitted("slopes").summary()
    assert list(summary.index) == [
        *("Intercept", "x", "w", "c[b]", "c[c]"),
        *("sd[1|g]", "sd[x|g]", "corr[g][1,x]", "sd[residual]"),
    ]
    assert list(summary.columns) == ["mean", "sd", "mfvb_sd", "lower", "upper", "verdict"]
    assert summary.loc["x", "sd"] == fitted("slopes").posterior_.sd("x").item()
    assert type(summary.loc[["x"]]) is pd.DataFrame
    assert type(summary[["mean"]]) is pd.DataFrame
    assert "Mixed model" not in repr(summary.head(2))


@pytest.mark.parametrize("name", FORMULAS)
def test_it_prints_what_a_statistician_expects(name):
    text = repr(fitted(name).summary())
    formula, family = FORMULAS[name]
    lines = text.split("\n")
    assert lines[0] == f"Mixed model: {formula}"
    assert f"Family: {family}" in lines[1]
    assert "Rows: 72; groups: g (12 levels)" in lines[2]
    assert "converged in" in lines[3]
    titles = ["Fixed effects", "Standard deviations and correlations of the random effects"]
    titles += ["Residual"] if family == "gaussian" else []
    at = [lines.index(title) for title in [*titles, "Priors"]]
    assert at == sorted(at)
    assert max(map(len, lines)) <= 110
    page = fitted(name).summary()._repr_html_()
    assert all(f"<h4>{title}</h4>" in page for title in titles)


def test_dropped_rows_and_stated_priors_are_said():
    data = frame()
    data.loc["row3", "x"] = np.nan
    prior = lrvb.prior.Normal(0, 1)
    model = lrvb.MixedModel("y ~ x + (1|g)", priors={"x": prior}, missing="drop").fit(data)
    text = repr(model.summary())
    assert "Rows: 71 (1 dropped for missing values)" in text
    assert [line.split()[-1] for line in text.split("\n") if "coefficient" in line] == [
        "default",
        "stated",
    ]


def test_without_fixed_effects_and_bad_arguments():
    summary = lrvb.MixedModel("y ~ 0 + (1|g)").fit(frame()).summary()
    assert list(summary.index) == ["sd[1|g]", "sd[residual]"]
    assert "Fixed effects" not in repr(summary)
    for prob in (0, 1, 94, "much", None):
        with pytest.raises(lrvb.InvalidModel, match="prob="):
            fitted("yes").summary(prob)
    with pytest.raises(lrvb.InvalidModel, match="call fit"):
        lrvb.MixedModel("y ~ (1|g)").summary()


def test_the_mean_of_an_inverse_precision():
    """E 1/τ of a gamma is that of SciPy's inverse gamma, E Λ⁻¹ of a Wishart of its inverse Wishart."""
    for name in ("slopes", "crossed", "counts"):
        response = fitted(name)._joint.precisions
        for block in response.alpha.blocks:
            assert_allclose(
                inverse_mean(response, block), mean_of_inverse(response, block), rtol=1e-10
            )


@pytest.mark.parametrize(
    ("name", "block", "params"),
    [
        ("crossed", "precision[1|g]", {"shape": 1.0, "rate": 2.0}),
        ("slopes", "Lambda[g]", {"dof": 3.0, "scale": np.eye(2)}),
    ],
)
def test_an_inverse_precision_without_a_mean(name, block, params):
    """Infinite, not negative, where the integral of 1/τ diverges: shape ≤ 1, or ν ≤ q + 1."""
    response = fitted(name)._joint.precisions
    alpha, fit = response.alpha, response.fit
    family, eta = alpha.blocks[block], fit.eta.copy()
    for less in (0.0, 0.3):
        stated = {
            key: value - less if key in ("shape", "dof") else value for key, value in params.items()
        }
        eta[alpha.slices[block]] = family.flatten(family.from_params(**stated), natural=True)
        at = replace(response, fit=replace(fit, point=replace(fit.point, eta=eta)))
        assert np.all(np.isposinf(inverse_mean(at, block)))
