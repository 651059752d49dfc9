"""A certificate confirms what is right, repairs what it can, and never trusts what is wrong."""

from __future__ import annotations

import functools
import re
import time
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import lrvb
from cases import CASES
from lrvb.engine.density import CollapsedDensity
from lrvb.engine.modes import Modes
from lrvb.posterior.certification import Certifier
from lrvb.posterior.estimate import estimate_of
from lrvb.posterior.purse import Purse
from lrvb.posterior.sampling import Sampling
from lrvb.posterior.starts import look_around
from lrvb.posterior.target import Target
from lrvb.studies.reference import normal_poisson, simulate
from mixtures import overlapping

BY_NAME = {case.name: case for case in CASES}
VERDICTS = {"trust", "repaired", "doubtful", "do not trust"}


class Regression(lrvb.Model):
    """A Gaussian posterior: y ~ N(x·β, 1), β ~ N(0, I)."""

    global_blocks = {"beta": lrvb.MultivariateNormal(2)}

    def global_term(self, m):
        return -jnp.trace(m.beta.xx) / 2

    def local_term(self, m, z, row):
        return row.y * row.x @ m.beta.x - row.x @ m.beta.xx @ row.x / 2


class Squared(lrvb.Model):
    """y ~ N(θ², 0.1²): two modes, at ±√y."""

    global_blocks = {"theta": lrvb.Normal()}

    def global_term(self, m):
        fourth = 3 * m.theta.xx**2 - 2 * m.theta.x**4
        return -(fourth - 2 * 4.0 * m.theta.xx) / (2 * 0.1) - m.theta.xx / 50


class StudentT(lrvb.Model):
    """A t posterior with two degrees of freedom: no variance."""

    global_blocks = {"theta": lrvb.Normal()}

    def global_term(self, m):
        return -1.5 * jnp.log1p(m.theta.xx / 2)


@functools.cache
def regression() -> lrvb.Posterior:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 2)) + np.array([0.0, 1.0])
    data = {"x": x, "y": x @ [1.0, -1.0] + rng.normal(size=30)}
    return lrvb.infer(Regression(), data, certify=True)


@functools.cache
def counts() -> lrvb.Posterior:
    posterior = lrvb.summarize(BY_NAME["NormalPoisson-tilted"].response())
    posterior.certify()
    return posterior


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


def test_two_far_modes_are_never_trusted():
    """Each mode is nearly normal, and only the other starts can tell."""
    certificate = lrvb.infer(Squared(), None, init={"theta": {"loc": 2.0, "scale": 0.1}}).certify()
    assert certificate.k_hat < 0.7
    assert 0.4 < certificate.others < 0.6
    assert certificate.summary().loc["theta", "verdict"] == "do not trust"


class Product(lrvb.Model):
    """y ~ N(ab, 1): the signs of a and b are not known, and the two optima are about two sds apart."""

    global_blocks = {"a": lrvb.Normal(), "b": lrvb.Normal()}

    def global_term(self, m):
        return -(m.a.xx + m.b.xx) / 8

    def local_term(self, m, z, row):
        return row.y * m.a.x * m.b.x - m.a.xx * m.b.xx / 2


@pytest.mark.parametrize("y", [0.6, 1.1])
def test_optima_near_each_other_are_both_drawn_from(y):
    """By symmetry both means are zero; draws from one optimum alone are not believed."""
    posterior = lrvb.infer(Product(), {"y": np.full(5, y)}, certify=False)
    found = posterior.certify(seed=1).summary()
    exact = _by_grid(5, y)
    assert set(found["verdict"]) == {"repaired"}
    assert (np.abs(found["mean"]) < 4 * found["mcse"]).all()
    assert_allclose(found["sd"], exact, rtol=0.1)
    target = Target(posterior.response)
    sampling = Sampling(target, Purse(target, None, None), 512, 0)
    one = sampling.places[0].t().draw(512, 0)
    modes = look_around(sampling.target, posterior.response, 1, 12)
    assert not modes.others
    sampling.know(posterior.response, modes.near)
    weights = np.full(512, 1 / 512)
    here = one[(one - sampling.target.center) @ [1, 1] * np.sign(sampling.target.center[0]) > 0]
    assert 0.4 < sampling.missed(here, np.full(len(here), 1 / len(here))) < 0.6
    assert sampling.missed(np.concatenate([one[:256], -one[:256]]), weights) == 0


def _by_grid(n, y):
    """The sd of a and of b."""
    side = np.linspace(-12, 12, 801)
    a, b = np.meshgrid(side, side)
    p = np.exp(-(a**2 + b**2) / 8 - n * (y - a * b) ** 2 / 2)
    return np.sqrt((p * a**2).sum() / p.sum())


