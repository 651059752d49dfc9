"""Figures of a mixed model draw what its tables say."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from mixed_fits import fitted, frame

mpl.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def ends(collection):
    """Left and right ends of horizontal lines, (n, 2)."""
    return np.array([segment[:, 0] for segment in collection.get_segments()])


def test_coefficients_with_both_intervals(tmp_path):
    model = fitted("slopes", "mean_field")
    ax = lrvb.plot.coefficients(model, prob=0.8)
    table = model.summary(0.8).loc[model.design_.names]
    assert [text.get_text() for text in ax.get_yticklabels()] == list(table.index)
    ours, plain = ax.collections
    assert_allclose(ends(ours), table[["lower", "upper"]])
    half = 1.2815515655446004 * table["mfvb_sd"]
    assert_allclose(ends(plain), np.stack([table["mean"] - half, table["mean"] + half], axis=1))
    ax.figure.savefig(tmp_path / "coefficients.png")
    own = plt.subplots()[1]
    assert lrvb.plot.coefficients(model, names=["x", "c[b]"], ax=own) is own
    assert [text.get_text() for text in own.get_yticklabels()] == ["x", "c[b]"]
    with pytest.raises(lrvb.InvalidModel, match="no coefficient 'z'"):
        lrvb.plot.coefficients(model, names=["z"])


@pytest.mark.parametrize(("name", "term"), [("slopes", "x|g"), ("rows", "1|obs")])
def test_a_caterpillar_is_sorted(name, term):
    model = fitted(name)
    ax = lrvb.plot.ranef(model, term)
    table = model.ranef(term).sort_values("mean", kind="stable")
    assert_allclose(ends(ax.collections[0]), table[["lower", "upper"]])
    assert_allclose(ax.collections[1].get_offsets()[:, 0], table["mean"])
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert len(labels) <= 40
    assert labels[0] == str(table.index[0])
    with pytest.raises(lrvb.InvalidModel, match=r"no random effect .1\|x."):
        lrvb.plot.ranef(model, "1|x")
    assert "1|g" in lrvb.plot.ranef(model).get_xlabel()


@pytest.mark.parametrize("name", ["slopes", "counts", "shares"])
def test_fitted_against_observed(name):
    model = fitted(name)
    ax = lrvb.plot.fitted(model, interval=0.5)
    x, y = ax.collections[1].get_offsets().T
    data = frame()
    observed = {"slopes": data.y, "counts": data["count"], "shares": data.s / data.n}[name]
    assert_allclose(x, observed)
    assert_allclose(y, model.predict()["mean"])


def test_zeros_and_ones_are_drawn_as_shares():
    model = fitted("yes")
    ax = lrvb.plot.fitted(model)
    (line,) = (one for one in ax.lines if len(one.get_xdata()) == 3)
    assert_allclose(line.get_xdata().mean(), model.predict()["mean"].mean())
    assert_allclose(line.get_ydata().mean(), frame().yes.mean())


def test_matplotlib_is_asked_for_by_name():
    """Without Matplotlib the estimator works and the plots say how to get it."""
    code = (
        "import sys; sys.modules['matplotlib'] = None; import lrvb\n"
        "for draw in (lrvb.plot.coefficients, lrvb.plot.ranef, lrvb.plot.fitted):\n"
        "    try: draw(None)\n"
        "    except ImportError as error: assert 'lrvb[plot]' in str(error)\n"
        "    else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
