"""Marginal effects: against marginaleffects on a regression, and laws with random effects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.errors import InvalidData, InvalidModel

FLAT = {"fixed": lrvb.prior.Normal(0, 100)}
DRAWS = 2000


def trial():
    """1500 rows of a logistic regression with an interaction."""
    rng = np.random.default_rng(12)
    N = 1500
    x, arm = rng.normal(size=N), rng.choice(np.array(["a", "b", "c"]), N)
    eta = -0.4 + 0.8 * x + 0.7 * (arm == "b") - 0.3 * (arm == "c") * x
    y = (rng.uniform(size=N) < 1 / (1 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"x": x, "arm": arm, "y": y})


@pytest.fixture(scope="module")
def regression():
    data = trial()
    assert data.y.sum() == 710  # the rows that the other package was given
    return lrvb.MixedModel("y ~ x*arm", "bernoulli", FLAT).fit(data)


# (question, arguments, estimates, standard errors) of marginaleffects 0.6.0 with statsmodels 0.15.0:
# avg_predictions, avg_comparisons and avg_slopes of smf.logit("y ~ x*arm")
REFERENCE = [
    ("predictions", {"by": True}, [0.4733333], [0.0120743]),
    (
        "predictions",
        {"by": "arm"},
        [0.4180328, 0.5843137, 0.4143426],
        [0.021025, 0.0202614, 0.0214526],
    ),
    ("comparisons", {"variables": "x", "by": True}, [0.1522966], [0.0108205]),
    (
        "comparisons",
        {"variables": {"arm": "pairwise"}, "by": True},
        [0.1778974, 0.0059014, -0.1719960],
        [0.0289261, 0.0300094, 0.0294446],
    ),
    ("comparisons", {"variables": {"x": "sd"}, "by": True}, [0.1518871], [0.0107922]),
    ("comparisons", {"variables": {"x": (0, 2)}, "by": True}, [0.2933727], [0.0216182]),
    (
        "comparisons",
        {"variables": "arm", "by": True, "comparison": "ratio"},
        [1.4337138, 1.0143876],
        [0.087769, 0.0736733],
    ),
    (
        "comparisons",
        {"variables": "x", "by": "arm", "comparison": "ratio"},
        [1.4961218, 1.3838889, 1.2813652],
        [0.0722232, 0.0489921, 0.0612542],
    ),
    ("slopes", {"variables": "x", "by": True}, [0.1535439], [0.0110519]),
    (
        "slopes",
        {"variables": "x", "by": "arm"},
        [0.1684652, 0.189255, 0.1027585],
        [0.01932, 0.0186089, 0.0195042],
    ),
]


@pytest.mark.parametrize(("question", "asked", "estimates", "errors"), REFERENCE)
def test_agrees_with_marginaleffects(regression, question, asked, estimates, errors):
    """Posterior means are off the estimates by O(1/N) of an sd, and Monte Carlo's errors are 0.02 of one."""
    found = getattr(regression, question)(**asked, n=DRAWS)
    errors = np.array(errors)
    assert np.all(np.abs(found["mean"].to_numpy() - estimates) < 0.2 * errors)
    assert_allclose(found["sd"], errors, rtol=0.1)


def test_rows_one_by_one(regression):
    """The first two rows' contrasts of marginaleffects; an average is that of the rows'."""
    found = regression.comparisons("x", n=DRAWS)
    errors = np.array([0.0266116, 0.0112397])
    assert np.all(np.abs(found["mean"][:2] - [0.2140749, 0.1479133]) < 0.2 * errors)
    assert_allclose(found["sd"][:2], errors, rtol=0.1)
    whole = regression.comparisons("x", by=True, n=DRAWS)
    assert_allclose(found["mean"].mean(), whole["mean"][0], rtol=1e-9)
    assert list(found.columns) == ["term", "contrast", "mean", "sd", "lower", "upper"]
    assert found.attrs["draws"] == DRAWS


# ---- with random effects ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(5)
    N = 150
    g, x = rng.integers(0, 10, N), rng.normal(size=N)
    y = rng.poisson(np.exp(0.3 + 0.5 * x + rng.normal(0, 0.7, 10)[g]))
    data = pd.DataFrame({"x": x, "g": [f"g{k}" for k in g], "y": y, "t": rng.integers(0, 2, N)})
    return lrvb.MixedModel("y ~ x + t + (1|g)", "poisson").fit(data), data


def test_predictions_are_those_of_predict(counts):
    """The same posterior means and sds, from draws instead of sums; Monte Carlo's five errors."""
    model, data = counts
    for groups in ("all", "none"):
        exact = model.predict(groups=groups)
        drawn = model.predictions(groups=groups, n=DRAWS)
        mcse = drawn.attrs["mcse"]
        assert (abs(drawn["mean"] - exact["mean"]) < 5 * mcse * exact["sd"]).all()
        assert (abs(drawn["sd"] / exact["sd"] - 1) < 6 * mcse).all()  # of skewed means
    link = model.predictions(data, scale="link", n=DRAWS)
    exact = model.predict(data, scale="link")
    assert (abs(link["mean"] - exact["mean"]) < 5 * mcse * exact["sd"]).all()


def test_on_the_links_scale_a_comparison_is_the_coefficient(counts):
    """β of a number and of zeros and ones; slopes too; no random effect has a part in it."""
    model, _ = counts
    draws = model.draws(1000, 0)
    for name, contrast in (("x", "+1"), ("t", "1 - 0")):
        for groups in ("all", "none"):
            found = model.comparisons(name, by=True, scale="link", groups=groups)
            assert_allclose(found["mean"][0], draws[name].mean(), rtol=1e-9)
            assert_allclose(found["sd"][0], draws[name].std(), rtol=1e-9)
            assert found["contrast"][0] == contrast
    slope = model.slopes("x", by=True, scale="link")
    assert_allclose(slope["mean"][0], draws["x"].mean(), rtol=1e-6)


