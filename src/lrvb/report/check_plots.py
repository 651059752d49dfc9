"""Whether a fitted mixed model could have made its data: replicated responses, and residuals."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.special import ndtri

from ..errors import InvalidModel
from .mixed_plots import INK, LRVB, MOST_POINTS, PALE, legend_above, new_axes, plain_axes

MOST_COUNTS = 30  # different whole numbers that each have a place of their own
ROWS, COARSE = 20_000, 100  # rows of a replicate that are drawn, points of a distribution function
DRAWS = 400  # over which residuals are averaged: enough for a figure
BINS = 10  # of fitted means, in which residuals are averaged


def draw_predictive(model: Any, ax: Axes | None, *, replicates: int, seed: int) -> Axes:
    """See `lrvb.plot.predictive_check`."""
    design = model._design()
    y = np.asarray(design.y, dtype=float)
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise InvalidModel(f"replicates={replicates!r} must be a whole number, 1 or more.")
    drawn = model.simulate(replicates, seed=seed).to_numpy().T
    if design.trials is not None and not design.family.binary:
        y, drawn = y / design.trials, drawn / design.trials
    name = design.formula.response
    ax = ax or new_axes(7.0, 4.2)
    high = max(np.quantile(y, 0.999), np.median(np.quantile(drawn, 0.99, axis=1)))
    if design.family.discrete and design.trials is None and high <= MOST_COUNTS:
        _counts(ax, y, drawn, int(np.ceil(high)))
    elif design.family.binary:
        _counts(ax, y, drawn, 1)
    else:
        _cumulated(ax, y, drawn)
    ax.set_xlabel(name if design.trials is None else f"share of {design.formula.response}")
    plain_axes(ax)
    handles = [
        Line2D([], [], color=INK, marker="o", label="observed"),
        Line2D([], [], color=LRVB, alpha=0.6, label=f"{replicates} replicated data sets"),
    ]
    legend_above(ax, handles)
    return ax


def _counts(ax: Axes, y: np.ndarray, drawn: np.ndarray, high: int) -> None:
    """Shares of each whole number: bars of 90 % of the replicates, and points for the data."""
    at = np.arange(high + 1)
    observed = np.array([(y == k).mean() for k in at])
    shares = np.array([[(row == k).mean() for k in at] for row in drawn])
    low, middle, top = np.quantile(shares, [0.05, 0.5, 0.95], axis=0)
    ax.bar(at, top - low, bottom=low, width=0.7, color=PALE, zorder=1)
    ax.hlines(middle, at - 0.35, at + 0.35, color=LRVB, linewidth=2, zorder=2)
    ax.plot(at, observed, "o-" if high > 1 else "o", color=INK, markersize=5, linewidth=1, zorder=3)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylabel("share of rows; of replicates 90 %")
    ax.set_ylim(bottom=0)
    if high <= 12:
        ax.set_xticks(at)


def _cumulated(ax: Axes, y: np.ndarray, drawn: np.ndarray) -> None:
    """Distribution functions on a grid, one thin line for each replicate."""
    ends = np.quantile(np.concatenate([y, drawn[:, :ROWS].ravel()]), [0.001, 0.999])
    grid = np.linspace(min(ends[0], y.min()), max(ends[1], y.max()), COARSE)
    if np.all(y == np.rint(y)) and np.all(drawn == np.rint(drawn)):  # counts rise at whole numbers
        grid = np.unique(np.rint(grid))
    for row in drawn:
        below = np.searchsorted(np.sort(row), grid, side="right") / len(row)
        ax.plot(grid, below, color=LRVB, alpha=max(0.08, 3 / len(drawn)), linewidth=0.9)
    ax.plot(
        grid, np.searchsorted(np.sort(y), grid, side="right") / len(y), color=INK, linewidth=1.8
    )
    ax.set_ylabel("share of rows at or below")
    ax.set_ylim(-0.02, 1.02)


def draw_residuals(model: Any, ax: Axes | None, *, kind: str, seed: int) -> Axes:
    """See `lrvb.plot.residuals`."""
    values = model.residuals(kind, n=DRAWS, seed=seed).to_numpy()
    fitted = model.predictions(n=DRAWS, seed=seed)["mean"].to_numpy()
    rows = np.arange(len(values))
    if len(rows) > MOST_POINTS:
        rows = np.random.default_rng(seed).choice(rows, MOST_POINTS, replace=False)
    if ax is None:
        _, (ax, other) = plt.subplots(
            1, 2, figsize=(9.0, 4.0), layout="constrained", width_ratios=(3, 2)
        )
        _scores(other, values, kind)
    size = float(np.clip(4000 / len(rows), 4, 20))
    ax.axhline(0.0, color="0.6", linewidth=1, zorder=0)
    ax.scatter(fitted[rows], values[rows], s=size, color=LRVB, alpha=0.45, linewidths=0)
    middle, mean, error = _binned(fitted, values)
    ax.errorbar(
        middle, mean, 2 * error, color=INK, marker="o", markersize=4, linewidth=1.2, zorder=3
    )
    ax.set_xlabel("fitted mean")
    ax.set_ylabel(f"{kind} residual (means ± 2 s.e.)")
    plain_axes(ax)
    return ax


def _binned(x: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of residuals of rows with similar fitted means, and their standard errors."""
    bins = int(np.clip(len(x) // 20, 2, BINS))
    parts = np.array_split(np.argsort(x, kind="stable"), bins)
    found = [(x[p].mean(), values[p].mean(), values[p].std() / np.sqrt(len(p))) for p in parts]
    middle, mean, error = np.array(found).T
    return middle, mean, error


def _scores(ax: Axes, values: np.ndarray, kind: str) -> None:
    """Sorted residuals against a normal's: on the line where quantile residuals are as they should be."""
    ordered = np.sort(values)
    n = len(ordered)
    at = np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).round().astype(int))
    score = ndtri((at + 0.5) / n)
    scale = 1.0 if kind == "quantile" else ordered.std()
    ax.plot(score, scale * score, color=INK, linewidth=1, zorder=0)
    ax.plot(score, ordered[at], "o", color=LRVB, markersize=3, alpha=0.6)
    ax.set_xlabel("normal score")
    ax.set_ylabel("sorted residual")
    plain_axes(ax)
