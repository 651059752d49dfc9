"""A certificate in one figure: intervals of mean field and linear response beside the certified ones."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy.special import ndtri

from ..errors import InvalidModel

LRVB, CERTIFIED, MFVB = "#1f6fb2", "0.2", "#c9a227"
COLOURS = {"trust": "#2a7f3f", "repaired": LRVB, "doubtful": "#b8860b", "do not trust": "#b22222"}


def draw_certificate(found: Any, names: Any, ax: Axes | None, *, prob: float) -> Axes:
    """See `lrvb.plot.certificate`."""
    table = found.summary(prob)
    told = getattr(found, "judged", None) or found.estimate
    table["mfvb_sd"] = np.sqrt(np.diag(told.V)[[told.index[name] for name in table.index]])
    if names is not None:
        chosen = [names] if isinstance(names, str) else list(names)
        unknown = [name for name in chosen if name not in table.index]
        if unknown:
            raise InvalidModel(f"There is no quantity '{unknown[0]}' in this certificate.")
        table = table.loc[chosen]
    if ax is None:
        _, ax = plt.subplots(figsize=(7.5, 1.3 + 0.42 * len(table)), layout="constrained")
    spread = (table["upper"] - table["lower"]) / (2 * float(ndtri(0.5 + prob / 2)))
    unit = table["sd"].fillna(spread).replace(0.0, 1.0)
    y = np.arange(len(table))
    center = (table["lrvb_mean"] - table["mean"]) / unit
    ends = [(table[side] - table["mean"]) / unit for side in ("lower", "upper")]
    ax.axvline(0.0, color="0.85", linewidth=1, zorder=0)
    ax.hlines(y - 0.2, *ends, color=CERTIFIED, linewidth=2.2)
    ax.plot(np.zeros(len(y)), y - 0.2, "o", color=CERTIFIED, markersize=5)
    others = [(0.0, "lrvb_sd", LRVB, "linear response"), (0.2, "mfvb_sd", MFVB, "mean field")]
    if not table["shift"].any() and (table["ratio"] == 1).all():
        others = others[1:]  # the draws are the answer itself
    for lower, column, colour, _ in others:
        reach = float(ndtri(0.5 + prob / 2)) * table[column] / unit
        ax.hlines(y + lower, center - reach, center + reach, color=colour, linewidth=2.2)
        ax.plot(center, y + lower, "o", color=colour, markersize=5)
    for i, verdict in enumerate(table["verdict"]):
        ax.annotate(
            verdict,
            (1.01, i),
            xycoords=("axes fraction", "data"),
            va="center",
            color=COLOURS.get(verdict, "0.4"),
            annotation_clip=False,
        )
    ax.set_yticks(y, [str(name) for name in table.index])
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlabel(f"certified sds from the certified mean, {prob:.0%} interval")
    ax.spines[["top", "right"]].set_visible(False)
    handles = [
        Line2D([], [], marker="o", color=CERTIFIED, label=f"certified ({found.method})"),
        *(Line2D([], [], marker="o", color=colour, label=label) for _, _, colour, label in others),
    ]
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
    return ax
