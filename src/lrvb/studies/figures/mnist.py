"""0s against 1s: sds against Gibbs, component means as images, test errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from ...report.figure_files import LINE, bare, legend_below, save
from .mixture import sd_panel, with_certified

READINGS = {"int8": "signed bytes, as the study", "uint8": "bytes, as they are"}
PANELS = {"Lambda": "precisions Λ", "mu": "means μ", "log(pi": "log weights log π"}
PUBLISHED_ERROR = 0.08
STUDY, RIGHT = "0.6", "#2f8f5b"
Tables = Mapping[str, pd.DataFrame]


def draw_sds(tables: Tables, path: Path) -> Path:
    """Estimated sd against Gibbs sd: a row for each reading, panels Λ, μ, log π."""
    figure, axes = plt.subplots(2, 3, figsize=(10.2, 7.0))
    everything = with_certified(tables)
    for row, (reading, words) in zip(axes, READINGS.items(), strict=True):
        table = everything[everything["reading"] == reading]
        for axis, (stem, title) in zip(row, PANELS.items(), strict=True):
            sd_panel(axis, table, stem, title)
            if table["gibbs_sd"][table["quantity"].str.startswith(stem)].agg(_spread) > 3:
                _logarithmic(axis)
        row[0].set_ylabel(f"{words}\n\nestimated sd")
    legend_below(figure, 0.04, certified="certified_sd" in everything)
    return save(figure, path)


def _spread(sds: pd.Series) -> float:
    return float(sds.max() / sds.min())


def _logarithmic(axis: Axes) -> None:
    """Logarithmic scales both ways, with labels at 1, 2 and 5 times powers of ten."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    decades = np.log10(axis.get_xlim())
    subs = (1.0, 2.0, 5.0) if np.diff(decades)[0] < 1.5 else (1.0,)
    for direction in (axis.xaxis, axis.yaxis):
        direction.set_major_locator(LogLocator(subs=subs))
        direction.set_major_formatter(lambda value, _: f"{value:g}")
        direction.set_minor_formatter(NullFormatter())


def draw_images(tables: Tables, path: Path) -> Path:
    """Component means and their sds as images: a row for each reading, then their difference."""
    table = tables["images"]
    pictures = {
        (reading, k, column): _picture(table, reading, k, column)
        for reading in READINGS
        for k in (0, 1)
        for column in ("mean", "sd")
    }
    figure, axes = plt.subplots(3, 4, figsize=(10.4, 6.6), layout="constrained")
    # Matplotlib's stubs know no engine's own arguments
    figure.get_layout_engine().set(rect=(0.012, 0, 0.976, 1))  # type: ignore[union-attr,call-arg]
    for j, (k, column) in enumerate(((0, "mean"), (0, "sd"), (1, "mean"), (1, "sd"))):
        first, second = (pictures[reading, k, column] for reading in READINGS)
        color = "gray" if column == "mean" else "magma"
        for i, picture in enumerate((first, second)):
            _show(axes[i, j], picture, color)
        difference = second - first
        reach = np.abs(difference).max() or 1.0
        _show(axes[2, j], difference, "RdBu_r", -reach, reach)
        what = "mean" if column == "mean" else "sd of the mean"
        axes[0, j].set_title(f"component {k + 1}: {what}", fontsize=10)
    for i, words in enumerate((*READINGS.values(), "difference")):
        axes[i, 0].set_ylabel(words, fontsize=10)
    return save(figure, path)


def _picture(table: pd.DataFrame, reading: str, component: int, column: str) -> np.ndarray:
    """One picture (28, 28)."""
    chosen = table[(table["reading"] == reading) & (table["component"] == component)]
    return chosen.sort_values("pixel")[column].to_numpy().reshape(28, 28)


def _show(
    axis: Axes, picture: np.ndarray, color: str, low: float | None = None, high: float | None = None
) -> None:
    """A picture with its scale."""
    shown = axis.imshow(picture, cmap=color, vmin=low, vmax=high)
    bar = axis.figure.colorbar(shown, ax=axis, fraction=0.046, pad=0.03)
    bar.ax.tick_params(labelsize=7)
    # nor that a colour bar's outline is an artist
    bar.outline.set_visible(False)  # type: ignore[operator]
    axis.set_xticks([])
    axis.set_yticks([])


def draw_errors(tables: Tables, path: Path) -> Path:
    """Bars of the test error: all images, then by digit, in both readings."""
    table = tables["errors"]
    figure, axis = plt.subplots(figsize=(9.6, 3.4))
    groups = ["all", *sorted(table["digit"].unique())]
    for shift, reading, color in ((-0.2, "int8", STUDY), (0.2, "uint8", RIGHT)):
        mine = table[table["reading"] == reading]
        chosen = [mine, *(mine[mine["digit"] == digit] for digit in groups[1:])]
        heights = [rows["wrong"].sum() / rows["images"].sum() for rows in chosen]
        places = np.arange(len(groups)) + shift
        bars = axis.bar(places, heights, width=0.36, color=color, label=READINGS[reading])
        axis.bar_label(bars, [f"{height:.3f}" for height in heights], fontsize=9, padding=2)
    axis.axhline(PUBLISHED_ERROR, color=LINE, linewidth=1, linestyle="--", label="published")
    axis.set_xticks(range(len(groups)), ["all images", *(f"digit {d}" for d in groups[1:])])
    axis.set_ylabel("test error")
    axis.margins(y=0.18)
    axis.legend(frameon=False, fontsize=9)
    bare(axis)
    figure.tight_layout()
    return save(figure, path)
