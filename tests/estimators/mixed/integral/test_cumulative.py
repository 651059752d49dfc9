"""Ordered categories: thresholds are drawn with the sds, and take the place of an intercept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, logsumexp

import lrvb
from lrvb.likelihoods import Cumulative

LABELS = np.array(["poor", "fair", "good"])


def ratings(n: int = 150, groups: int = 10, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    g, x = rng.integers(0, groups, n), rng.normal(size=n)
    place = 0.8 * x + 0.7 * rng.normal(size=groups)[g] + rng.logistic(size=n)
    return {"y": 1 + (place > -1) + (place > 1), "x": x, "g": g}


@pytest.fixture(scope="module")
def model() -> lrvb.MixedModel:
    return lrvb.MixedModel("y ~ x + (1|g)", "cumulative").fit(ratings())


def test_against_sums_on_a_grid():
    """Two thresholds and the sd on a grid, each level summed: means and sds to a tenth of an sd."""
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(6), 8)
    place = 0.8 * rng.normal(size=6)[g] + rng.logistic(size=48)
    y = 1 + (place > -1) + (place > 0.5)
    priors = {"threshold": lrvb.prior.Normal(0, 2), "1|g": lrvb.prior.HalfNormal(1.0)}
    model = lrvb.MixedModel("y ~ 1 + (1|g)", "cumulative", priors).fit({"y": y, "g": g})
    t, sd = np.linspace(-4, 3.5, 46), np.exp(np.linspace(-4, 1.3, 25))
    A, B, S = np.meshgrid(t, t, sd, indexing="ij")
    z, w = np.polynomial.hermite_e.hermegauss(21)
    log_p = np.where(A < B, 0.0, -np.inf) + stats.norm.logpdf(A, 0, 2) + stats.norm.logpdf(B, 0, 2)
    log_p += stats.halfnorm.logpdf(S) + np.log(S) + np.log(2)  # one of two orders
    effect = S[0, 0, :, None] * z
    for k in range(6):
        first, second = (
            expit(edge[:, None, None] - effect) for edge in (t, t)
        )  # P(y ≤ 1), P(y ≤ 2)
        n = np.bincount(y[g == k], minlength=4)[1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            middle = np.log(np.maximum(second[None] - first[:, None], 1e-300))
        rows = n[0] * np.log(first)[:, None] + n[1] * middle + n[2] * np.log1p(-second)[None]
        log_p += logsumexp(rows + np.log(w / w.sum()), axis=-1)
    p = np.exp(log_p - log_p.max())
    evidence = np.log(p.sum() * (t[1] - t[0]) ** 2 * np.log(sd[1] / sd[0])) + log_p.max()
    p /= p.sum()
    for name, value in (("threshold[1]", A), ("threshold[2]", B), ("sd[1|g]", S)):
        exact = float((p * value).sum())
        spread = float(np.sqrt((p * value**2).sum() - exact**2))
        assert abs(model.posterior_.mean(name)[name] - exact) < 0.1 * spread, name
        assert abs(model.posterior_.sd(name)[name] / spread - 1) < 0.1, name
    assert abs(model.log_evidence_ - evidence) < 0.1


def test_thresholds_take_the_intercept_and_follow_the_origin(model):
    """x + 100 moves every threshold by 100 times its coefficient, and nothing else."""
    assert next(iter(model.posterior_.names)) == "x"
    data = ratings()
    moved = lrvb.MixedModel("y ~ x + (1|g)", "cumulative").fit({**data, "x": data["x"] + 100})
    slope = model.posterior_.mean("x")["x"]
    for name in ("threshold[1]", "threshold[2]"):
        sd = model.posterior_.sd(name)[name]
        gap = moved.posterior_.mean(name)[name] - model.posterior_.mean(name)[name] - 100 * slope
        # the slope itself is off by a tenth of its sd at most
        assert abs(gap) < 0.1 * sd + 10 * model.posterior_.sd("x")["x"]
    x, g = np.array([-1.0, 1.0]), np.array([2, 4])
    table, again = model.predict({"x": x, "g": g}), moved.predict({"x": x + 100, "g": g})
    assert_allclose(table["mean"], again["mean"], atol=0.01)


def test_probabilities_of_every_category(model):
    """They sum to one, their mean is the expected category, and ends of new rows hold 90 %."""
    new = {"x": np.array([-1.0, 0.0, 2.0]), "g": np.array([0, 3, 5])}
    shares = model.predict(new, kind="probability")
    assert list(shares.columns) == ["1", "2", "3"]
    assert_allclose(shares.sum(axis=1), 1, rtol=1e-9)
    table = model.predict(new, interval=0.9)
    assert_allclose(shares @ np.array([1, 2, 3]), table["mean"], rtol=1e-9)
    assert ((table["lower"] < table["mean"]) & (table["mean"] < table["upper"])).all()
    ends = model.predict(new, interval=0.9, kind="response")
    below = np.cumsum(shares.to_numpy(), axis=1)
    held = [
        below[i, int(high) - 1] - (below[i, int(low) - 2] if low > 1 else 0.0)
        for i, (low, high) in enumerate(zip(ends["lower"], ends["upper"], strict=True))
    ]
    assert min(held) >= 0.9


def test_labels_in_an_order_are_the_same_numbers(model):
    """An ordered category, and text with its order given."""
    data = ratings()
    text = LABELS[data["y"] - 1]
    frame = pd.DataFrame({**data, "y": pd.Categorical(text, LABELS, ordered=True)})
    again = lrvb.MixedModel("y ~ x + (1|g)", "cumulative").fit(frame)
    given = lrvb.MixedModel("y ~ x + (1|g)", Cumulative(order=LABELS)).fit({**data, "y": text})
    for other in (again, given):
        assert_allclose(other.posterior_.mean(), model.posterior_.mean(), rtol=1e-9)
        new = {"x": [0.0], "g": [1]}
        assert list(other.predict(new, kind="probability").columns) == list(LABELS)


def test_refused():
    data = ratings()
    text = {**data, "y": LABELS[data["y"] - 1]}

    def fit(data, family="cumulative", formula="y ~ x + (1|g)"):
        return lrvb.MixedModel(formula, family).fit(data)

    with pytest.raises(lrvb.InvalidData, match="Say the order of its categories"):
        fit(text)
    with pytest.raises(lrvb.InvalidData, match="'fair', which is not in order"):
        fit(
            {**text, "y": np.where(text["y"] == "poor", "good", "fair")},
            Cumulative(["poor", "good"]),
        )
    for order, absent in ((["none", *LABELS], "none"), ([*LABELS, "best"], "best")):
        said = f"No row of 'y' is in category '{absent}' of 4.* leave it out of order="
        with pytest.raises(lrvb.InvalidData, match=said):
            fit(text, Cumulative(order))
    with pytest.raises(lrvb.InvalidData, match="No row of 'y' is in category 2 of 3"):
        fit({**data, "y": np.where(data["y"] == 2, 3, data["y"])})
    with pytest.raises(lrvb.InvalidData, match=r"row 0: the value 0\S* is no category"):
        fit({**data, "y": data["y"] * 0})
    with pytest.raises(lrvb.InvalidModel, match="two or more different categories"):
        Cumulative(order=["a", "a"])
    with pytest.raises(lrvb.InvalidModel, match="thresholds, which take"):
        lrvb.MixedModel("y ~ (1|g)", "cumulative", {"threshold": lrvb.prior.HalfNormal(1)}).fit(
            data
        )
    with pytest.raises(lrvb.InvalidModel, match="kind='probability' is for ordered categories"):
        lrvb.MixedModel("x ~ 1 + (1|g)").fit(data).predict(kind="probability")
