"""What must not matter to a mixed model: units, origins, order of rows, names of levels; and sizes."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.prior import Gamma, Normal

RTOL = 1e-7


@functools.cache
def table() -> pd.DataFrame:
    """70 rows in 9 groups and 4 crossed ones."""
    rng = np.random.default_rng(51)
    n = 70
    g = np.concatenate([np.arange(9), rng.integers(0, 9, n - 9)])
    h = rng.permutation(np.arange(n) % 4)
    x, w = rng.normal(3, 2, size=n), rng.normal(size=n)
    eta = 0.2 + 0.3 * x - 0.4 * w + rng.normal(size=9)[g] * 0.7 + rng.normal(size=4)[h] * 0.5
    return pd.DataFrame(
        {
            "y": 10 + eta + rng.normal(size=n),
            "n": rng.poisson(np.exp(eta)),
            "x": x,
            "w": w,
            "g": [f"g{k}" for k in g],
            "h": [f"h{k}" for k in h],
        }
    )


@functools.cache
def base(formula: str, family: str, factorization: str) -> lrvb.MixedModel:
    return lrvb.MixedModel(formula, family, None, factorization, tol=1e-11).fit(table())


def refit(data, formula, family, factorization, priors=None):
    return lrvb.MixedModel(formula, family, priors, factorization, tol=1e-11).fit(data)


def assert_same(ours, theirs, *, ranef: bool = True) -> None:
    """Means in sds, covariances in correlations, random effects likewise, and the bound."""
    one, other = ours.posterior_, theirs.posterior_
    names = [name for name in one.names if not name.startswith("corr[")]  # those are of draws
    sd = other.sd(names)
    assert_allclose(one.mean(names) / sd, other.mean(names) / sd, rtol=RTOL, atol=RTOL)
    for method in ("lrvb", "mfvb"):
        unit = np.outer(other.sd(names, method), other.sd(names, method))
        gap = (one.cov(names, method) - other.cov(names, method)) / unit
        assert np.abs(gap.to_numpy()).max() < RTOL
    if ranef:
        mine, yours = ours.ranef(), theirs.ranef()
        yours = yours.loc[mine.index]
        assert_allclose(mine["mean"] / yours["sd"], yours["mean"] / yours["sd"], atol=RTOL)
        assert_allclose(mine[["sd", "mfvb_sd"]], yours[["sd", "mfvb_sd"]], rtol=RTOL)
    assert_allclose(ours.elbo_, theirs.elbo_, rtol=1e-9)


CASES = [
    ("y ~ x + w + (1 + x|g) + (1|h)", "gaussian", "variational"),
    ("y ~ x + w + (1|g) + (1|h)", "gaussian", "mean_field"),
    ("n ~ x + w + (1|g) + (1|h)", "poisson", "variational"),
]
every_case = pytest.mark.parametrize(("formula", "family", "factorization"), CASES)


@every_case
def test_the_order_of_rows_does_not_matter(formula, family, factorization):
    """Any permutation."""
    data = table().sample(frac=1.0, random_state=1)
    again = refit(data, formula, family, factorization)
    assert_same(again, base(formula, family, factorization))


@every_case
def test_the_names_of_levels_do_not_matter(formula, family, factorization):
    """Other labels in another order: the same effects under their new names."""
    data, names = table().copy(), {f"g{k}": f"z{(5 * k) % 9}" for k in range(9)}
    data["g"] = data.g.map(names)
    again, before = (
        refit(data, formula, family, factorization),
        base(formula, family, factorization),
    )
    assert_same(again, before, ranef=False)
    ours, theirs = again.ranef("1|g"), before.ranef("1|g")
    assert_allclose(ours.loc[[names[k] for k in theirs.index]], theirs, rtol=1e-6, atol=1e-7)


@every_case
def test_the_order_of_terms_does_not_matter(formula, family, factorization):
    """Fixed effects and bars the other way round."""
    left, right = formula.split(" ~ ")
    turned = f"{left} ~ {' + '.join(reversed(right.split(' + (')[0].split(' + ')))}"
    bars = ["(" + bar for bar in right.split(" + (")[1:]]
    turned = " + ".join([turned, *reversed(bars)])
    again = refit(table(), turned, family, factorization)
    assert_same(again, base(formula, family, factorization))


@every_case
def test_the_unit_of_a_covariate_only_changes_its_coefficient(formula, family, factorization):
    """W in thousandths: β_w and its sd times 1000, nothing else; default priors follow."""
    data = table().copy()
    data["w"] /= 1000
    again, before = (
        refit(data, formula, family, factorization),
        base(formula, family, factorization),
    )
    names = again.posterior_.names
    factor = np.where(np.array(names) == "w", 1000.0, 1.0)
    sd = before.posterior_.sd(names)
    mean = again.posterior_.mean(names) / factor
    assert_allclose(mean / sd, before.posterior_.mean(names) / sd, rtol=RTOL, atol=RTOL)
    assert_allclose(again.posterior_.sd(names) / factor, sd, rtol=RTOL)
    assert_allclose(again.ranef()["sd"], before.ranef()["sd"], rtol=RTOL)


@pytest.mark.parametrize("case", [c for c in CASES if c[1] == "gaussian"])
def test_the_unit_of_a_gaussian_response(case):
    """Y a hundred times: coefficients times 100, precisions over 10⁴, the bound less N log 100."""
    formula, family, factorization = case
    data = table().copy()
    data["y"] *= 100
    again, before = refit(data, formula, family, factorization), base(*case)
    fixed = ["Intercept", "x", "w"]
    ours, theirs = again.posterior_, before.posterior_
    assert_allclose(ours.mean(fixed), 100 * theirs.mean(fixed), rtol=RTOL)
    assert_allclose(ours.sd(fixed), 100 * theirs.sd(fixed), rtol=RTOL)
    tau = ["precision[residual]"]
    assert_allclose(ours.mean(tau), theirs.mean(tau) / 1e4, rtol=RTOL)
    assert_allclose(
        ours.sd(["log(precision[residual])"]), theirs.sd(["log(precision[residual])"]), rtol=RTOL
    )
    assert_allclose(again.ranef()["mean"], 100 * before.ranef()["mean"], rtol=RTOL, atol=1e-6)
    assert_allclose(again.ranef()["sd"], 100 * before.ranef()["sd"], rtol=RTOL)
    assert_allclose(again.elbo_, before.elbo_ - len(data) * np.log(100), rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
@pytest.mark.parametrize("factorization", ["variational", "mean_field"])
@pytest.mark.parametrize("shift", [5.0, 1e6])
def test_the_origin_of_a_covariate_moves_the_intercept(family, factorization, shift):
    """X + c under flat priors: the same slope, the intercept less cβ, the same groups."""
    response = "y" if family == "gaussian" else "n"
    formula = f"{response} ~ x + (1|g)"
    priors = {"fixed": Normal(0, np.inf), "1|g": Gamma(2, 1)}
    data = table().copy()
    before = refit(data, formula, family, factorization, priors)
    data["x"] += shift
    after = refit(data, formula, family, factorization, priors)
    # the shifted column has lost the digits of x beyond 1e-16 · shift
    tol = max(RTOL, 1e-14 * shift)
    ours, theirs = after.posterior_, before.posterior_
    sd = theirs.sd(["x"])
    assert_allclose(ours.mean(["x"]) / sd, theirs.mean(["x"]) / sd, rtol=tol)
    assert_allclose(ours.sd(["x"]), sd, rtol=tol)
    J = np.array([1.0, -shift])
    cov = theirs.cov(["Intercept", "x"]).to_numpy()
    assert_allclose(ours.mean(["Intercept"]), J @ theirs.mean(["Intercept", "x"]), rtol=10 * tol)
    assert_allclose(ours.sd(["Intercept"]), np.sqrt(J @ cov @ J), rtol=tol)
    assert_allclose(after.ranef()["mean"], before.ranef()["mean"], atol=10 * tol)
    assert_allclose(after.ranef()["sd"], before.ranef()["sd"], rtol=10 * tol)


# ---- sizes -----------------------------------------------------------------------------------


def test_two_rows_in_every_group():
    """Little is known of each, much of all: β within 4 sds of the truth."""
    rng = np.random.default_rng(52)
    g = np.repeat(np.arange(300), 2)
    x = rng.normal(size=600)
    eta = -0.3 + 0.8 * x + rng.normal(size=300)[g]
    for family, y in (
        ("gaussian", eta + rng.normal(size=600)),
        ("poisson", rng.poisson(np.exp(eta))),
        ("bernoulli", rng.binomial(1, 1 / (1 + np.exp(-eta)))),
    ):
        model = lrvb.MixedModel("y ~ x + (1|g)", family).fit({"y": y, "x": x, "g": g})
        assert model.converged_
        found = model.posterior_
        away = (found.mean(["Intercept", "x"]) - [-0.3, 0.8]) / found.sd(["Intercept", "x"])
        assert np.abs(away).max() < 4, family


def test_a_hundred_thousand_levels():
    """Blocks of levels, never a matrix of them."""
    rng = np.random.default_rng(53)
    g = np.repeat(np.arange(100_000), 2)
    x = rng.normal(size=200_000)
    y = rng.poisson(np.exp(0.1 + 0.3 * x + 0.5 * rng.normal(size=100_000)[g]))
    model = lrvb.MixedModel("y ~ x + (1|g)", "poisson").fit({"y": y, "x": x, "g": g})
    found = model.posterior_
    away = (found.mean(["Intercept", "x"]) - [0.1, 0.3]) / found.sd(["Intercept", "x"])
    assert np.abs(away).max() < 4
    assert_allclose(found.mean(["sd[1|g]"]), 0.5, rtol=0.025)


def test_crossed_factors_too_large_for_memory_are_refused():
    """By the variational block, before anything of that size is made."""
    n = 400_000
    data = {
        "y": np.zeros(n) + np.arange(n) % 3,
        "x": np.arange(n) % 7,
        "a": np.arange(n) % 200_000,
        "b": np.arange(n) // 2,
    }
    with pytest.raises(lrvb.InvalidModel, match=r"needs about \d+\.\d GB.*'a' 200000, 'b' 200000"):
        lrvb.MixedModel("y ~ x + (1|a) + (1|b)", factorization="variational").fit(data)


def test_a_fit_cut_short_says_so():
    """One step is not enough."""
    with pytest.warns(lrvb.NotConverged):
        model = lrvb.MixedModel(
            "n ~ x + (1|g)", "poisson", factorization="variational", max_iter=1
        ).fit(table())
    assert not model.converged_


@pytest.mark.parametrize("name", ["progress", "verbose"])
def test_a_bar_by_either_name(name, capfd):
    """`progress`, as in `lrvb.infer`, and `verbose` are one option."""
    lrvb.MixedModel("n ~ x + (1|g)", "poisson", **{name: True}).fit(table())
    assert "draws" in capfd.readouterr().err
    lrvb.MixedModel("n ~ x + (1|g)", "poisson", **{name: False}).fit(table())
    assert capfd.readouterr().err == ""
    with pytest.raises(lrvb.InvalidModel, match="two names for one option"):
        lrvb.MixedModel("n ~ x + (1|g)", "poisson", progress=True, verbose=False)
