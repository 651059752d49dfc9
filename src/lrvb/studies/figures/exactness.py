"""Standard deviations of normal posteriors, and SEM beside linear response."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from ...report.figure_files import LRVB, MFVB, bare, diagonal, legend_below, save

COLOURS = ("#1f6fb2", "#d1622b", "#2f8f5b", "#8a5bb0")


def sds(tables: Mapping[str, pd.DataFrame], path: Path) -> Path:
    """Estimated against true sd, one panel per factorisation."""
    table = tables["sds"]
    factorisations = list(dict.fromkeys(table["factorisation"]))
    figure, axes = plt.subplots(1, len(factorisations), figsize=(10.5, 4.1), sharey=True)
    low, high = table[["exact", "lrvb", "mfvb"]].min().min(), table["exact"].max()
    for axis, factorisation in zip(np.atleast_1d(axes), factorisations, strict=True):
        rows = table[table["factorisation"] == factorisation]
        diagonal(axis, low, high)
        for column, colour in (("mfvb", MFVB), ("lrvb", LRVB)):
            axis.scatter(rows["exact"], rows[column], s=9, color=colour, alpha=0.5, linewidths=0)
        axis.set_title(factorisation, fontsize=11)
        axis.set_xlabel("true sd")
        axis.loglog()
        bare(axis)
    np.atleast_1d(axes)[0].set_ylabel("estimated sd")
    legend_below(figure)
    return save(figure, path)


def sem(tables: Mapping[str, pd.DataFrame], path: Path) -> Path:
    """SEM against linear response, and the convergence of coordinate ascent."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.3))
    rates = tables["rates"].set_index("model")
    diagonal(left, -1, 1)
    for (model, rows), colour in zip(
        tables["sem"].groupby("model", sort=False), COLOURS, strict=False
    ):
        left.scatter(rows["lrvb"], rows["sem"], s=18, color=colour, alpha=0.7, linewidths=0)
        path_of = tables["sweeps"][tables["sweeps"]["model"] == model]
        rate = rates.loc[model, "predicted"]
        right.plot(path_of["sweep"], path_of["error"], "o", color=colour, markersize=3.5)
        last = path_of[path_of["error"] > 1e-8].iloc[-1]
        sweeps = np.arange(0, last["sweep"] + 1)
        line = last["error"] * rate ** (sweeps - last["sweep"])
        label = f"{model.replace('-', ' ')}: {rate:.2f}"
        right.plot(sweeps, line, color=colour, linewidth=1, label=label)
    left.set_xlabel("linear response, in units of the sds")
    left.set_ylabel("SEM, in units of the sds")
    right.set_yscale("log")
    right.set_xlabel("sweep of coordinate ascent")
    right.set_ylabel("distance from the optimum, in sds")
    right.legend(frameon=False, fontsize=9, title="largest eigenvalue of DM", title_fontsize=9)
    bare(left)
    bare(right)
    figure.tight_layout()
    return save(figure, path)
