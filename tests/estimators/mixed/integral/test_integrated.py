"""Mixed models with integrated hyperparameters: quadrature, brute force, and the truth of real data."""

from __future__ import annotations

import functools
import importlib.util
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, gammaln, logsumexp

import lrvb
from lrvb.integrated.mode import NoMode
from mixed_fits import frame

HALF_T = lrvb.prior.HalfStudentT(3, 2.5)
CASES = Path(__file__).resolve().parents[5] / "shared" / "mixed_cases"
TOOL = CASES.parent / "tools" / "mixed_cases.py"


def rows(groups: int = 8, size: int = 4, sd: float = 0.8, seed: int = 0) -> pd.DataFrame:
    """Few rows in few groups, with one response a family."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(groups), size)
    x = rng.normal(size=len(g))
    eta = 0.3 + 0.5 * x + sd * rng.normal(size=groups)[g]
    return pd.DataFrame(
        {
            "y": eta + 0.7 * rng.normal(size=len(g)),
            "k": rng.poisson(np.exp(eta)),
            "b": (rng.random(len(g)) < expit(eta)).astype(float),
            "x": x,
            "g": [f"g{i}" for i in g],
        }
    )


@functools.cache
def model(response: str, family: str) -> lrvb.MixedModel:
    priors = {"fixed": lrvb.prior.Normal(0, 3), "1|g": HALF_T}
    return lrvb.MixedModel(f"{response} ~ x + (1|g)", family, priors).fit(rows())


# ---- against quadrature -----------------------------------------------------------------------


def gaussian_truth() -> dict[str, tuple[float, float]]:
    """Means and sds by a grid over (log sd, log residual sd); β and levels are normal given them."""
    data = rows()
    X = np.column_stack([np.ones(len(data)), data.x])
    Z = pd.get_dummies(data.g).to_numpy(float)
    C, y = np.hstack([X, Z]), data.y.to_numpy()
    grid = np.linspace(-5, 2.5, 161), np.linspace(-1.5, 1.2, 81)
    log_w, mean, square, sds = [], [], [], []
    scale = model("y", "gaussian").priors_.residual.scale
    residual = lrvb.prior.HalfStudentT(3, scale)
    for a in grid[0]:
        for s in grid[1]:
            P = np.diag(np.r_[np.full(2, 1 / 9), np.full(Z.shape[1], np.exp(-2 * a))])
            S = np.linalg.inv(C.T @ C * np.exp(-2 * s) + P)
            m = S @ C.T @ y * np.exp(-2 * s)
            value = np.linalg.slogdet(S)[1] / 2 - Z.shape[1] * a - len(y) * s
            value += (m @ C.T @ y - y @ y) * np.exp(-2 * s) / 2
            value += HALF_T.log_density(np.exp(a)) + a + residual.log_density(np.exp(s)) + s
            log_w.append(value)
            mean.append(m)
            square.append(m**2 + np.diag(S))
            sds.append(np.exp([a, s]))
    w = np.exp(log_w - logsumexp(log_w))
    first, second, h = w @ np.array(mean), w @ np.array(square), np.array(sds)
    sd = np.sqrt(second - first**2)
    spread = w @ h, np.sqrt(w @ (h - w @ h) ** 2)
    names = ["Intercept", "x", *sorted(set(data.g)), "sd[1|g]", "sd[residual]"]
    return dict(
        zip(names, zip(np.r_[first, spread[0]], np.r_[sd, spread[1]], strict=True), strict=True)
    )


def test_a_gaussian_response_against_quadrature():
    """Fixed effects, levels and sds to three digits, or 2 % of an sd that is Monte Carlo's."""
    fit, truth = model("y", "gaussian"), gaussian_truth()
    table, levels = fit.summary(), fit.ranef("1|g")
    for name, (mean, sd) in truth.items():
        ours = table.loc[name] if name in table.index else levels.loc[name]
        error = 5e-3 if not name.startswith("sd[") else 3e-2
        assert abs(ours["mean"] - mean) < error * sd, name
        assert abs(ours["sd"] / sd - 1) < error, name
    assert (table["verdict"] == "trust").all()


