"""Figures of checks and marginal effects draw what their tables say."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb

mpl.use("Agg")
import matplotlib.pyplot as plt

N = 120


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(6)
    g, x = rng.integers(0, 8, N), rng.normal(size=N)
    eta = 0.4 + 0.4 * x + rng.normal(0, 0.5, 8)[g]
    data = pd.DataFrame({"x": x, "g": g, "arm": rng.choice(["a", "b"], N)})
    data["count"] = rng.poisson(np.exp(eta))
    data["z"] = eta + rng.normal(0, 0.5, N)
    return {
        "count": lrvb.MixedModel("count ~ x + arm + (1|g)", "poisson").fit(data),
        "z": lrvb.MixedModel("z ~ x + (1|g)").fit(data),
    }


def test_shares_of_counts_and_their_replicates(models, tmp_path):
    model = models["count"]
    ax = lrvb.plot.predictive_check(model, replicates=30, seed=2)
    points = next(line for line in ax.lines if line.get_marker() == "o")
    y = model.design_.y
    assert_allclose(points.get_ydata(), [(y == k).mean() for k in points.get_xdata()])
    drawn = model.simulate(30, seed=2).to_numpy()
    low, high = np.quantile((drawn == 0).mean(0), [0.05, 0.95])
    bar = ax.patches[0]
    assert_allclose([bar.get_y(), bar.get_y() + bar.get_height()], [low, high])
    ax.figure.savefig(tmp_path / "ppc.png")


def test_distribution_functions_of_numbers(models):
    ax = lrvb.plot.predictive_check(models["z"], replicates=10)
    assert len(ax.lines) == 11
    curve, y = ax.lines[-1], models["z"].design_.y
    assert_allclose(curve.get_ydata(), [(y <= at).mean() for at in curve.get_xdata()])
    with pytest.raises(lrvb.InvalidModel, match="replicates=0"):
        lrvb.plot.predictive_check(models["z"], replicates=0)


def test_residuals_against_fitted_means(models):
    model = models["count"]
    ax = lrvb.plot.residuals(model, seed=1)
    found = np.asarray(ax.collections[0].get_offsets())
    assert_allclose(found[:, 1], model.residuals("quantile", n=400, seed=1))
    assert_allclose(found[:, 0], model.predictions(n=400, seed=1)["mean"])
    assert len(ax.figure.axes) == 2
    own = plt.subplots()[1]
    assert lrvb.plot.residuals(model, own, kind="pearson") is own


def test_an_effect_is_an_average_of_predictions(models):
    model = models["count"]
    ax = lrvb.plot.effect(model, "x", "arm")
    curve = ax.lines[0]
    rows = model.design_.frame.assign(arm="a", x=float(curve.get_xdata()[0]))
    expected = model.predictions(rows, by=True)["mean"][0]
    assert_allclose(curve.get_ydata()[0], expected, rtol=1e-9)
    labels = [text.get_text() for text in lrvb.plot.effect(model, "arm").get_xticklabels()]
    assert labels == ["a", "b"]
    with pytest.raises(lrvb.InvalidModel, match="no column 'w'"):
        lrvb.plot.effect(model, "w")


def test_comparisons_as_intervals(models):
    table = models["count"].comparisons(["x", "arm"], by=True)
    ax = lrvb.plot.comparisons(table)
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    assert_allclose(ends, table[["lower", "upper"]])
    with pytest.raises(lrvb.InvalidModel, match="too many"):
        lrvb.plot.comparisons(models["count"].comparisons("x"))
