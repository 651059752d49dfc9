"""Seconds of linear response and of Gibbs as rows and columns grow."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ...report.figure_files import LRVB, bare, save

GIBBS, FIT, FIRST, STUDY = "#7a4fa3", "#6aa5d8", "0.72", "#2f8f5b"
METHODS = (
    ("gibbs", "Gibbs, 1000 effective draws", GIBBS, "s"),
    ("first_fit", "first fit, compiling", FIRST, "^"),
    ("fit_and_response", "fit and linear response", FIT, "o"),
    ("response", "linear response alone", LRVB, "o"),
)
#: Seconds of the study's linear response at the smallest and the largest size.
PUBLISHED = {
    "N": ((2500, 0.115), (100_000, 3.83)),
    "P": ((2, 0.041), (22, 19.4)),
}
TICKS = {"N": (2500, 10_000, 30_000, 100_000), "P": (2, 3, 5, 10, 20)}
POWERS = {"N": 1, "P": 3}
Tables = Mapping[str, pd.DataFrame]


def draw_rows(tables: Tables, path: Path) -> Path:
    """Seconds over N."""
    return _draw(tables["times"], "rows", "N", path)


def draw_columns(tables: Tables, path: Path) -> Path:
    """Seconds over P."""
    return _draw(tables["times"], "columns", "P", path)


def _draw(times: pd.DataFrame, run: str, size: str, path: Path) -> Path:
    """All methods on logarithmic scales; linear response on linear ones, with Gibbs beside it."""
    mine = times[times["run"] == run].sort_values(size)
    figure, axes = plt.subplots(1, 3, figsize=(11.4, 4.3))
    for axis, methods in (
        (axes[0], METHODS),
        (axes[1], METHODS[:1] + METHODS[2:]),
        (axes[2], METHODS[3:]),
    ):
        for column, label, color, marker in methods:
            axis.plot(mine[size], mine[column], marker, color=color, linestyle="-", label=label)
        axis.set_xlabel(size)
        bare(axis)
    axes[0].set_xscale("log")
    axes[0].set_yscale("log")
    marked = [value for value in TICKS[size] if value <= 1.2 * mine[size].max()]
    axes[0].set_xticks(marked, [f"{value:,}" for value in marked])
    axes[0].minorticks_off()
    axes[0].set_ylabel("seconds")
    _ends(axes[0], size)
    _power(axes[2], mine, size)
    for axis, title in zip(
        axes, ("logarithmic scales", "linear scales", "linear response alone"), strict=True
    ):
        axis.set_title(title, fontsize=11)
        if axis is not axes[0]:
            axis.set_ylim(bottom=0)
            axis.set_xlim(0, 1.06 * mine[size].max())
            axis.locator_params(axis="x", nbins=4)
            axis.locator_params(axis="y", nbins=5)
            axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    handles, labels = axes[0].get_legend_handles_labels()
    more, names = axes[2].get_legend_handles_labels()
    figure.legend(
        [*handles, more[-1]], [*labels, names[-1]], loc="lower center", ncols=3, frameon=False
    )
    figure.tight_layout(rect=(0, 0.13, 1, 1))
    return save(figure, path)


def _ends(axis: Axes, size: str) -> None:
    """The study's linear response at its smallest and largest size, and the line between."""
    x, y = np.array(PUBLISHED[size], float).T
    axis.plot(x, y, color=STUDY, linestyle="--", marker="d", label="linear response, published")


def _power(axis: Axes, mine: pd.DataFrame, size: str) -> None:
    """The curve y ∝ N, or y ∝ P³, through our largest size."""
    power, last = POWERS[size], mine.iloc[-1]
    x = np.linspace(mine[size].min(), last[size], 200)
    y = last["response"] * (x / last[size]) ** power
    exponent = "" if power == 1 else "³"
    axis.plot(x, y, color="0.4", linestyle=":", label=f"seconds ∝ {size}{exponent}")
