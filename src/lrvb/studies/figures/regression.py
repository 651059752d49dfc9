"""Means, sds and covariances of the two regression studies, estimate against exact value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...report.figure_files import CERTIFIED, LINE, LRVB, MFVB, bare, diagonal, pretty, save

SECOND = "#3aa655"
LANES = (-0.3, -0.1, 0.1, 0.3)  # of the methods around a quantity's line
SPAN = 3.0  # where values differ by less than this factor, a linear scale is easier to read
Tables = Mapping[str, pd.DataFrame]


class Series(NamedTuple):
    """One method: the name of its column, its colour, its words in the legend, its dots' size."""

    column: str
    color: str
    label: str
    size: float = 1.0


MEANS = (
    Series("mean", LRVB, "mean field and linear response (their means are the same)"),
    Series("second_mean", SECOND, "second order", 0.3),
    Series("certified_mean", CERTIFIED, "certified", 0.2),
)
SDS = (
    Series("mfvb_sd", MFVB, "mean field (MFVB)"),
    Series("sd", LRVB, "linear response (LRVB)"),
    Series("second_sd", SECOND, "second order", 0.3),
    Series("certified_sd", CERTIFIED, "certified", 0.2),
)


class Panel(NamedTuple):
    """A quantity of a model; with `words` its title says more than the quantity."""

    model: str
    quantity: str
    words: str = ""

    @property
    def title(self) -> str:
        """The quantity, and the words."""
        return f"{pretty(self.quantity)}{', ' if self.words else ''}{self.words}"


def draw_means(tables: Tables, path: Path, truth: str, panels: Sequence[Panel]) -> Path:
    """Estimated against exact means; each panel says the bias in exact sds."""
    figure, axes = _grid(panels, 3)
    for axis, panel in zip(axes, panels, strict=True):
        rows = _rows(tables["globals"], panel, truth)
        shown = _present(MEANS, rows)
        _scatter(axis, rows, "true_mean", shown, logarithmic=_positive(panel.quantity))
        for line, series in enumerate(reversed(shown)):
            bias = np.abs(rows[series.column] - rows["true_mean"]) / rows["true_sd"]
            text = f"median bias {bias.median():.3f} sd, worst {bias.max():.2f}"
            _note(axis, line, text, series.color)
        axis.set_title(panel.title, fontsize=11)
    return _finish(figure, axes, 3, "mean", _shown(MEANS, tables, truth), path)


def draw_sds(tables: Tables, path: Path, truth: str, panels: Sequence[Panel]) -> Path:
    """Estimated against exact sds."""
    figure, axes = _grid(panels, 3)
    for axis, panel in zip(axes, panels, strict=True):
        rows = _rows(tables["globals"], panel, truth)
        _scatter(axis, rows, "true_sd", _present(SDS, rows), logarithmic=True)
        axis.set_title(panel.title, fontsize=11)
    return _finish(figure, axes, 3, "sd", _shown(SDS, tables, truth), path)


def draw_locals(
    tables: Tables, path: Path, truth: str, panels: Sequence[Panel], columns: int
) -> Path:
    """Of some local variables: their sds, and their covariances ÷ the exact sds of both.

    A panel whose quantity is z shows the sds; any other the covariances of z with it.
    """
    figure, axes = _grid(panels, columns)
    for axis, panel in zip(axes, panels, strict=True):
        rows = _rows(tables["locals"], Panel(panel.model, ""), truth)
        if panel.quantity == "z":
            _scatter(axis, rows, "true_sd", SDS[:2], logarithmic=True)
            title = "sd of z"
        else:
            scaled = _correlations(tables["globals"], rows, panel, truth)
            _scatter(axis, scaled, "true", _CORRELATIONS, logarithmic=False)
            title = f"Cov(z, {pretty(panel.quantity)}) ÷ exact sds"
        axis.set_title("\n".join(filter(None, (title, panel.words))), fontsize=10)
    return _finish(figure, axes, columns, "value", SDS[:2], path)


def draw_ratios(
    tables: Tables, path: Path, panels: Sequence[tuple[str, str, str]], quantities: Sequence[str]
) -> Path:
    """Sd ÷ exact sd on a logarithmic scale, a dot per data set and a bar at the median.

    `panels` lists title, model and truth of each.
    """
    size = (1.1 + 3.3 * len(panels), 1.5 + 0.62 * len(quantities))
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharey=True, sharex=True)
    rng = np.random.default_rng(0)
    for axis, (title, model, truth) in zip(axes, panels, strict=True):
        axis.axvline(1.0, color=LINE, linewidth=1, zorder=0)
        for y, quantity in enumerate(quantities):
            rows = _rows(tables["globals"], Panel(model, quantity), truth)
            for lane, series in zip(LANES, SDS, strict=True):
                if series not in _present(SDS, rows):
                    continue
                ratio = rows[series.column] / rows["true_sd"]
                jitter = rng.uniform(-0.06, 0.06, len(ratio))
                axis.scatter(ratio, y + lane + jitter, s=9, color=series.color, alpha=0.5, lw=0)
                ends = [y + lane - 0.1, y + lane + 0.1]
                axis.plot([ratio.median()] * 2, ends, color="black", linewidth=1.4)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("posterior sd ÷ exact sd")
        axis.set_xscale("log")
        bare(axis)
    _plain_ticks(axes[0], "x", *axes[0].get_xlim())
    axes[0].set_yticks(range(len(quantities)), [pretty(name) for name in quantities], fontsize=11)
    axes[0].invert_yaxis()
    _legend(figure, _present(SDS, tables["globals"]))
    return save(figure, path)


