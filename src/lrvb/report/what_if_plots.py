"""Figures of what if: a lollipop of prior sensitivities, an index plot of influence, two kinds of sds."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.special import ndtri, stdtrit

from ..errors import InvalidModel

MOST_LEVELS = 40  # that are named along an axis
OURS, OTHER, LOUD = "#1f6fb2", "#e08214", "#b22222"


def draw_prior_sensitivity(table: Any, ax: Axes | None, *, most: int) -> Axes:
    """See `lrvb.plot.prior_sensitivity`."""
    _require(table, "change", "posterior.prior_sensitivity()")
    shown = table.iloc[np.argsort(-np.abs(table["change"].to_numpy()), kind="stable")[:most]]
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 1.2 + 0.32 * len(shown)), layout="constrained")
    y, change = np.arange(len(shown)), shown["change"].to_numpy(dtype=float)
    colours = np.where(np.abs(change) > 0.5, LOUD, OURS)
    ax.axvspan(-0.5, 0.5, color="0.95", zorder=0)
    ax.axvline(0.0, color="0.7", linewidth=1)
    ax.hlines(y, 0.0, change, color=colours, linewidth=2)
    ax.scatter(change, y, color=colours, zorder=3)
    for column, marker, said in (
        ("verified", "D", "fitted there"),
        ("verified_back", "s", "and the other way"),
    ):
        if column in shown and shown[column].notna().any():
            fitted = shown[column].to_numpy(dtype=float, na_value=np.nan)
            ax.scatter(
                fitted, y, marker=marker, facecolor="white", edgecolor="0.3", zorder=4, label=said
            )
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    labels = [
        f"{quantity} ← {name} {value:.3g} → {value + step:.3g}"
        for name, quantity, value, step in zip(
            shown["hyperparameter"], shown["quantity"], shown["value"], shown["step"], strict=True
        )
    ]
    ax.set_yticks(y, labels)
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlabel("change of the mean in posterior sds, by first order")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def draw_influence(table: Any, name: str | None, ax: Axes | None, *, labelled: int) -> Axes:
    """See `lrvb.plot.influence`."""
    name = table.columns[0] if name is None else name
    if name not in table.columns:
        known = ", ".join(map(str, table.columns[:6]))
        raise InvalidModel(f"The table has no quantity '{name}'; it has: {known}.")
    if ax is None:
        _, ax = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
    values = table[name].to_numpy(dtype=float)
    x = np.arange(len(values))
    ax.axhline(0.0, color="0.7", linewidth=1)
    ax.vlines(x, 0.0, values, color=OURS, linewidth=1.2)
    ax.plot(x, values, "o", color=OURS, markersize=3)
    levels = table.index.name is not None and len(x) <= MOST_LEVELS
    if levels:  # each of them has its name below
        ax.set_xticks(x, list(map(str, table.index)), rotation=45, ha="right", fontsize=9)
    for i in np.argsort(-np.abs(values), kind="stable")[: 0 if levels else labelled]:
        ax.annotate(
            str(table.index[i]),
            (i, values[i]),
            xytext=(0, 4 if values[i] > 0 else -4),
            textcoords="offset points",
            ha="center",
            va="bottom" if values[i] > 0 else "top",
            fontsize=9,
        )
    ax.margins(y=0.15)
    ax.set_xlabel("row, in the order of the data" if table.index.name is None else table.index.name)
    unit = ", in posterior sds" if table.attrs.get("scaled") else ""
    ax.set_ylabel(f"change of {name} without it{unit}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def draw_robust(posterior: Any, names: Any, by: Any, ax: Axes | None, *, prob: float) -> Axes:
    """See `lrvb.plot.robust`."""
    mean = posterior.mean(names)
    own, robust = posterior.sd(names), posterior.sd(names, method="robust", by=by)
    if ax is None:
        _, ax = plt.subplots(figsize=(7, 1.3 + 0.36 * len(mean)), layout="constrained")
    y, z = np.arange(len(mean)), float(ndtri(0.5 + prob / 2))
    groups = robust.attrs.get("groups")  # few of them know their own spread badly
    t = z if groups is None else float(stdtrit(groups - 1, 0.5 + prob / 2))
    unit = own.replace(0.0, 1.0)
    ax.axvline(0.0, color="0.85", linewidth=1, zorder=0)
    for shift, reach, colour, label in (
        (-0.13, z * own / unit, OURS, "posterior"),
        (0.13, t * robust / unit, OTHER, "robust"),
    ):
        ax.hlines(y + shift, -reach, reach, color=colour, linewidth=2.4, label=label)
    ax.set_yticks(y, [str(name) for name in mean.index])
    ax.set_ylim(len(mean) - 0.4, -0.6)
    ax.set_xlabel(f"posterior sds from the mean, {prob:.0%} interval")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _require(table: Any, column: str, source: str) -> None:
    if column not in getattr(table, "columns", ()):
        raise InvalidModel(f"This table has no column '{column}'; give that of {source}.")
