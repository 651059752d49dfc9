"""The certificate of a mixed model answers what all do, from the draws that are the answer itself."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.estimators.mixed.integral.certificate import _lost, _refused
from lrvb.integrated.importance import Budget, integrate
from lrvb.integrated.integral import Integral
from lrvb.integrated.proposals import SplitT

COLUMNS = ["mean", "sd", "lower", "upper", "lrvb_mean", "lrvb_sd", "shift", "ratio", "mcse"]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    g = rng.integers(12, size=150)
    x = rng.normal(size=150)
    rate = np.exp(0.4 + 0.3 * x + 0.5 * rng.normal(size=12)[g])
    return pd.DataFrame({"x": x, "g": g.astype(str), "y": rng.poisson(rate)})


@pytest.fixture(scope="module", params=["poisson", "gaussian"])
def model(request: pytest.FixtureRequest, table: pd.DataFrame) -> lrvb.MixedModel:
    return lrvb.MixedModel("y ~ x + (1|g)", request.param).fit(table)


def test_it_is_the_posteriors_certificate_with_the_columns_of_all(model: lrvb.MixedModel) -> None:
    """One object by both names, whose table has the numbers of the model's own."""
    found = model.posterior_.certificate
    assert found is model.certificate_ is model.posterior_.certify()
    shown, summary = model.summary(0.9), found.summary(0.9)
    assert list(summary.columns) == [*COLUMNS, "sd_error", "verdict", "why"]
    same = ["mean", "sd", "lower", "upper"]
    np.testing.assert_array_equal(summary.loc[shown.index, same], shown[same])
    assert list(summary.loc[shown.index, "verdict"]) == list(shown["verdict"])
    assert summary["why"].str.contains("effective").all()
    np.testing.assert_allclose(summary["mcse"], found.mean_error[summary.index] * summary["sd"])


def test_certified_moments_are_the_answers_own(model: lrvb.MixedModel) -> None:
    posterior = model.posterior_
    np.testing.assert_array_equal(posterior.mean(method="certified"), posterior.mean())
    np.testing.assert_array_equal(posterior.cov(method="certified"), posterior.cov())


def test_its_draws_have_the_tables_mean_and_sd(model: lrvb.MixedModel) -> None:
    """n draws of the weighted ones: their mean is off by no more than five standard errors, the sd alike."""
    n, posterior = 20_000, model.posterior_
    drawn = model.certificate_.draws(n, seed=3)["sd[1|g]"]
    mean, sd = posterior.mean("sd[1|g]").iloc[0], posterior.sd("sd[1|g]").iloc[0]
    kurtosis = ((drawn - drawn.mean()) ** 4).mean() / drawn.var() ** 2
    assert abs(drawn.mean() - mean) < 5 * sd / np.sqrt(n)
    assert abs(drawn.std() / sd - 1) < 5 * np.sqrt((kurtosis - 1) / n) / 2
    tree = model.certificate_.to_arviz(50, seed=3)
    assert tree["posterior"]["sd[1|g]"].size == 50


def test_a_saved_model_has_it_too(model: lrvb.MixedModel, tmp_path) -> None:
    read = lrvb.load(model.save(tmp_path / "model.npz"))
    assert read.posterior_.certificate is read.certificate_
    pd.testing.assert_frame_equal(read.certificate_.summary(), model.certificate_.summary())
    assert repr(read.certificate_) == repr(model.certificate_)


def test_other_draws_are_for_another_fit(model: lrvb.MixedModel) -> None:
    with pytest.raises(lrvb.InvalidModel, match="infer again"):
        model.posterior_.certify(draws=4096)
    with pytest.raises(lrvb.InvalidModel, match="n=0 must be a whole number"):
        model.certificate_.draws(0)


def test_a_variational_fit_has_none_and_says_why(table: pd.DataFrame) -> None:
    fit = lrvb.MixedModel("y ~ x + (1|g)", "poisson", factorization="mean_field").fit(table)
    assert fit.posterior_.certificate is None
    assert "by variational" in repr(fit.certificate_)
    with pytest.raises(lrvb.InvalidModel, match="no draws of the exact posterior"):
        fit.certificate_.summary()


def test_its_figure_shows_the_draws_and_mean_field(model: lrvb.MixedModel) -> None:
    """What linear response would be is the answer itself, and is not drawn twice."""
    ax = lrvb.plot.certificate(model.certificate_)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["certified (importance)", "mean field"]
    assert [label.get_text() for label in ax.get_yticklabels()] == model.certificate_.names


def test_draws_left_out_are_the_reason_where_they_are_too_many(model: lrvb.MixedModel) -> None:
    """They may have a fiftieth of one quantity: its verdict is not "trust", and the sentence says why."""
    found = model.certificate_
    lost = found.lost.copy()
    lost["x"] = 0.02
    less = replace(found, refused=3, lost=lost)
    assert found.verdict("x") == "trust"
    assert less.verdict("x") == "doubtful"
    assert less.verdict("Intercept") == "trust"
    assert "may have more than 1% of the posterior, or of the variance of x" in less.sentence(["x"])
    assert "Monte Carlo" not in less.sentence(["x"])
    unknown = replace(found, refused=found.drawn // 50, lost=found.lost[:0])
    assert unknown.verdict("x") == "doubtful"


@pytest.mark.parametrize(("end", "sign"), [(-3.0, -1), (3.4, 1)])
def test_what_draws_beyond_the_sums_have_is_told_by_those_before(end: float, sign: int) -> None:
    """θ = log sd, sd ~ half-t(3): P(sd < e⁻³), and what sds above e^3.4 add to the variance, to a quarter."""
    prior = lrvb.prior.HalfStudentT(3.0, 1.0)
    theta = np.linspace(-30, 30, 200_001)
    p = np.exp(prior.log_density(np.exp(theta)) + theta)
    p /= p.sum()
    away = (np.exp(theta) - p @ np.exp(theta)) ** 2
    beyond = sign * theta > sign * end
    exact = p[beyond].sum() if sign < 0 else (p * away)[beyond].sum() / (p @ away)

    def target(x: np.ndarray) -> np.ndarray:
        known = prior.log_density(np.exp(x[:, 0])) + x[:, 0]
        return np.where(sign * x[:, 0] > sign * end, -np.inf, known)

    start = SplitT(np.zeros(1), np.eye(1), np.full(1, 2.0), np.full(1, 2.0), 3.0)
    weighted = integrate(target, start, budget=Budget(final=8192, rounds=0))
    inside: Any = SimpleNamespace(kinds=["log"])
    integral = Integral(weighted.x, weighted, inside=inside)
    at, sds = weighted.heavy(0.0), np.exp(weighted.x)
    refused = _refused(integral)
    assert refused.sum() == np.isneginf(weighted.log_p).sum() > 0
    values = np.ones_like(sds) if sign < 0 else (sds - weighted.mean(sds)) ** 2
    found = _lost(integral, refused, at, values[at])
    assert_allclose(found, exact, rtol=0.25)
