"""Smooths of a fitted mixed model: the curve, its band, and where the rows are."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

COLOURS = ("#1f6fb2", "#d1622b", "#3a8f5c", "#8a5aa8", "#7a7a7a")
MOST_ROWS = 500  # whose places are marked


def draw_smooth(model: Any, name: str, ax: Axes | None, *, prob: float) -> Axes:
    """See `lrvb.plot.smooth`."""
    table = model.smooth(name, prob=prob)
    argument, by = table.columns[0], table.columns[1]
    by = None if by == "mean" else by
    if ax is None:
        ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")[1]
    levels = [None] if by is None else list(dict.fromkeys(table[by]))
    for k, level in enumerate(levels):
        part = table if level is None else table[table[by] == level]
        colour = COLOURS[k % len(COLOURS)]
        ax.fill_between(part[argument], part["lower"], part["upper"], color=colour, alpha=0.2, lw=0)
        ax.plot(part[argument], part["mean"], color=colour, label=None if level is None else level)
    ax.axhline(0.0, color="0.75", linewidth=1, zorder=0)
    x = _places(model, name)
    ax.plot(x, np.full(len(x), 0.02), "|", color="0.3", transform=ax.get_xaxis_transform())
    ax.set_xlabel(argument)
    ax.set_ylabel(f"{name}, {prob:.0%} band")
    if by is not None:
        ax.legend(title=by, frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _places(model: Any, name: str) -> np.ndarray:
    """Where rows are, some of them if there are many: the line of a smooth is x but for its centre."""
    design = model.design_
    own = [s for s in design.smooths if name in (s.label, s.text.label)]
    x = design.X[:, [s.linear for s in own]].sum(1) + own[0].basis.center
    there = design.X[:, [s.linear for s in own]].any(1)
    kept = np.unique(x[there])
    return kept[np.linspace(0, len(kept) - 1, min(len(kept), MOST_ROWS)).round().astype(int)]