def test_too_few_other_starts_rule_nothing_out(monkeypatch):
    """Where hardly a fit from another start ends at an optimum, nobody has looked."""
    posterior = regression()
    monkeypatch.setattr("lrvb.posterior.certification.look_around", lambda *given: Modes(starts=2))
    found = posterior._certifier.certify()
    assert {verdict for verdict, _ in found.verdicts} == {"doubtful"}
    assert "other starts" in found.summary()["why"].iloc[0]


class Banana(lrvb.Model):
    """θ₁θ₂ observed: weights do not settle, so that a certificate would go all the way."""

    global_blocks = {"a": lrvb.Normal(), "b": lrvb.Normal()}

    def global_term(self, m):
        product = m.a.xx * m.b.xx - 6 * m.a.x * m.b.x
        return -product / 0.6 - (m.a.xx - 4 * m.a.x + m.b.xx - 4 * m.b.x) / 2


def test_a_budget_is_kept_and_what_it_leaves_open_is_doubtful(monkeypatch):
    """Passes are counted, seconds are foreseen from the passes before; nothing is trusted unlooked."""
    start = {"a": {"loc": 1.8, "scale": 0.3}, "b": {"loc": 1.7, "scale": 0.3}}
    certifier = lrvb.infer(Banana(), None, init=start, certify=False)._certifier
    asked = []

    def counted(self, points, gradient=False, at=CollapsedDensity.at):
        asked.append(len(points) * (3 if gradient else 1))
        time.sleep(1e-4 * len(points))
        return at(self, points, gradient)

    monkeypatch.setattr(CollapsedDensity, "at", counted)
    for limits, most in (({"passes": 300}, 300), ({"passes": 5000}, 5000), ({"budget": 0.3}, 4000)):
        asked.clear()
        found = certifier.certify(256, **limits)
        assert sum(asked) <= most
        assert "trust" not in {verdict for verdict, _ in found.verdicts}
    few = regression()._certifier.certify(1024, passes=1024)
    assert not few.looked
    assert {verdict for verdict, _ in few.verdicts} == {"doubtful"}
    assert "other modes" in few.summary()["why"].iloc[0]


class Rates(lrvb.Model):
    """120 gamma posteriors of rates, whose shapes are 50."""

    global_blocks = {"rate": lrvb.Gamma(batch=120)}

    def global_term(self, m):
        return jnp.sum(49 * m.rate.log_x - 25 * m.rate.x)


def test_a_hundred_parameters_within_a_budget():
    """Confirmed where draws can do it; with fewer than that takes, honestly doubtful."""
    certifier = lrvb.infer(Rates(), None, certify=False)._certifier
    assert Target(certifier.response).size == 120
    short = certifier.certify(1024, passes=128)
    assert len(short.weights) <= 128
    assert {verdict for verdict, _ in short.verdicts} <= {"doubtful", "do not trust"}
    found = certifier.certify(4096, passes=4096, starts=0)
    table = found.summary()
    error = table["sd"] / np.sqrt(2 * found.ess)
    exact = np.where([name.startswith("log") for name in table.index], np.nan, np.sqrt(50) / 25)
    known = np.isfinite(exact)
    assert (np.abs(table["sd"] - exact)[known] < 5 * error[known]).all()
    assert (table["verdict"] == "trust").mean() > 0.5
    assert "do not trust" not in set(table["verdict"])


def test_progress_counts_the_draws(capsys):
    """A bar on the standard error stream."""
    regression()._certifier.certify(1024, progress=True)
    shown = re.findall(r"(\d+)draw \[", capsys.readouterr().err)
    assert int(shown[-1]) >= 1024


def test_copies_under_other_labels_are_not_other_modes():
    """A mixture's certificate is local to one labelling, and says so."""
    case = BY_NAME["NormalMixture"]
    certificate = lrvb.summarize(case.response()).certify(4096)
    assert certificate.relabelled
    assert certificate.others < 0.01
    assert "labelling" in certificate.summary().attrs["note"]
    assert set(certificate.summary()["verdict"]) <= {"trust", "repaired"}


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


@pytest.mark.parametrize("certify", ["always", None, 3])
def test_certify_is_true_false_or_auto(certify):
    """Anything else is refused before the fit."""
    with pytest.raises(lrvb.InvalidModel, match="'auto', True or False"):
        lrvb.infer(StudentT(), None, certify=certify)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("draws", 10),
        ("draws", 1e3),
        ("draws", True),
        ("seed", -1),
        ("seed", "a"),
        ("budget", 0),
        ("passes", 1),
    ],
)
def test_arguments_are_refused_by_name(argument, value):
    """One sentence that names the argument and the value."""
    with pytest.raises(lrvb.InvalidModel, match=f"{argument}={value!r} must be"):
        regression().certify(**{argument: value})
