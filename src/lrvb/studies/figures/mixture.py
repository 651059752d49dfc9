"""Sds and covariances of the mixture's parameters against the Gibbs sampler's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ...report.figure_files import (
    CERTIFIED,
    LINE,
    LRVB,
    MFVB,
    bare,
    diagonal,
    legend_below,
    save,
)

PANELS = {"mu": "means μ", "Lambda": "precisions Λ", "log(pi": "log weights log π"}
CERTIFICATES = "certified"  # the table of certified sds, which older runs do not have
Tables = Mapping[str, pd.DataFrame]


def indexed(name: str) -> str:
    """A parameter with its indices from 1, component first: `Lambda[0,0,1]` is Λ₁,₁₂."""
    stem, _, rest = name.partition("[")
    component, *entry = (str(int(index) + 1) for index in rest.rstrip("])").split(","))
    letter = {"mu": r"\mu", "Lambda": r"\Lambda", "log(pi": r"\log\,\pi"}[stem]
    return f"${letter}_{{{','.join([component, *[''.join(entry)] * bool(entry)])}}}$"


def with_certified(tables: Tables) -> pd.DataFrame:
    """The table of sds, with the column certified_sd where certificates were made."""
    if CERTIFICATES not in tables:
        return tables["globals"]
    keys = [tables["globals"].columns[0], "quantity"]  # the data set, or its reading
    found = tables[CERTIFICATES][[*keys, "sd"]].rename(columns={"sd": "certified_sd"})
    return tables["globals"].merge(found, on=keys, how="left")


def draw_sds(tables: Tables, path: Path) -> Path:
    """Estimated sd against Gibbs sd, a panel for each of μ, Λ, log π."""
    figure, axes = plt.subplots(1, 3, figsize=(10.2, 3.9))
    table = with_certified(tables)
    for axis, (stem, title) in zip(axes, PANELS.items(), strict=True):
        sd_panel(axis, table, stem, title)
    axes[0].set_ylabel("estimated sd")
    legend_below(figure, certified="certified_sd" in table)
    return save(figure, path)


def sd_panel(axis: Axes, table: pd.DataFrame, stem: str, title: str) -> None:
    """Sds of the quantities whose name begins with `stem`, by each method, against Gibbs."""
    rows = table[table["quantity"].str.partition("[")[0] == stem]
    size = float(np.clip(2500 / max(len(rows), 1), 5, 24))
    for column, color in (("mfvb_sd", MFVB), ("sd", LRVB)):
        axis.scatter(rows["gibbs_sd"], rows[column], s=size, color=color, alpha=0.55, linewidths=0)
    if "certified_sd" in rows:
        axis.scatter(rows["gibbs_sd"], rows["certified_sd"], s=0.3 * size, color=CERTIFIED, lw=0)
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
    table = with_certified(tables)
    shown = [("mfvb_sd", MFVB, 0.0), ("sd", LRVB, 0.0)]
    if "certified_sd" in table:
        shown = [("mfvb_sd", MFVB, -0.2), ("sd", LRVB, -0.2), ("certified_sd", CERTIFIED, 0.2)]
    half = 0.38 if len(shown) == 2 else 0.18  # of a bar's height
    quantities = list(dict.fromkeys(table["quantity"]))
    figure, axis = plt.subplots(figsize=(8.4, 0.36 * len(quantities) + 1.5))
    axis.axvline(1.0, color=LINE, linewidth=1, zorder=0)
    rng = np.random.default_rng(0)
    for y, quantity in enumerate(quantities):
        rows = table[table["quantity"] == quantity]
        error = 2 / np.sqrt(2 * rows["ess"].mean())
        axis.barh(y, 2 * error, left=1 - error, height=0.8, color="0.92", zorder=-1)
        jitter = rng.uniform(-0.65, 0.65, size=len(rows)) * half
        for column, color, lane in shown:
            ratio, middle = rows[column] / rows["gibbs_sd"], y + lane
            axis.scatter(ratio, middle + jitter, s=9, color=color, alpha=0.45, linewidths=0)
            ends = [middle - half, middle + half]
            axis.plot([ratio.mean()] * 2, ends, color="black", linewidth=1.6)
    axis.set_yticks(range(len(quantities)), [indexed(quantity) for quantity in quantities])
    axis.invert_yaxis()
    axis.set_xlabel("posterior sd ÷ Gibbs sd")
    bare(axis)
    legend_below(figure, certified="certified_sd" in table)
    return save(figure, path)