_CORRELATIONS = (Series("mfvb", MFVB, SDS[0].label), Series("lrvb", LRVB, SDS[1].label))


def _correlations(
    table: pd.DataFrame, local: pd.DataFrame, panel: Panel, truth: str
) -> pd.DataFrame:
    """Columns true, lrvb, mfvb: covariances of z with a quantity ÷ the exact sds of both."""
    sd = _rows(table, panel, truth).set_index("data set")["true_sd"]
    scale = local["true_sd"] * local["data set"].map(sd)
    return pd.DataFrame(
        {
            "true": local[f"true_cov {panel.quantity}"] / scale,
            "lrvb": local[f"cov {panel.quantity}"] / scale,
            "mfvb": 0.0,
        }
    )


def _rows(table: pd.DataFrame, panel: Panel, truth: str) -> pd.DataFrame:
    """The rows of a panel; a panel without a quantity takes all."""
    chosen = (table["model"] == panel.model) & (table["truth"] == truth)
    if panel.quantity:
        chosen &= table["quantity"] == panel.quantity
    return table[chosen]


def _present(series: Sequence[Series], rows: pd.DataFrame) -> list[Series]:
    """The methods that have values here."""
    return [one for one in series if one.column in rows and rows[one.column].notna().any()]


def _shown(series: Sequence[Series], tables: Tables, truth: str) -> list[Series]:
    """The methods that have values beside this truth."""
    table = tables["globals"]
    return _present(series, table[table["truth"] == truth])


def _positive(quantity: str) -> bool:
    """Whether a quantity is a precision, best seen on a logarithmic scale."""
    return quantity in ("tau", "nu")


def _grid(panels: Sequence[Panel], columns: int) -> tuple[Figure, list[Axes]]:
    """Axes for the panels, row by row."""
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(10.2, 0.6 + 10.2 / columns * rows))
    return figure, list(axes.flat)


def _scatter(
    axis: Axes, rows: pd.DataFrame, truth: str, series: Sequence[Series], *, logarithmic: bool
) -> None:
    """Every method's estimates against the truth, and the line on which they agree."""
    size = float(np.clip(2400 / max(len(rows), 1), 4, 26))
    for one in series:
        x, y = rows[truth], rows[one.column]
        axis.scatter(x, y, s=size * one.size, color=one.color, alpha=0.6, lw=0)
    everything = rows[[truth, *(one.column for one in series)]].to_numpy()
    low, high = float(np.nanmin(everything)), float(np.nanmax(everything))
    diagonal(axis, low, high)
    if logarithmic and high > SPAN * low:
        axis.set_xscale("log")
        axis.set_yscale("log")
        _plain_ticks(axis, "x", *axis.get_xlim())
        _plain_ticks(axis, "y", *axis.get_ylim())
    else:
        axis.locator_params(nbins=5)
    bare(axis)


def _plain_ticks(axis: Axes, which: str, low: float, high: float) -> None:
    """Round numbers, not powers of ten, on a logarithmic axis."""
    for steps in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
        powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        ticks = np.outer(powers, steps).ravel()
        ticks = ticks[(ticks >= low) & (ticks <= high)]
        if len(ticks) >= 3:
            break
    labels = [f"{tick:g}" for tick in ticks]
    (axis.set_xticks if which == "x" else axis.set_yticks)(ticks, labels)
    (axis.xaxis if which == "x" else axis.yaxis).set_minor_locator(plt.NullLocator())


def _note(axis: Axes, line: int, text: str, color: str) -> None:
    """A line of text in the lower right corner, the first one lowest."""
    place = (0.99, 0.03 + 0.07 * line)
    axis.text(*place, text, transform=axis.transAxes, ha="right", fontsize=8, color=color)


def _finish(
    figure: Figure,
    axes: Sequence[Axes],
    columns: int,
    what: str,
    series: Sequence[Series],
    path: Path,
) -> Path:
    """Name the axes, add the legend, save."""
    for axis in axes[-columns:]:
        axis.set_xlabel(f"exact {what}")
    for axis in axes[::columns]:
        axis.set_ylabel(f"estimated {what}")
    _legend(figure, series)
    return save(figure, path)


def _legend(figure: Figure, series: Sequence[Series]) -> None:
    """Name the methods below all panels."""
    handles = [
        Line2D([], [], marker="o", linestyle="", color=one.color, label=one.label) for one in series
    ]
    figure.legend(handles=handles, loc="lower center", ncols=len(series), frameon=False)
    share = 0.36 / figure.get_size_inches()[1]
    figure.tight_layout(rect=(0, share, 1, 1))
