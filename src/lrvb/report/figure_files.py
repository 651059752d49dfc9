"""What all figures share: colours, names, and how they are saved."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..data.files import whole

MFVB, LRVB, CERTIFIED = "#d1622b", "#1f6fb2", "#222222"
LINE = "0.35"  # where estimate and truth agree


def pretty(name: str) -> str:
    """A quantity's name with Greek letters and indices from 1: `log(tau)` is log τ."""
    greek = {
        "beta": "β",
        "tau": "τ",
        "Lambda": "Λ",
        "mu": "μ",
        "nu": "ν",
        "pi": "π",
        "log(": "log ",
        ")": "",
        "[0]": "₁",
        "[1]": "₂",
    }
    for word, letter in greek.items():
        name = name.replace(word, letter)
    return name


def bare(axis: Axes) -> None:
    """Leave out the frame's upper and right sides."""
    axis.spines[["top", "right"]].set_visible(False)


def diagonal(axis: Axes, low: float, high: float) -> None:
    """The line on which estimate and truth agree."""
    axis.plot([low, high], [low, high], color=LINE, linewidth=1, zorder=0)


def legend_below(figure: Figure, share: float = 0.07, *, certified: bool = False) -> None:
    """Name the colours below all panels, in the lowest `share` of the figure's height."""
    handles = [
        Line2D([], [], marker="o", linestyle="", color=MFVB, label="mean field (MFVB)"),
        Line2D([], [], marker="o", linestyle="", color=LRVB, label="linear response (LRVB)"),
    ]
    if certified:
        handles.append(Line2D([], [], marker="o", ls="", color=CERTIFIED, label="certified"))
    figure.legend(handles=handles, loc="lower center", ncols=3, frameon=False)
    figure.tight_layout(rect=(0, share, 1, 1))


def save(figure: Figure, path: Path) -> Path:
    """Write a PNG and close the figure."""
    try:
        with whole(path) as temporary:
            figure.savefig(temporary, dpi=160, format="png")
    finally:
        plt.close(figure)
    return path