def binary_draws(n: int = 200_000) -> dict[str, np.ndarray]:
    """Brute force: prior draws of everything around the fit, weighed by the rows."""
    data, rng = rows(), np.random.default_rng(1)
    post = model("b", "bernoulli").posterior_
    mean, sd = post.mean(["Intercept", "x"]).to_numpy(), post.sd(["Intercept", "x"]).to_numpy()
    beta = mean + 1.5 * sd * rng.normal(size=(n, 2))
    log_q = -(((beta - mean) / (1.5 * sd)) ** 2).sum(1) / 2
    spread = np.abs(rng.standard_t(3, size=n)) * 2.5
    z = spread[:, None] * rng.normal(size=(n, 8))
    codes = np.repeat(np.arange(8), 4)
    eta = beta[:, [0]] + beta[:, [1]] * data.x.to_numpy() + z[:, codes]
    y = data.b.to_numpy()
    log_p = (y * eta - np.logaddexp(0, eta)).sum(1) - (beta**2).sum(1) / 18
    w = np.exp(log_p - log_q - (log_p - log_q).max())
    return {"beta": beta, "sd": spread, "z": z, "w": w / w.sum()}


def test_zeros_and_ones_against_brute_force():
    """Means of β, sd, a level and predictions of a known and a new level, within 4 of its errors."""
    fit, d = model("b", "bernoulli"), binary_draws()
    w = d["w"]

    def close(values, found, slack=0.0):
        mean = w @ values
        error = np.sqrt(w**2 @ (values - mean) ** 2)
        spread = np.sqrt(w @ (values - mean) ** 2)
        assert abs(found - mean) < 4 * error + 0.03 * spread + slack
        return spread

    table = fit.summary()
    close(d["beta"][:, 1], table.loc["x", "mean"])
    close(d["sd"], table.loc["sd[1|g]", "mean"])
    levels = fit.ranef("1|g")
    sd = close(d["z"][:, 3], levels.loc["g3", "mean"])
    assert_allclose(levels.loc["g3", "sd"], sd, rtol=0.08)
    new = pd.DataFrame({"x": [0.5, 0.5], "g": ["g3", "another"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrvb.errors.NewLevels)
        ours = fit.predict(new, interval=0.8)
        observed = fit.predict(new, kind="response")
    fixed = d["beta"] @ [1, 0.5]
    fresh = d["sd"] * np.random.default_rng(2).normal(size=len(w))
    for i, effect in enumerate([d["z"][:, 3], fresh]):
        p = expit(fixed + effect)
        sd = close(p, ours["mean"].iloc[i])
        assert_allclose(ours["sd"].iloc[i], sd, rtol=0.05)
        order = np.argsort(p)
        ends = np.interp([0.1, 0.9], np.cumsum(w[order]), p[order])
        assert np.abs(ours[["lower", "upper"]].to_numpy()[i] - ends).max() < 0.03
        assert_allclose(observed["sd"].iloc[i], np.sqrt((w @ p) * (1 - w @ p)), rtol=0.03)
    cov = fit.posterior_.local("1|g")["cov"].sel(g="g3", quantity="Intercept").item()
    z, b = d["z"][:, 3], d["beta"][:, 0]
    assert abs(cov - w @ ((z - w @ z) * (b - w @ b))) < 0.06


def test_evidence_of_counts_against_quadrature():
    """log p(y) by a grid over (β, log sd) and Gauss–Hermite over each level."""
    fit, data = model("k", "poisson"), rows()
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    post = fit.posterior_
    ends = np.linspace(-5.5, 5.5, 25)
    at = [post.mean(n).item() + post.sd(n).item() * ends for n in ("Intercept", "x")]
    spreads = np.linspace(-5, 2.2, 60)
    y, x = data.k.to_numpy(float), data.x.to_numpy()
    total = []
    for a in at[0]:
        for b in at[1]:
            eta = (a + b * x)[:, None, None] + np.exp(spreads)[:, None] * nodes
            log_p = y[:, None, None] * eta - np.exp(eta) - gammaln(y + 1)[:, None, None]
            levels = log_p.reshape(8, 4, len(spreads), -1).sum(1)
            inner = logsumexp(levels, axis=2, b=weights / weights.sum()).sum(0)
            prior = -(a**2 + b**2) / 18 - np.log(2 * np.pi * 9)
            total.append(inner + prior + HALF_T.log_density(np.exp(spreads)) + spreads)
    step = (at[0][1] - at[0][0]) * (at[1][1] - at[1][0]) * (spreads[1] - spreads[0])
    truth = logsumexp(total) + np.log(step)
    assert abs(fit.log_evidence_ - truth) < 0.05
    assert fit.elbo_ == fit.log_evidence_ == fit.certificate_.log_evidence


# ---- one name for everything ------------------------------------------------------------------


@pytest.mark.parametrize("factorization", ["blocked", "variational", "mean_field"])
def test_what_the_summary_prints_can_be_asked_for(factorization):
    """Means and sds by every name of the summary, and covariances that contrasts use."""
    formula = "y ~ x + (1 + x | g) + (1 | h)"
    fit = lrvb.MixedModel(formula, factorization=factorization).fit(frame())
    table, post = fit.summary(), fit.posterior_
    names = list(table.index)
    assert_allclose(post.mean(names), table["mean"], rtol=1e-9)
    assert_allclose(post.sd(names), table["sd"], rtol=1e-9)
    assert_allclose(post.sd(names, "mfvb"), table["mfvb_sd"], rtol=1e-9)
    assert np.linalg.eigvalsh(post.corr(names)).min() > -1e-8
    both = fit.contrast("sd[1|g] - sd[residual]").iloc[0]
    c = np.array([1.0, -1.0])
    cov = post.cov(["sd[1|g]", "sd[residual]"]).to_numpy()
    assert_allclose(both["sd"], np.sqrt(c @ cov @ c), rtol=1e-9)
    assert list(post.local("1|g")["quantity"].values) == post.names
    again = post.local("x|g")["cov"].sel(quantity="sd[x|g]")
    assert np.isfinite(again).all()


def test_draws_are_of_the_posterior_and_survive_a_file(tmp_path):
    fit = model("y", "gaussian")
    drawn = fit.posterior_.draws(20_000, seed=1)
    table = fit.posterior_.summary(0.8)
    for name in ("sd[1|g]", "sd[residual]", "log(precision[1|g])"):
        assert_allclose(
            drawn[name].mean(), table.loc[name, "mean"], atol=0.03 * table.loc[name, "sd"]
        )
        ends = np.quantile(drawn[name], [0.1, 0.9])
        assert_allclose(
            ends, table[["lower", "upper"]].loc[name], atol=0.05 * table.loc[name, "sd"]
        )
    cov = np.cov(drawn["beta"].T)
    assert_allclose(cov, fit.posterior_.cov(["Intercept", "x"]), rtol=0.05, atol=1e-3)
    path = fit.posterior_.save(tmp_path / "fit.npz")
    again = lrvb.load(path)
    pd.testing.assert_frame_equal(again.summary(), fit.posterior_.summary())
    assert_allclose(again.draws(50)["beta"], fit.posterior_.draws(50)["beta"])
    assert_allclose(again.local("1|g")["cov"], fit.posterior_.local("1|g")["cov"])


def test_a_precision_without_a_mean_is_refused_with_what_to_ask():
    with pytest.raises(lrvb.InvalidModel, match=r"no finite mean.*log\(precision\[1\|g\]\)"):
        model("y", "gaussian").posterior_.sd("precision[1|g]")
    priors = {"1|g": lrvb.prior.Gamma(2, 1)}
    stated = lrvb.MixedModel("y ~ x + (1|g)", "gaussian", priors).fit(rows())
    assert stated.posterior_.sd("precision[1|g]").item() > 0


# ---- verdicts ---------------------------------------------------------------------------------


def test_what_cannot_be_summed_is_a_gaussian_block_that_says_so():
    rng = np.random.default_rng(1)
    g, h, x = rng.integers(40, size=600), rng.integers(30, size=600), rng.normal(size=600)
    slope = 0.4 + 0.4 * rng.normal(size=40)[g]
    eta = 0.5 + slope * x + 0.6 * rng.normal(size=40)[g] + 0.5 * rng.normal(size=30)[h]
    data = pd.DataFrame({"count": rng.poisson(np.exp(eta)), "x": x, "g": g, "h": h})
    fit = lrvb.MixedModel("count ~ x + (x | g) + (1 | h)", "poisson", {"1|h": HALF_T}).fit(data)
    assert set(fit.summary()["verdict"]) <= {"trust", "approximate"}
    assert "two grouping factors with slopes" in repr(fit.summary())
    assert "every level's own sum" in repr(fit.summary())
    assert fit.certificate_.method == "block"
    assert fit.ranef("x|g")["sd"].gt(0).all()


def test_a_variational_fit_is_what_is_asked_for():
    priors = {"1|g": HALF_T}
    with pytest.raises(lrvb.InvalidModel, match=r"lrvb\.prior\.Gamma"):
        lrvb.MixedModel("b ~ x + (1|g)", "bernoulli", priors, "variational").fit(rows())
    fit = lrvb.MixedModel("b ~ x + (1|g)", "bernoulli", factorization="variational").fit(rows())
    assert set(fit.summary()["verdict"]) == {"approximate"}
    assert fit.certificate_.method == "variational"


def test_work_beyond_what_is_worth_its_time_is_a_gaussian_block(monkeypatch):
    """It is as good as the sums that it stands in for: within its own estimate of its error."""
    exact = lrvb.MixedModel("b ~ x + (1|g)", "bernoulli").fit(rows())
    monkeypatch.setattr("lrvb.integrated.effort.WORK", 1e3)
    fit = lrvb.MixedModel("b ~ x + (1|g)", "bernoulli").fit(rows())
    assert fit.certificate_.method == "block"
    assert "evaluations" in fit.certificate_.reason
    ours, theirs = fit.summary(), exact.summary()
    assert ((ours["mean"] - theirs["mean"]).abs() < 0.1 * theirs["sd"]).all()
    assert_allclose(ours["sd"], theirs["sd"], rtol=0.1)
    assert abs(fit.log_evidence_ - exact.log_evidence_) < 0.1


def test_sums_that_nothing_stands_in_for_are_worth_their_time(monkeypatch):
    """Where a block has no mode, what was too much work is done: with the answers of the same sums."""
    exact = lrvb.MixedModel("b ~ x + (1|g)", "bernoulli").fit(rows())
    integral = "lrvb.estimators.mixed.integral.fit"

    def none(*args, **kwargs):
        raise NoMode("There is no mode.")

    monkeypatch.setattr("lrvb.integrated.effort.WORK", 1e3)
    monkeypatch.setattr(f"{integral}.integrate_block", none)
    fit = lrvb.MixedModel("b ~ x + (1|g)", "bernoulli").fit(rows())
    assert fit.certificate_.method == "importance"
    ours, theirs = fit.summary(), exact.summary()
    assert ((ours["mean"] - theirs["mean"]).abs() < 0.1 * theirs["sd"]).all()
    assert_allclose(ours["sd"], theirs["sd"], rtol=0.1)


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_few_levels_have_wide_intervals(groups):
    """The sd of two to five levels is known to a factor; its interval says so."""
    table = lrvb.MixedModel("y ~ x + (1|g)").fit(rows(groups, 10)).summary()
    row = table.loc["sd[1|g]"]
    assert row["lower"] < 0.8 < row["upper"]
    assert row["upper"] / row["lower"] > 4
    assert set(table["verdict"]) <= {"trust", "doubtful"}


def test_no_variation_between_groups_leaves_an_sd_against_zero():
    for response, family in [("y", "gaussian"), ("b", "bernoulli")]:
        table = (
            lrvb.MixedModel(f"{response} ~ x + (1|g)", family).fit(rows(12, 5, sd=0.0)).summary()
        )
        row = table.loc["sd[1|g]"]
        assert row["lower"] < 0.15
        assert abs(table.loc["x", "mean"] - 0.5) < 3.5 * table.loc["x", "sd"]


def test_one_row_a_group_and_one_group_that_dominates():
    data = rows(30, 1)
    assert np.isfinite(
        lrvb.MixedModel("b ~ x + (1|g)", "bernoulli").fit(data).summary()["sd"]
    ).all()
    big = pd.concat([rows(1, 200, seed=3), rows(6, 2, seed=4).assign(g=lambda d: "s" + d.g)])
    table = lrvb.MixedModel("k ~ x + (1|g)", "poisson").fit(big).summary()
    assert abs(table.loc["x", "mean"] - 0.5) < 3.5 * table.loc["x", "sd"]


def test_separated_rows_are_fitted_with_the_default_prior_and_refused_with_a_flat_one():
    data = rows(8, 4).assign(b=lambda d: (d.x > 0).astype(float))
    row = lrvb.MixedModel("b ~ x + (1|g)", "bernoulli").fit(data).summary().loc["x"]
    assert row["lower"] > 0
    assert row["sd"] > 1
    flat = {"x": lrvb.prior.Normal(0, np.inf)}
    with pytest.raises(lrvb.InvalidData, match="separated perfectly"):
        lrvb.MixedModel("b ~ x + (1|g)", "bernoulli", flat).fit(data)


def test_equal_responses_are_refused_or_left_to_the_prior():
    with pytest.raises(lrvb.InvalidData, match="in every row"):
        lrvb.MixedModel("y ~ x + (1|g)").fit(rows().assign(y=1.0))
    table = lrvb.MixedModel("b ~ x + (1|g)", "bernoulli").fit(rows().assign(b=1.0)).summary()
    assert table.loc["Intercept", "lower"] > 0


def test_units_change_nothing():
    """Responses and columns in other units and origins: the same answers, to rounding of the same draws."""
    data = rows()
    other = data.assign(y=1000 + 50 * data.y, x=300 + data.x / 7)
    one, two = (lrvb.MixedModel("y ~ x + (x|g)").fit(d).summary() for d in (data, other))
    assert_allclose(
        two.loc["x", ["mean", "sd"]].astype(float),
        350 * one.loc["x", ["mean", "sd"]].astype(float),
        rtol=2e-2,
    )
    assert_allclose(
        two.loc["sd[residual]", "mean"], 50 * one.loc["sd[residual]", "mean"], rtol=1e-2
    )
    assert_allclose(two.loc["sd[x|g]", "mean"], 350 * one.loc["sd[x|g]", "mean"], rtol=5e-2)


# ---- real data --------------------------------------------------------------------------------


@pytest.mark.skipif(not TOOL.exists(), reason="the real cases are not here")
@pytest.mark.parametrize("case", ["dyestuff2", "bacteria"])
def test_real_cases_are_within_their_limits(case, capsys):
    """Fixed effects within 0.1 sd and 5 %, sds within 0.15 sd and 10 % of the truth; no false trust."""
    spec = importlib.util.spec_from_file_location("mixed_cases", TOOL)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.one(case), capsys.readouterr().out


def test_draws_that_sums_cannot_cover_are_told_and_end_trust() -> None:
    """Where refused draws may have over a hundredth of the posterior nothing is trusted, which is said."""
    found = lrvb.MixedModel("y ~ 1 + (1|g)").fit(
        {"y": np.arange(24.0) % 7, "g": np.repeat(np.arange(6), 4)}
    )
    certificate = found.certificate_
    name = "Intercept"
    assert certificate.refused == 0
    assert certificate.verdict(name) == "trust"
    for refused, verdict in ((1, "trust"), (certificate.drawn // 50, "doubtful")):
        lost = certificate.lost + refused / certificate.drawn
        other = replace(certificate, refused=refused, lost=lost)
        assert other.verdict(name) == verdict
        assert f"{refused:,} with sds beyond what sums can cover" in other.sentence([name])


def test_sds_so_small_that_nested_sums_have_too_many_nodes():
    """Counts of e³ with row effects of sd 0.1: the block answers, near what was simulated, and says why."""
    rng = np.random.default_rng(0)
    g, x = np.repeat(np.arange(40), 5), rng.normal(size=200)
    eta = 3.0 + 0.3 * x + 0.5 * rng.normal(size=40)[g] + 0.1 * rng.normal(size=200)
    data = {"y": rng.poisson(np.exp(eta)), "x": x, "g": g, "row": np.arange(200)}
    model = lrvb.MixedModel("y ~ x + (1|g) + (1|row)", "poisson").fit(data)
    assert model.certificate_.method == "block"
    assert "nodes, since rows know a level" in model.certificate_.reason
    found = model.summary().loc["sd[1|row]"]
    assert abs(found["mean"] - 0.1) < 3 * found["sd"]
