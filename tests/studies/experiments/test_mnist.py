"""MNIST 0 against 1: the published accuracy with the pixels read as the study read them, and right."""

from __future__ import annotations

import numpy as np
import pytest
from test_mixtures import check_figures, run

import lrvb
from lrvb.studies.experiments import digits, mnist


@pytest.fixture(scope="module")
def settings():
    """All images, with chains too short for anything but sds to a tenth."""
    return {**mnist.settings(True), "draws": 300, "burn-in": 50, "effective draws": 20}


@pytest.fixture(scope="module")
def tables(settings):
    return run(mnist.EXPERIMENT, settings)


@pytest.mark.parametrize(
    ("reading", "low", "high", "spread"),
    [("int8", 0.915, 0.925, 0.95), ("uint8", 0.943, 0.953, 0.985)],
)
def test_accuracy_of_both_readings(tables, reading, low, high, spread):
    """app:mnist_details: published 0.920 (signed bytes).

    Mean-field sds of Λ are low on average, and never high.
    """
    errors = tables["errors"].query("reading == @reading")
    assert list(errors["images"]) == [980, 1135]
    assert low <= 1 - errors["wrong"].sum() / 2115 <= high
    found = tables["globals"].query("reading == @reading").set_index("quantity")
    assert np.isfinite(found.to_numpy()[:, 1:].astype(float)).all()
    names = [name for name in found.index if name.startswith("Lambda")]
    assert len(names) == 2 * 25 * 26 // 2
    ratio = found.loc[names, "mfvb_sd"] / found.loc[names, "sd"]
    assert ratio.mean() < spread
    assert ratio.max() < 1 + 1e-5  # the tables have six digits


def test_the_reading_is_what_is_corrected(tables, settings):
    found = mnist.EXPERIMENT.findings(tables, settings)
    assert found.verdict == "corrected", found.checks
    assert (
        found.numbers.loc["test error", "read as they are"]
        < found.numbers.loc["test error", "ours"]
    )


def test_figures_show_something(tables, tmp_path):
    check_figures(mnist.EXPERIMENT, tables, tmp_path)


def test_images_lie_within_the_pixels(tables):
    """Zeros are dark in the middle, ones bright, when the pixels are read as they are."""
    images = tables["images"].query("reading == 'uint8'").set_index(["component", "pixel"])
    middle = 14 * 28 + 14
    assert images.loc[(0, middle), "mean"] < 60 < 150 < images.loc[(1, middle), "mean"]
    assert (images["sd"] >= images["mfvb_sd"] * (1 - 1e-5)).all()


def test_unknown_reading():
    with pytest.raises(lrvb.InvalidModel, match="reading"):
        digits.load("bits")


def test_the_certified_series_is_shown_and_told(tables, settings, tmp_path):
    """Sds of the exact density beside the chain's, with k-hat and verdicts; a short chain has none."""
    assert "certified" not in tables
    assert "without certificates" in mnist.EXPERIMENT.findings(tables, settings).reason
    made = tables["globals"][["reading", "quantity", "gibbs_sd"]].rename(columns={"gibbs_sd": "sd"})
    made = made.assign(verdict="trust", k_hat=0.3, ess=1000.0)
    found = mnist.EXPERIMENT.findings({**tables, "certified": made}, settings)
    assert found.numbers.loc["Λ: certified sd ÷ Gibbs sd, mean", "ours"] == 1.0
    assert "k-hat 0.30 and 702 trust in uint8" in found.reason
    assert any("certified" in check for check in found.checks)
    wide = made.assign(sd=np.where(made["reading"] == "int8", 1.2, 1.0) * made["sd"])

    def held(made):
        checks = mnist.EXPERIMENT.findings({**tables, "certified": made}, settings).checks
        return next(holds for check, holds in checks.items() if "certified" in check)

    assert held(made)
    assert not held(wide)
    doubtful = wide.assign(verdict=np.where(made["reading"] == "int8", "doubtful", "trust"))
    assert held(doubtful)  # what is not confirmed claims nothing, and the words beside it say so
    assert not held(wide.assign(verdict="doubtful"))
    check_figures(mnist.EXPERIMENT, {**tables, "certified": made}, tmp_path)
