"""A fitted mixed model in three figures: coefficients, random effects, fitted against observed."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from scipy.special import ndtri

from ..errors import InvalidModel

MFVB, LRVB, PALE, INK = "#d1622b", "#1f6fb2", "#b5d0e8", "0.25"
MOST_LABELS = 40  # levels that are named beside a caterpillar
MOST_POINTS = 5000  # rows or levels drawn; more would only hide each other


def draw_coefficients(model: Any, names: Any, ax: Axes | None, *, prob: float) -> Axes:
    """See `lrvb.plot.coefficients`."""
    table = _coefficients(model, names, prob)
    ax = ax or new_axes(7.0, 1.3 + 0.42 * len(table))
    reach = float(ndtri(0.5 + prob / 2)) * table["mfvb_sd"]
    y = np.arange(len(table))
    ax.axvline(0.0, color="0.75", linewidth=1, zorder=0)
    ax.hlines(y - 0.13, table["lower"], table["upper"], color=LRVB, linewidth=2.2)
    ax.hlines(y + 0.13, table["mean"] - reach, table["mean"] + reach, color=MFVB, linewidth=2.2)
    ax.plot(table["mean"], y - 0.13, "o", color=LRVB, markersize=5)
    ax.plot(table["mean"], y + 0.13, "o", color=MFVB, markersize=5)
    ax.set_yticks(y, [str(name) for name in table.index])
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlabel(f"coefficient, {prob:.0%} interval")
    plain_axes(ax)
    integrated = model.posterior_.weighted is not None
    ours = "integrated" if integrated else "linear response"
    mean_field = integrated or model.factorization == "mean_field"
    alone = "mean field" if mean_field else "the variational fit alone"
    handles = [
        Line2D([], [], marker="o", color=LRVB, label=ours),
        Line2D([], [], marker="o", color=MFVB, label=alone),
    ]
    legend_above(ax, handles)
    return ax


def draw_ranef(model: Any, term: str | None, ax: Axes | None, *, prob: float) -> Axes:
    """See `lrvb.plot.ranef`."""
    if term is None:
        model._fitted()
        term = next(iter(model._effects), None)
    table = model.ranef(term, prob).sort_values("mean", kind="stable")
    levels = len(table)
    named = levels <= MOST_LABELS
    ax = ax or new_axes(7.0, 1.2 + 0.18 * levels if named else 6.2)
    y = np.unique(np.linspace(0, levels - 1, min(levels, MOST_POINTS)).round().astype(int))
    drawn = table.iloc[y]
    ends = drawn[["lower", "upper"]].to_numpy()
    apart = (ends[:, 0] > 0) | (ends[:, 1] < 0)
    lines = np.where(apart, *((LRVB, "0.65") if named else (PALE, "0.88")))
    dots = np.where(apart, LRVB, "0.65" if named else "0.4")
    segments = [[(low, k), (high, k)] for k, (low, high) in zip(y, ends, strict=True)]
    width = float(np.clip(250 / levels, 0.3, 1.6))
    ax.axvline(0.0, color="0.6", linewidth=1, zorder=0)
    ax.add_collection(LineCollection(segments, colors=lines, linewidths=width))
    ax.scatter(drawn["mean"], y, s=float(np.clip(900 / levels, 1.5, 16)), c=dots, zorder=3)
    ax.set_xlim(*_wide(table["lower"].min(), table["upper"].max()))
    ax.set_ylim(-0.8, levels - 0.2)
    shown = y if named else y[np.linspace(0, len(y) - 1, 12).round().astype(int)]
    ax.set_yticks(shown, [str(table.index[k]) for k in shown])
    if not named:
        ax.set_ylabel(f"{levels:,} levels by their mean, some of them named")
    ax.set_xlabel(f"{term}: effect of a level, {prob:.0%} interval")
    plain_axes(ax)
    handles = [
        Line2D([], [], marker="o", color=LRVB, label="the interval leaves out zero"),
        Line2D([], [], marker="o", color="0.65", label="it holds zero"),
    ]
    legend_above(ax, handles)
    return ax


def draw_fitted(model: Any, ax: Axes | None, *, interval: float, seed: int) -> Axes:
    """See `lrvb.plot.fitted`."""
    table = model.predict(interval=interval)
    design = model.design_
    observed = design.y if design.trials is None else design.y / design.trials
    rows = np.arange(len(table))
    if len(rows) > MOST_POINTS:
        rows = np.random.default_rng(seed).choice(rows, MOST_POINTS, replace=False)
    part, observed = table.iloc[rows], np.asarray(observed, dtype=float)[rows]
    ax = ax or new_axes(7.0, 4.8)
    if design.family.binary:
        _shares(ax, part["mean"].to_numpy(), observed)
        return ax
    size = float(np.clip(4000 / len(rows), 4, 20))
    ends = np.stack([part["lower"], part["upper"]], axis=1)
    segments = [[(x, low), (x, high)] for x, (low, high) in zip(observed, ends, strict=True)]
    faint = float(np.clip(60 / len(rows), 0.04, 0.45))
    ax.add_collection(LineCollection(segments, colors=LRVB, alpha=faint, linewidths=1.0))
    ax.scatter(observed, part["mean"], s=size, color=LRVB, alpha=0.55, linewidths=0, zorder=2)
    low, high = observed.min(), observed.max()
    ax.plot([low, high], [low, high], color=INK, linewidth=1, zorder=3)
    ax.set_xlim(*_wide(low, high))
    room = 1.15 * max(high, part["mean"].max())  # a few very uncertain rows do not set the scale
    top = max(high, min(part["upper"].max(), room))
    ax.set_ylim(*_wide(min(low, part["lower"].min()), top))
    what = design.formula.response if design.trials is None else "share of successes"
    ax.set_xlabel(f"observed {what}")
    ax.set_ylabel(f"fitted mean, {interval:.0%} interval")
    plain_axes(ax)
    return ax


def _shares(ax: Axes, mean: np.ndarray, observed: np.ndarray) -> None:
    """Zeros and ones: the share of ones among rows with similar fitted probabilities."""
    bins = int(np.clip(len(mean) // 20, 3, 12))
    order = np.array_split(np.argsort(mean, kind="stable"), bins)
    fitted = np.array([mean[part].mean() for part in order])
    share = np.array([observed[part].mean() for part in order])
    count = np.array([len(part) for part in order])
    error = np.sqrt(fitted * (1 - fitted) / count)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1, zorder=0)
    ax.vlines(fitted, share - error, share + error, color=LRVB, linewidth=1.2)
    ax.plot(fitted, share, "o", color=LRVB, markersize=6)
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.04, 1.04)
    ax.set_xlabel(f"fitted probability, {bins} groups of rows")
    ax.set_ylabel("share of ones ± its standard error")
    plain_axes(ax)


def _coefficients(model: Any, names: Any, prob: float) -> pd.DataFrame:
    """The rows of the fixed effects asked for."""
    summary = model.summary(prob)
    fixed = model.design_.effects
    chosen = fixed if names is None else [names] if isinstance(names, str) else list(names)
    for name in chosen:
        if name not in fixed:
            raise InvalidModel(
                f"There is no coefficient {name!r}; there are: {', '.join(fixed) or 'none'}."
            )
    if not chosen:
        raise InvalidModel("The model has no fixed effects to draw.")
    return summary.loc[chosen]


def new_axes(width: float, height: float) -> Axes:
    """A figure of its own, in inches."""
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def plain_axes(ax: Axes) -> None:
    """Two spines, and small grey ticks."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("0.5")
    ax.tick_params(labelsize=9, colors=INK)


def legend_above(ax: Axes, handles: list[Line2D]) -> None:
    """A legend without a frame above the axes."""
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=2,
        frameon=False,
        fontsize=9,
        borderaxespad=0.2,
    )


def _wide(low: float, high: float) -> tuple[float, float]:
    margin = 0.04 * (high - low if high > low else 1.0)
    return low - margin, high + margin
