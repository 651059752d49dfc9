"""Sds and covariances of the mixture's parameters against the Gibbs sampler's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ...report.figure_files import LINE, LRVB, MFVB, bare, diagonal, legend_below, save

PANELS = {"mu": "means μ", "Lambda": "precisions Λ", "log(pi": "log weights log π"}
Tables = Mapping[str, pd.DataFrame]


def indexed(name: str) -> str:
    """A parameter with its indices from 1, component first: `Lambda[0,0,1]` is Λ₁,₁₂."""
    stem, _, rest = name.partition("[")
    component, *entry = (str(int(index) + 1) for index in rest.rstrip("])").split(","))
    letter = {"mu": r"\mu", "Lambda": r"\Lambda", "log(pi": r"\log\,\pi"}[stem]
    return f"${letter}_{{{','.join([component, *[''.join(entry)] * bool(entry)])}}}$"


def draw_sds(tables: Tables, path: Path) -> Path:
    """Estimated sd against Gibbs sd, a panel for each of μ, Λ, log π."""
    figure, axes = plt.subplots(1, 3, figsize=(10.2, 3.9))
    for axis, (stem, title) in zip(axes, PANELS.items(), strict=True):
        sd_panel(axis, tables["globals"], stem, title)
    axes[0].set_ylabel("estimated sd")
    legend_below(figure)
    return save(figure, path)


def sd_panel(axis: Axes, table: pd.DataFrame, stem: str, title: str) -> None:
    """Sds of the quantities whose name begins with `stem`, by both methods, against Gibbs."""
    rows = table[table["quantity"].str.partition("[")[0] == stem]
    size = float(np.clip(2500 / max(len(rows), 1), 5, 24))
    for column, color in (("mfvb_sd", MFVB), ("sd", LRVB)):
        axis.scatter(rows["gibbs_sd"], rows[column], s=size, color=color, alpha=0.55, linewidths=0)
    everything = rows[["gibbs_sd", "sd", "mfvb_sd"]].to_numpy()
    diagonal(axis, everything.min(), everything.max())
    axis.set_title(title, fontsize=11)
    axis.set_xlabel("Gibbs sd")
    axis.ticklabel_format(scilimits=(-4, 4))
    axis.locator_params(nbins=5)
    bare(axis)


def scaled(tables: Tables) -> pd.DataFrame:
    """The covariances, each ÷ the Gibbs sds of its two parameters in its data set."""
    sds = tables["globals"].set_index(["data set", "quantity"])["gibbs_sd"]
    pairs = tables["covariances"]
    scale = np.ones(len(pairs))
    for column in ("first", "second"):
        scale *= sds.reindex(zip(pairs["data set"], pairs[column], strict=True)).to_numpy()
    return pairs.assign(**{name: pairs[name] / scale for name in ("lrvb", "mfvb", "gibbs")})


def draw_covariances(tables: Tables, path: Path) -> Path:
    """Off-diagonal covariances of linear response against Gibbs, as they are and scaled."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 4.4))
    for axis, table, title in (
        (axes[0], tables["covariances"], "covariances"),
        (axes[1], scaled(tables), "covariances ÷ Gibbs sds of both"),
    ):
        for column, color in (("mfvb", MFVB), ("lrvb", LRVB)):
            x, y = table["gibbs"], table[column]
            axis.scatter(x, y, s=6, color=color, alpha=0.4, linewidths=0, rasterized=True)
        diagonal(axis, table["gibbs"].min(), table["gibbs"].max())
        axis.set_title(title, fontsize=11)
        axis.set_xlabel("Gibbs")
        axis.locator_params(nbins=6)
        bare(axis)
    axes[0].set_ylabel("estimate")
    legend_below(figure)
    return save(figure, path)


def draw_ratios(tables: Tables, path: Path) -> Path:
    """Sd ÷ Gibbs sd by parameter, a dot for each data set and a bar at the mean."""
    table = tables["globals"]
    quantities = list(dict.fromkeys(table["quantity"]))
    figure, axis = plt.subplots(figsize=(8.4, 0.36 * len(quantities) + 1.5))
    axis.axvline(1.0, color=LINE, linewidth=1, zorder=0)
    rng = np.random.default_rng(0)
    for y, quantity in enumerate(quantities):
        rows = table[table["quantity"] == quantity]
        error = 2 / np.sqrt(2 * rows["ess"].mean())
        axis.barh(y, 2 * error, left=1 - error, height=0.8, color="0.92", zorder=-1)
        jitter = rng.uniform(-0.25, 0.25, size=len(rows))
        for column, color in (("mfvb_sd", MFVB), ("sd", LRVB)):
            ratio = rows[column] / rows["gibbs_sd"]
            axis.scatter(ratio, y + jitter, s=9, color=color, alpha=0.45, linewidths=0)
            axis.plot([ratio.mean()] * 2, [y - 0.38, y + 0.38], color="black", linewidth=1.6)
    axis.set_yticks(range(len(quantities)), [indexed(quantity) for quantity in quantities])
    axis.invert_yaxis()
    axis.set_xlabel("posterior sd ÷ Gibbs sd")
    bare(axis)
    legend_below(figure)
    return save(figure, path)
