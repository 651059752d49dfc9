"""A certificate confirms what is right, repairs what it can, and never trusts what is wrong."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from checked_models import BY_NAME, Regression, StudentT, counts, regression
from numpy.testing import assert_allclose

import lrvb
from lrvb.posterior.certification import Certifier
from lrvb.posterior.estimate import estimate_of
from lrvb.posterior.purse import Purse
from lrvb.posterior.sampling import Sampling
from lrvb.posterior.target import Target
from lrvb.studies.reference import normal_poisson, simulate
from mixtures import overlapping

VERDICTS = {"trust", "repaired", "doubtful", "do not trust"}


def test_a_gaussian_posterior_is_confirmed():
    """The density is linear response's normal to rounding: constant weights, and every draw counts."""
    posterior = regression()
    target = Target(posterior.response)
    u = target.center + np.random.default_rng(0).normal(size=(50, 2)) @ target.root.T
    normal = scipy.stats.multivariate_normal(target.center, target.root @ target.root.T)
    assert np.ptp(target(u) - normal.logpdf(u)) < 1e-10
    certificate = posterior.certificate
    assert certificate.exact
    assert certificate.k_hat < 0.1
    assert_allclose(certificate.weights, 1 / 1024, rtol=1e-9)
    assert_allclose(certificate.ess, 1024, rtol=1e-9)
    assert (posterior.summary()["verdict"] == "trust").all()
    found = certificate.summary()
    assert (np.abs(found["mean"] - found["lrvb_mean"]) < 4 * found["mcse"]).all()
    assert_allclose(
        certificate.log_evidence, posterior.response.fit.elbo + _loop(posterior), atol=1e-9
    )


def _loop(posterior):
    """−½ log det(I − VH), exact here."""
    return -np.log(np.diag(posterior.response.fit.curved.K)).sum()


@pytest.mark.parametrize("name", ["GammaPoisson", "NormalMixture", "NormalPoisson-tilted"])
def test_planted_errors_are_never_trusted(name):
    """Σ̂ halved, in the answer and in the proposal; means half an sd away."""
    response = BY_NAME[name].response()
    halved = replace(response, Sigma=response.Sigma / 2)
    certificate = Certifier(halved, estimate_of(halved)).certify(starts=0)
    named = [i for i, label in enumerate(response.alpha.names()) if label is not None]
    true = Certifier(response, estimate_of(response)).certify(starts=0)
    wrong = true.summary()["ratio"].to_numpy() < 1.15  # the half of it is an error
    verdicts = np.array([verdict for verdict, _ in certificate.verdicts])
    assert not (verdicts[wrong] == "trust").any()
    sd = np.sqrt(np.diag(true.cov))
    moved = replace(estimate_of(response), m=true.mean + 0.5 * sd)
    assert len(named) == len(true.verdicts)
    found = Certifier(response, moved).certify(starts=0).verdicts
    assert "trust" not in [verdict for verdict, _ in found]


def test_heavy_tails_get_quantiles_and_no_trust():
    """No sd where the variance is infinite; the interval's ends are quantiles of the draws."""
    posterior = lrvb.infer(StudentT(), None, certify=False)
    certificate = posterior.certify(2048)
    exact = scipy.stats.t(2).ppf(0.95)
    assert_allclose(certificate.tail_index["theta"], 1 / 2, rtol=0.02)  # 1/df, seen by the density
    for table in (certificate.summary(0.9), posterior.summary(0.9)):
        row = table.loc["theta"]
        assert row["verdict"] == "do not trust"
        assert np.isnan(row["sd"])
        assert_allclose([-row["lower"], row["upper"]], exact, rtol=0.15)
    assert "tail index" in certificate.summary()["why"].iloc[0]
    assert "quantiles" in repr(posterior.summary())