def test_steps_of_a_number_are_those_of_its_column(counts):
    """On the link's scale each is the coefficient times the step, the sample's own sd and quartiles."""
    model, data = counts
    coefficient, x = model.draws(1000, 0)["x"].mean().item(), data["x"]
    steps = {
        "sd": x.std(),
        "2sd": 2 * x.std(),
        "iqr": x.quantile(0.75) - x.quantile(0.25),
        "minmax": x.max() - x.min(),
    }
    for asked, step in [*steps.items(), (0.3, 0.3), ((-1, 2), 3.0)]:
        found = model.comparisons({"x": asked}, by=True, scale="link")
        assert_allclose(found["mean"][0], coefficient * step, rtol=1e-9)


def test_a_poisson_ratio_is_the_exponential_of_the_coefficient(counts):
    model, _ = counts
    draws = model.draws(1000, 0)
    found = model.comparisons("x", by=True, comparison="ratio")
    assert_allclose(found["mean"][0], np.exp(draws["x"]).mean(), rtol=1e-9)
    found = model.comparisons("x", by="t", comparison="lnratio")
    assert_allclose(found["mean"], draws["x"].mean(), rtol=1e-9)
    assert found["t"].tolist() == [0, 1]


def test_rows_of_one_new_level_share_its_effect(counts):
    """Their average is as uncertain as one level: twice the rows make it no more certain."""
    model, data = counts
    one = data.iloc[:1].assign(g="new")
    four = pd.concat([one] * 4, ignore_index=True)
    alone = model.predictions(one, by=True, scale="link")
    shared = model.predictions(four, by=True, scale="link")
    own = model.predictions(four.assign(g=list("pqrs")), by=True, scale="link")
    assert_allclose(shared["sd"], alone["sd"], rtol=1e-9)
    assert own["sd"][0] < 0.8 * alone["sd"][0]


@pytest.mark.parametrize(
    ("ask", "error", "match"),
    [
        (lambda m: m.comparisons("w"), InvalidData, "no column 'w'"),
        (lambda m: m.comparisons("y"), InvalidData, "no column 'y'"),
        (lambda m: m.comparisons({"x": "all"}), InvalidModel, "must be a step"),
        (lambda m: m.comparisons({"g": ("g1", "?")}), InvalidModel, "two of its levels"),
        (lambda m: m.comparisons("x", comparison="odds"), InvalidModel, "'ratio'"),
        (lambda m: m.comparisons([]), InvalidModel, "empty"),
        (lambda m: m.predictions(by="z"), InvalidData, "new_data"),
        (lambda m: m.predictions(by=3), InvalidModel, "by=3"),
        (lambda m: m.predictions(scale="odds"), InvalidModel, "scale"),
        (lambda m: m.predictions(groups="h"), InvalidModel, "groups"),
        (lambda m: m.slopes("x", prob=2), lrvb.LrvbError, "prob"),
    ],
)
def test_bad_requests_are_refused(counts, ask, error, match):
    with pytest.raises(error, match=match):
        ask(counts[0])


def test_numbers_that_are_labels():
    """A number that the formula groups by, or makes a factor of, is compared level by level."""
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"x": rng.normal(size=90), "g": np.repeat([3, 5, 8], 30)})
    data["k"] = np.tile([1, 2, 4], 30)
    data["y"] = data["x"] + data["k"] + data["g"] / 4 + rng.normal(size=90)
    model = lrvb.MixedModel("y ~ x + factor(k) + (1|g)").fit(data)
    found = model.comparisons("k", by=True, n=DRAWS)
    assert list(found["contrast"]) == ["2 - 1", "4 - 1"]
    exact = model.posterior_.mean(["factor(k)[2]", "factor(k)[4]"])
    assert (abs(found["mean"] - exact.to_numpy()) < 5 * found["sd"] / np.sqrt(DRAWS)).all()
    levels = model.comparisons({"g": "pairwise"}, by=True, n=DRAWS)
    assert list(levels["contrast"]) == ["5 - 3", "8 - 3", "8 - 5"]
    effects = model.ranef("1|g")["mean"]
    expected = [effects[b] - effects[a] for a, b in ((3, 5), (3, 8), (5, 8))]
    assert (abs(levels["mean"] - expected) < 0.1 * levels["sd"]).all()
    assert list(model.comparisons("x", by=True)["contrast"]) == ["+1"]


def test_a_log_normal_mean_has_the_uncertainty_of_its_coefficients():
    """`predict` and draws agree where coefficients are normal given the sds and the link is a logarithm."""
    rng = np.random.default_rng(1)
    g, x = rng.integers(0, 6, 60), rng.normal(size=60)
    y = np.exp(0.3 * x + rng.normal(0, 0.5, 6)[g] + rng.normal(0, 0.5, 60))
    model = lrvb.MixedModel("y ~ x + (1|g)", "lognormal").fit({"y": y, "x": x, "g": g})
    exact, drawn = model.predict(), model.predictions(n=DRAWS)
    assert (abs(drawn["mean"] - exact["mean"]) < 5 * drawn.attrs["mcse"] * exact["sd"]).all()
    assert_allclose(drawn["sd"], exact["sd"], rtol=0.2)
