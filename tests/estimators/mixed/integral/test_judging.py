"""Variational mixed models beside the exact posterior under the same priors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import lrvb
from lrvb.prior import Gamma, Normal, Wishart

PRIORS = {"fixed": Normal(0, 3), "1|g": Gamma(2, 0.5)}


@pytest.fixture(scope="module")
def counts():
    """Counts in 20 groups."""
    rng = np.random.default_rng(4)
    g, x = np.repeat(np.arange(20), 8), rng.normal(size=160)
    eta = 0.2 + 0.4 * x + 0.8 * rng.normal(size=20)[g]
    return pd.DataFrame({"y": rng.poisson(np.exp(eta)), "x": x, "g": g})


@pytest.fixture(scope="module", params=["mean_field", "variational"])
def fitted(counts, request):
    """A model with its certificate."""
    model = lrvb.MixedModel("y ~ x + (1|g)", "poisson", PRIORS, request.param).fit(counts)
    before = model.summary()
    assert set(before["verdict"]) == {"approximate"}
    return model, before, model.posterior_.certify()


def test_certified_numbers_are_those_of_integration(fitted, counts):
    """The same draws as a fit that integrates under the same priors, beside the model's own numbers."""
    model, certificate = fitted[0], fitted[2]
    blocked = lrvb.MixedModel("y ~ x + (1|g)", "poisson", PRIORS).fit(counts)
    found, exact = certificate.summary(), blocked.posterior_.summary()
    names = list(model.posterior_.names)
    assert list(found.index) == names
    columns = ["mean", "sd", "lower", "upper"]
    assert_allclose(found[columns], exact.loc[names, columns], rtol=1e-12)
    assert_array_equal(found["lrvb_mean"], model.posterior_.mean())
    assert_array_equal(found["lrvb_sd"], model.posterior_.sd())
    assert_allclose(model.posterior_.mean(method="certified"), found["mean"])
    assert_allclose(model.posterior_.sd(method="certified"), found["sd"])
    assert certificate.log_evidence == blocked.log_evidence_


def test_verdicts_follow_from_the_difference(fitted):
    """Trusted within a tenth of an sd and 10 %, beyond Monte Carlo's error; otherwise repaired."""
    model, before, certificate = fitted
    found = certificate.summary()
    slack = found["mcse"] / found["sd"] + found["sd_error"]
    inside = (found["shift"].abs() <= 0.1) & (np.log(found["ratio"]).abs() <= np.log(1.1))
    outside = (found["shift"].abs() > 0.1 + slack) | (
        np.log(found["ratio"]).abs() > np.log(1.1) + slack
    )
    assert (found.loc[inside, "verdict"] == "trust").all()
    assert (found.loc[outside, "verdict"] == "repaired").all()
    now = model.summary()
    repaired = now["verdict"] == "repaired"
    assert repaired["sd[1|g]"] == (model.factorization == "mean_field")
    assert not repaired["x"]
    columns = ["mean", "sd", "lower", "upper"]
    assert_array_equal(now.loc[repaired, columns], found.loc[now.index[repaired], columns])
    assert_array_equal(now.loc[~repaired, columns], before.loc[~repaired, columns])
    assert ("repaired" in repr(now)) == repaired.any()
    assert "log evidence" in repr(now)


def test_planted_errors_are_not_trusted(fitted):
    """Means moved by half an sd, and variances halved."""
    _, _, certificate = fitted
    exact, own = certificate.estimate, certificate.judged
    at = [exact.index[name] for name in own.index]
    m, Sigma = exact.m[at], exact.Sigma[np.ix_(at, at)]
    right = replace(own, m=m, Sigma=Sigma)
    assert all(v == "trust" for v, _ in replace(certificate, judged=right).verdicts)
    for m_bad, S_bad in ((m + 0.5 * np.sqrt(np.diag(Sigma)), Sigma), (m, Sigma / 2)):
        wrong = replace(own, m=m_bad, Sigma=S_bad)
        assert all(v == "repaired" for v, _ in replace(certificate, judged=wrong).verdicts)


def test_a_file_keeps_verdicts_and_repaired_numbers(fitted, tmp_path):
    """The table is as it was, and says where it is from."""
    model, *_ = fitted
    again = lrvb.load(model.save(tmp_path / "model.npz"))
    pd.testing.assert_frame_equal(pd.DataFrame(again.summary()), pd.DataFrame(model.summary()))
    with pytest.raises(lrvb.InvalidModel, match="not saved with it"):
        again.posterior_.certify()


def test_slopes_have_a_wishart_and_correlations(counts):
    """Precision matrices and correlations are judged too, all by the same names."""
    priors = {"fixed": Normal(0, 3), "g": Wishart(4, np.eye(2))}
    model = lrvb.MixedModel("y ~ x + (x|g)", "poisson", priors, "mean_field").fit(counts)
    found = model.posterior_.certify().summary()
    assert list(found.index) == list(model.posterior_.names)
    assert {"Lambda[g][1,x]", "corr[g][1,x]", "sd[x|g]"} <= set(found.index)
    assert set(found["verdict"]) <= {"trust", "repaired", "doubtful"}


def test_integration_chooses_its_own_draws(fitted):
    """Other draws are refused in a sentence."""
    with pytest.raises(lrvb.InvalidModel, match="chooses its own draws"):
        fitted[0].posterior_.certify(draws=512)


def test_the_figure_has_the_factors_of_the_fit(fitted):
    """Mean field's bars are as long as its sds, beside linear response's and the certified ones."""
    model, certificate = fitted[0], fitted[2]
    bars = lrvb.plot.certificate(certificate, prob=0.9).collections
    found, length = certificate.summary(0.9), 2 * 1.6448536269514722
    for lines, sd in zip(bars[1:3], ("lrvb", "mfvb"), strict=True):
        drawn = [np.ptp(path.vertices[:, 0]) for path in lines.get_paths()]
        assert_allclose(drawn, length * model.posterior_.sd(method=sd) / found["sd"])