@pytest.mark.parametrize("sd", [0.3, 0.6, 1.0])
def test_normal_poisson_agrees_with_quadrature(sd):
    """The sd of τ within 3 % of exact, where linear response has as little as 0.9 of it."""
    data = simulate.normal_poisson(np.random.default_rng(5), n=100, beta=1.0, sd=sd)
    data = {"x": data["x"], "y": data["y"]}
    exact = normal_poisson.exact(data["x"], data["y"])
    posterior = lrvb.infer(lrvb.models.NormalPoisson(), data, certify=False)
    found = posterior.certify(4096).summary()
    for name in ("beta", "log(tau)", "tau"):
        assert_allclose(found.loc[name, "sd"], exact.sd[name], rtol=0.03)
        error = abs(found.loc[name, "mean"] - exact.mean[name])
        assert error < 4 * found.loc[name, "mcse"]


def test_rows_that_are_not_linear_in_z_are_not_trusted():
    """Their density is a bound."""
    posterior = lrvb.summarize(BY_NAME["NormalPoisson-gaussian"].response())
    certificate = posterior.certify(256)
    assert not certificate.exact
    assert "trust" not in set(certificate.summary()["verdict"])
    assert "bound" in certificate.summary()["why"].iloc[0]


def test_repaired_rows_show_the_certified_numbers():
    """τ is skewed: its row changes, the others stay linear response's, and the print says so."""
    posterior = counts()
    summary, found = posterior.summary(), posterior.certificate.summary()
    assert summary.loc["tau", "verdict"] == "repaired"
    for column in ("mean", "sd", "lower", "upper"):
        assert summary.loc["tau", column] == found.loc["tau", column]
    assert summary.loc["beta", "mean"] == posterior.mean("beta").iloc[0]
    assert "certified numbers" in repr(summary)
    assert set(found["verdict"]) <= VERDICTS
    assert list(found.columns) == [
        *("mean", "sd", "lower", "upper", "lrvb_mean", "lrvb_sd"),
        *("shift", "ratio", "mcse", "verdict", "why"),
    ]


def test_certified_answers():
    """Means, sds, covariances and draws are those of the weighted draws."""
    posterior = counts()
    certificate = posterior.certificate
    assert_allclose(posterior.mean(method="certified"), certificate.summary()["mean"])
    assert_allclose(posterior.sd(method="certified"), certificate.summary()["sd"])
    assert_allclose(
        np.diag(posterior.cov(method="certified")) ** 0.5, posterior.sd(method="certified")
    )
    draws = certificate.draws(4000, seed=1)
    assert_allclose(
        draws["tau"].mean(), posterior.mean("tau", method="certified").iloc[0], rtol=0.02
    )
    ratio = certificate.of(lambda m: m.beta.x / m.tau.x)
    assert_allclose(ratio.loc[0, "mean"], (draws["beta"] / draws["tau"]).mean(), rtol=0.05)
    own = certificate.of(lambda m: jnp.stack([m.beta.x, m.tau.x]))  # as rows of the summary
    columns = ["mean", "sd", "lower", "upper", "lrvb_mean", "lrvb_sd", "mcse", "verdict"]
    for name, (_, row) in zip(("beta", "tau"), own.iterrows(), strict=True):
        pd.testing.assert_series_equal(
            row[columns], certificate.summary().loc[name, columns], check_names=False
        )
    assert certificate.to_arviz(50)["posterior"]["tau"].shape == (1, 50)
    unchecked = lrvb.summarize(BY_NAME["GammaPoisson"].response())
    assert unchecked.certificate is None
    assert (unchecked.summary()["verdict"] == "not checked").all()
    with pytest.raises(lrvb.InvalidModel, match="no certificate"):
        unchecked.sd(method="certified")
    named = certificate.of({"ratio": lambda m: m.beta.x / m.tau.x})
    assert list(named.index) == ["ratio"]
    np.testing.assert_array_equal(named["mean"], ratio["mean"])
    with pytest.raises(lrvb.InvalidModel, match="no block 'betta'; the blocks are: beta, tau"):
        certificate.of({"ratio": lambda m: m.betta.x})
    with pytest.raises(lrvb.InvalidModel, match="'pair' gives an array"):
        certificate.of({"pair": lambda m: jnp.stack([m.beta.x, m.tau.x])})


