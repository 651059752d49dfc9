"""Every family with terms of every kind answers every question with finite numbers, a file's model too."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.estimators.mixed.answers.predictive_check import predictive_finding

G, PER = 6, 5
N = G * PER
RING = 2.5 * np.eye(G) - np.roll(np.eye(G), 1, axis=0) - np.roll(np.eye(G), -1, axis=0)
TERMS = {
    "no groups": ("x * a", {}),
    "weights, offset": ("x + offset(o) + (1|factor(g))", {"weights": "w"}),
    "smooth": ("s(x, k=4) + (1|g)", {}),
    "structure": ("x + (1|g)", {"structures": {"g": RING}}),
    "crossed": ("x + (1|g) + (1|h)", {}),
}
SMOOTH = ("gaussian", "poisson", "cumulative")  # of others they are drawn in the same way
ONLY = {"smooth": SMOOTH, "crossed": ("hurdle_negbinomial",)}
CASES = [
    (family, terms)
    for family in lrvb.likelihoods.FAMILIES
    for terms in TERMS
    if ("(" not in family or terms == "no groups") and family in ONLY.get(terms, (family,))
]


def data(family: str) -> pd.DataFrame:
    """Rows that every family can have its response in, few of them."""
    rng = np.random.default_rng(4)
    g, x = np.repeat(np.arange(G), PER), rng.normal(size=N)
    eta = 0.4 + 0.3 * x + 0.4 * rng.normal(size=G)[g]
    chance, kept = 1 / (1 + np.exp(-eta)), rng.uniform(size=N) < 0.8
    counts = rng.poisson(np.exp(eta) * rng.gamma(2, 0.5, N))
    n = rng.integers(2, 7, N)
    name = family.partition("(")[0]
    if name in ("poisson", "negbinomial"):
        y = counts
    elif name.startswith(("zero_inflated", "hurdle")):
        y = counts * kept
    else:
        y = {
            "gaussian": eta + 0.5 * rng.normal(size=N),
            "student": eta + 0.5 * rng.standard_t(4, N),
            "gamma": rng.gamma(3, np.exp(eta) / 3),
            "lognormal": np.exp(eta + 0.5 * rng.normal(size=N)),
            "beta": rng.beta(6 * chance, 6 * (1 - chance)),
            "cumulative": 1 + np.digitize(eta + rng.logistic(size=N), [-0.3, 1.0]),
            "bernoulli": (rng.uniform(size=N) < chance).astype(int),
            "binomial": rng.binomial(n, chance),
        }[name]
    table = {"y": y, "x": x, "g": g, "a": np.array(list("uv"))[rng.integers(0, 2, N)]}
    table["h"] = np.tile(np.arange(3), N // 3)
    more = {"w": rng.integers(1, 3, N), "o": 0.1 * rng.normal(size=N), "lost": n - np.minimum(y, n)}
    return pd.DataFrame(table | more)


def finite(answer) -> None:
    """No number of a table or an array is missing."""
    if isinstance(answer, pd.DataFrame):
        answer = answer.select_dtypes("number")
    assert np.isfinite(np.asarray(answer, dtype=float)).all()


@pytest.mark.parametrize(("family", "terms"), CASES, ids=[": ".join(case) for case in CASES])
def test_every_question_is_answered(family, terms, tmp_path):
    """The questions of a page on what to do after the fit, of few draws."""
    formula, more = TERMS[terms]
    rows = data(family)
    response = "cbind(y, lost)" if family.startswith("binomial") else "y"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows: verdicts are not the question here
        model = lrvb.MixedModel(f"{response} ~ {formula}", family, **more).fit(rows)
        finite(model.summary())
        new = rows.head(3).drop(columns=[] if response != "y" else "y")
        finite(model.predict(new, interval=0.9))
        drawn = model.predict(new, interval=0.9, kind="response")
        finite(
            drawn.drop(columns="sd") if family == "student" else drawn
        )  # ∞ where df may be below 2
        finite(model.predict(new, groups="none"))
        finite(model.predict(new, scale="link"))
        finite(model.simulate(2, seed=0))
        for kind in ("pearson", "quantile"):
            finite(model.residuals(kind))
        finite(model.loo())
        for ask in (model.slopes, model.comparisons):
            finite(ask("x", by=True, n=20))
        finite(model.posterior_.prior_sensitivity())
        replicated = predictive_finding(model._design(), lambda n: model._drawn.draw(n, 0))
        assert "mean" in replicated.sentence
        again = lrvb.load(model.save(tmp_path / "model"))
        stored, ours = (m.predict(new, interval=0.9) for m in (again, model))
    # a file has a thousand draws or more: means to a tenth of an sd at most
    assert ((stored["mean"] - ours["mean"]).abs() / ours["sd"]).max() < 0.15


def test_levels_and_tables_of_counts_with_zeros():
    """New levels, some of the terms, groups left out, tables of sds, comparison, ArviZ: crossed factors."""
    rows = data("hurdle_negbinomial")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lrvb.MixedModel("y ~ x + (1|g) + (1|h)", "hurdle_negbinomial").fit(rows)
        new = rows.head(3).drop(columns="y")
        finite(model.predict(new.assign(g=77, h=77), interval=0.9))
        finite(model.predict(new, groups=["1|h"]))
        finite(model.posterior_predictive(n=3))
        finite(model.loo(by="g"))
        for ask in (model.vcov, model.var_corr, model.r2, model.icc):
            finite(ask())
        finite(model.contrast("exp(x)"))
        finite(model.predictions(by="h", n=20))
        other = model.update(formula=". ~ . - x")
        assert set(lrvb.compare({"with": model, "without": other}).index) == {"with", "without"}
        tree = model.to_arviz(n=20)
    found = ("posterior", "posterior_predictive", "log_likelihood", "log_prior", "observed_data")
    assert all(len(tree[group].data_vars) for group in found)
