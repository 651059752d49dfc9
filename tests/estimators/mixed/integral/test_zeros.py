"""Counts with zeros of their own: against sums on a grid, and what is predicted of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

import lrvb

PRIORS = {"Intercept": lrvb.prior.Normal(0, 2), "1|g": lrvb.prior.HalfNormal(1.0)}
GROUPS, EACH = 6, 10


def counts(hurdle: bool) -> dict[str, np.ndarray]:
    """Six groups of ten rows, a third of them zero beside those of the counts."""
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(GROUPS), EACH)
    rate = np.exp(1 + 0.5 * rng.normal(size=GROUPS)[g])
    y = rng.poisson(rate).astype(float)
    if hurdle:
        y = np.maximum(y, 1.0)
    return {"y": np.where(rng.uniform(size=len(g)) < 0.35, 0.0, y), "g": g}


@pytest.fixture(scope="module", params=["zero_inflated_poisson", "hurdle_poisson"])
def fitted(request) -> tuple[lrvb.MixedModel, dict[str, np.ndarray]]:
    data = counts(request.param.startswith("hurdle"))
    return lrvb.MixedModel("y ~ 1 + (1|g)", request.param, PRIORS).fit(data), data


def grid(hurdle: bool, data: dict) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Probabilities of intercept, sd and the zeros' own share, with each level summed."""
    beta, sd = np.linspace(-1.6, 3.0, 27), np.exp(np.linspace(-5, 1.4, 27))
    share = (np.arange(30) + 0.5) / 30
    z = np.linspace(-6, 6, 97)
    w = np.exp(-(z**2) / 2)
    B, S, P = np.meshgrid(beta, sd, share, indexing="ij")
    log_p = stats.norm.logpdf(B, 0, 2) + stats.halfnorm.logpdf(S) + np.log(S)
    mean = np.exp(beta[:, None, None] + sd[:, None] * z)  # (beta, sd, z)
    for k in range(GROUPS):
        rows = np.zeros((len(beta), len(sd), len(share), len(z)))
        for v in data["y"][data["g"] == k]:
            p = stats.poisson.pmf(v, mean)[:, :, None]
            zero = share[:, None] * (v == 0)
            if hurdle:
                more = (v > 0) * (1 - share[:, None]) * p / -np.expm1(-mean)[:, :, None]
            else:
                more = (1 - share[:, None]) * p
            rows += np.log(zero + more + 1e-300)
        log_p = log_p + logsumexp(rows + np.log(w / w.sum()), axis=-1)
    p = np.exp(log_p - log_p.max())
    return p / p.sum(), {"Intercept": B, "sd[1|g]": S, "share": P}


def test_against_sums_on_a_grid(fitted):
    model, data = fitted
    hurdle = model.family == "hurdle_poisson"
    p, values = grid(hurdle, data)
    values["hurdle" if hurdle else "zi"] = values.pop("share")
    for name, value in values.items():
        exact = float((p * value).sum())
        spread = float(np.sqrt((p * value**2).sum() - exact**2))
        # 1024 draws or more: 3 Monte Carlo errors of a mean, and of an sd
        assert abs(model.posterior_.mean(name)[name] - exact) < 0.1 * spread
        assert abs(model.posterior_.sd(name)[name] / spread - 1) < 0.1
    assert (model.summary()["verdict"] == "trust").all()


def test_the_share_of_zeros_behind_a_hurdle_is_theirs_alone(fitted):
    """p(hurdle | y) = Beta(1 + zeros, 1 + others), whatever the rates; 3 Monte Carlo errors."""
    model, data = fitted
    if model.family != "hurdle_poisson":
        pytest.skip("Zero inflation depends on the rates.")
    zeros = int((data["y"] == 0).sum())
    exact = stats.beta(1 + zeros, 1 + len(data["y"]) - zeros)
    assert abs(model.posterior_.mean("hurdle")["hurdle"] - exact.mean()) < 0.1 * exact.std()
    assert_allclose(model.posterior_.sd("hurdle")["hurdle"], exact.std(), rtol=0.1)
    row = model.summary(0.9).loc["hurdle"]
    assert_allclose(row[["lower", "upper"]].to_numpy(float), exact.ppf([0.05, 0.95]), atol=0.01)


def test_predicted_means_are_those_of_all_counts(fitted):
    """Σ over rows of E[y] is near Σ y; intervals of the mean hold it, whole counts' theirs."""
    model, data = fitted
    groups = {"g": np.arange(GROUPS)}
    mean = model.predict(groups, interval=0.9)
    assert_allclose(EACH * mean["mean"].sum(), data["y"].sum(), rtol=0.1)
    assert ((mean["lower"] < mean["mean"]) & (mean["mean"] < mean["upper"])).all()
    new = model.predict(groups, interval=0.9, kind="response")
    assert_allclose(new["mean"], mean["mean"], rtol=0.02)
    assert (new["lower"] == 0).all()
    assert (data["y"] <= new["upper"].to_numpy()[data["g"]]).mean() >= 0.9
    link = model.predict(groups, scale="link")["mean"].to_numpy()
    rate = np.exp(link)
    name = "hurdle" if model.family == "hurdle_poisson" else "zi"
    share = model.posterior_.mean(name)[name]
    plain = (1 - share) * rate / (-np.expm1(-rate) if name == "hurdle" else 1)
    assert_allclose(mean["mean"], plain, rtol=0.1)  # but for the curvature over the posterior


def test_priors_of_a_probability():
    data = counts(False)
    wrong = {"zi": lrvb.prior.HalfNormal(1)}
    with pytest.raises(
        lrvb.InvalidModel, match=r"a probability, which takes lrvb.prior.Beta\(a, b\)"
    ):
        lrvb.MixedModel("y ~ 1 + (1|g)", "zero_inflated_poisson", wrong).fit(data)
    bad = {**data, "y": data["y"] + 0.5}
    with pytest.raises(lrvb.InvalidData, match="is not a whole number"):
        lrvb.MixedModel("y ~ 1 + (1|g)", "hurdle_poisson").fit(bad)
    flat = {"x": lrvb.prior.Normal(0, np.inf)}
    x = (data["y"] == 0).astype(float)  # moves nothing but zeros
    with pytest.raises(
        lrvb.InvalidData, match="'x' would move them, so that the data set no limit"
    ):
        lrvb.MixedModel("y ~ x + (1|g)", "zero_inflated_poisson", flat).fit({**data, "x": x})
