"""Figures of saved tables: standard deviations beside the exact ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from .figures.common import LINE, LRVB, MFVB, bare, diagonal, legend_below, pretty, save


def sd_ratio_figure(tables: Sequence[tuple[str, pd.DataFrame]], path: Path) -> Path:
    """Posterior sd ÷ exact sd, a dot per data set; one panel per model.

    Each table has the columns `quantity`, `lrvb`, `mfvb`, both as ratios to the exact sd.
    """
    figure, axes = plt.subplots(1, len(tables), figsize=(4.9 * len(tables), 3.7), squeeze=False)
    rng = np.random.default_rng(0)
    for axis, (title, table) in zip(axes[0], tables, strict=True):
        quantities = list(dict.fromkeys(table["quantity"]))
        axis.axvline(1.0, color=LINE, linewidth=1)
        for y, quantity in enumerate(quantities):
            rows = table[table["quantity"] == quantity]
            jitter = rng.uniform(-0.16, 0.16, size=len(rows))
            axis.scatter(rows["mfvb"], y + jitter, s=22, color=MFVB, alpha=0.75, linewidths=0)
            axis.scatter(rows["lrvb"], y + jitter, s=22, color=LRVB, alpha=0.75, linewidths=0)
        axis.set_yticks(range(len(quantities)), [pretty(q) for q in quantities])
        axis.invert_yaxis()
        axis.set_xscale("log")
        ticks = [0.2, 0.3, 0.5, 0.7, 1.0, 1.3]
        axis.set_xticks(ticks, [str(t) for t in ticks])
        axis.minorticks_off()
        axis.set_xlim(0.18, 1.5)
        axis.set_xlabel("posterior sd ÷ exact sd")
        axis.set_title(title, fontsize=11)
        bare(axis)
    legend_below(figure)
    return save(figure, path)


def agreement_figure(panels: Sequence[tuple[str, pd.DataFrame]], path: Path) -> Path:
    """Estimate against truth, a dot per row; panels of tables with `exact`, `lrvb`, maybe `mfvb`."""
    figure, axes = plt.subplots(1, len(panels), figsize=(3.3 * len(panels), 3.4), squeeze=False)
    for axis, (title, table) in zip(axes[0], panels, strict=True):
        diagonal(axis, table["exact"].min(), table["exact"].max())
        if "mfvb" in table:
            axis.scatter(table["exact"], table["mfvb"], s=9, color=MFVB, alpha=0.5, linewidths=0)
        axis.scatter(table["exact"], table["lrvb"], s=9, color=LRVB, alpha=0.5, linewidths=0)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("exact")
        axis.ticklabel_format(scilimits=(-2, 3))
        bare(axis)
    axes[0, 0].set_ylabel("estimate")
    figure.tight_layout()
    return save(figure, path)