def test_a_certificate_is_saved(tmp_path):
    """Verdicts and certified numbers come back with the posterior."""
    posterior = counts()
    again = lrvb.load(posterior.save(tmp_path / "posterior.npz"))
    pd.testing.assert_frame_equal(again.summary(), posterior.summary())
    pd.testing.assert_frame_equal(again.certificate.summary(), posterior.certificate.summary())
    with pytest.raises(lrvb.InvalidModel, match="read from a file"):
        again.certify()
    unchecked = lrvb.infer(Regression(), regression().observed, certify=False)
    again = lrvb.load(unchecked.save(tmp_path / "unchecked.npz"))
    assert "certify()" not in repr(again.summary())
    with pytest.raises(lrvb.InvalidModel, match="a file holds no density"):
        again.certify()


def test_a_mixture_is_certified_in_its_own_units():
    """Columns in other units: the same verdicts, numbers and evidence in those units."""
    X, _ = overlapping()
    first, second = (
        lrvb.GaussianMixture(2, random_state=0).fit(data).posterior_
        for data in (X, X * [1e3, 1e-2] + [5e4, 1.0])
    )
    a, b = first.certificate.summary(), second.certificate.summary()
    assert_allclose(a["shift"], b["shift"], atol=1e-6)
    assert_allclose(a["ratio"], b["ratio"], rtol=1e-6)
    assert_allclose(b.loc["mu[0,0]", "mean"], 1e3 * a.loc["mu[0,0]", "mean"] + 5e4, rtol=1e-8)
    draws = second.certificate.draws(2000)
    assert_allclose(
        draws["mu"][:, 0, 0].mean(), b.loc["mu[0,0]", "mean"], atol=b.loc["mu[0,0]", "sd"]
    )
    assert_allclose(draws["pi"].sum(axis=1), 1.0, rtol=1e-9)
    evidence = first.certificate.log_evidence - len(X) * np.log(1e3 * 1e-2)
    assert_allclose(second.certificate.log_evidence, evidence, rtol=1e-9)
    assert first.elbo < first.certificate.log_evidence + 3 * first.certificate.log_evidence_error


def test_hmc_takes_over_where_weights_fail():
    """From a proposal twenty times too narrow, what is called sound agrees with the good one."""
    response = BY_NAME["NormalMixture"].response()
    far = replace(response, Sigma=response.Sigma / 400)
    certificate = Certifier(far, estimate_of(response)).certify(256, starts=0)
    exact = Certifier(response, estimate_of(response)).certify(4096, starts=0)
    found, true = certificate.summary(), exact.summary()
    sound = found["verdict"].isin(["trust", "repaired"])
    error = np.hypot(found["mcse"], true["mcse"])
    assert (np.abs(found["mean"] - true["mean"]) < 5 * error)[sound].all()


def test_chains_lean_on_control_variates():
    """HMC of a Gaussian posterior: a mean's control variates leave nothing of its Monte Carlo error."""
    posterior = regression()
    certifier, target = posterior._certifier, Target(posterior.response)
    sampling = Sampling(target, Purse(target, None, None), 256, 0)
    weighted = sampling.plain(256)
    found = certifier._of_chains(target, sampling.chains(weighted), weighted)
    table = found.summary()
    assert found.method == "hmc"
    assert_allclose(table["mean"], table["lrvb_mean"], rtol=1e-8)
    assert_allclose(table["sd"], table["lrvb_sd"], rtol=1e-8)
    assert (table["mcse"] < 1e-6 * table["sd"]).all()
    assert (table["verdict"] == "trust").all()
