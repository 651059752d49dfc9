"""The picture of a mixture: it draws what the fit says, and needs Matplotlib only when asked."""

from __future__ import annotations

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from mixtures import apart, fitted, overlapping

mpl.use("Agg")
import matplotlib.pyplot as plt

from lrvb.report.mixture_plots import MEAN_REGION


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    plt.close("all")


def test_a_figure_shows_rows_components_and_their_uncertainty(tmp_path):
    X, _ = overlapping()
    ours = fitted()
    ax = lrvb.plot.mixture(ours, X)
    assert ax.get_xlabel() == "column 0"
    assert len(ax.collections[0].get_offsets()) == 300
    # for each component 30 draws, the mean's outline twice, a dashed region and a cross
    assert len(ax.lines) == 2 * (30 + 2 + 2)
    assert len(ax.figure.axes) == 3
    for k in (0, 1):
        region = ax.patches[2 * k + 1].get_xy()
        away = region - ours.means_[k]
        precision = np.linalg.inv(ours.posterior_.cov([f"mu[{k},0]", f"mu[{k},1]"]))
        radius = np.sqrt(np.einsum("na,ab,nb->n", away, precision, away))
        assert_allclose(radius, MEAN_REGION, rtol=1e-9)
    path = tmp_path / "mixture.png"
    ax.figure.savefig(path)
    assert path.stat().st_size > 10_000


def test_columns_by_name_on_given_axes():
    X, _ = overlapping()
    frame = pd.DataFrame(X, columns=["height", "weight"])
    ours = lrvb.GaussianMixture(2, random_state=0).fit(frame)
    figure, axes = plt.subplots()
    assert lrvb.plot.mixture(ours, frame, columns=("weight", "height"), ax=axes, draws=5) is axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("weight", "height")
    assert len(figure.axes) == 1
    for columns in (("height", "age"), (0, 2), (0, 0), "height"):
        with pytest.raises(lrvb.InvalidData, match=r"column"):
            lrvb.plot.mixture(ours, frame, columns=columns)


def test_components_without_rows_are_left_out():
    start = np.repeat([[1.0, 0.0]], 300, axis=0)
    ours = lrvb.GaussianMixture(2, init=start).fit(apart()[:, ::-1])
    _, axes = plt.subplots()
    lrvb.plot.mixture(ours, apart()[:, ::-1], ax=axes, draws=4)
    if ours.weights_.min() < 0.1:
        assert "1 component without rows" in axes.get_legend().get_texts()[-1].get_text()


def test_without_matplotlib_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import lrvb\n"
        "try: lrvb.plot.mixture(None, None)\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'lrvb[plot]'" in done.stdout
    light = "import sys, lrvb; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", light], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
