"""V, H and I − VH as images: white is zero."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from ...report.figure_files import pretty, save

TITLES = {"V": "V", "H": "H", "I - VH": "I − VH"}


def patterns(tables: Mapping[str, pd.DataFrame], path: Path) -> Path:
    """One image per matrix; the shade follows log |entry| within its matrix."""
    figure, axes = plt.subplots(1, 3, figsize=(11.5, 4.3))
    for axis, (name, title) in zip(axes, TITLES.items(), strict=True):
        entries = tables["entries"][tables["entries"]["matrix"] == name]
        names = list(dict.fromkeys(entries["row"]))
        M = entries.pivot(index="row", columns="column", values="value").loc[names, names]
        axis.imshow(_shades(np.abs(M.to_numpy())), cmap="Blues", vmin=0, vmax=1)
        axis.set_title(title, fontsize=12)
        labels = [pretty(label).replace("^2", "²") for label in names]
        axis.set_xticks(range(len(names)), labels, fontsize=8, rotation=90)
        axis.set_yticks(range(len(names)), labels, fontsize=8)
        axis.tick_params(length=0)
        axis.set_xticks(np.arange(len(names) + 1) - 0.5, minor=True)
        axis.set_yticks(np.arange(len(names) + 1) - 0.5, minor=True)
        axis.grid(which="minor", color="0.92", linewidth=0.6)
        axis.tick_params(which="minor", length=0)
        axis.axhline(3.5, color="0.5", linewidth=0.8)  # β and τ end here, z begins
        axis.axvline(3.5, color="0.5", linewidth=0.8)
    figure.tight_layout()
    return save(figure, path)


def _shades(size: np.ndarray) -> np.ndarray:
    """By logarithm from 0.3 for the smallest entry to 1 for the largest; not a number, white, for zero."""
    shade = np.full_like(size, np.nan)
    inside = size > 0
    logs = np.log(size[inside])
    spread = max(logs.max() - logs.min(), 1e-12)
    shade[inside] = 0.3 + 0.7 * (logs - logs.min()) / spread
    return shade
