"""Marginal effects as figures: a response's expectation along one column, and comparisons as intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..errors import InvalidModel
from .mixed_plots import INK, LRVB, legend_above, new_axes, plain_axes

COLOURS = (LRVB, "#d1622b", "#3a8f5c", "#8a5aa8", "#a8842c", "#5b5b5b")
POINTS = 40  # of a curve
MOST_ROWS = 200  # of the fit over which a curve is averaged


def draw_effect(
    model: Any, variable: str, by: str | None, ax: Axes | None, *, groups: Any, prob: float
) -> Axes:
    """See `lrvb.plot.effect`."""
    design = model._design()
    frame, known = design.frame, design.needed([str(name) for name in design.frame])
    for name in (variable, by):
        if name is not None and name not in known:
            raise InvalidModel(
                f"The formula has no column {name!r}; there are: {', '.join(known)}."
            )
    some = frame.iloc[np.linspace(0, len(frame) - 1, min(len(frame), MOST_ROWS)).astype(int)]
    column = frame[variable]
    numeric = pd.api.types.is_numeric_dtype(column.dtype) and column.nunique() > 2
    values = (
        np.linspace(float(column.min()), float(column.max()), POINTS)
        if numeric
        else np.array(sorted(column.unique()), dtype=object)
    )
    levels = [None] if by is None else sorted(frame[by].unique())
    if len(levels) > len(COLOURS):
        raise InvalidModel(
            f"by='{by}' has {len(levels)} values; up to {len(COLOURS)} can be drawn."
        )
    ax = ax or new_axes(7.0, 4.2)
    handles = []
    for k, level in enumerate(levels):
        rows = some if by is None else some.assign(**{by: _filled(some[by], level)})
        found = _along(model, rows, variable, values, groups, prob)
        colour = COLOURS[k]
        if numeric:
            ax.fill_between(
                values, found["lower"], found["upper"], color=colour, alpha=0.18, linewidth=0
            )
            ax.plot(values, found["mean"], color=colour, linewidth=2)
        else:
            place = np.arange(len(values)) + 0.12 * (k - (len(levels) - 1) / 2)
            ax.vlines(place, found["lower"], found["upper"], color=colour, linewidth=2)
            ax.plot(place, found["mean"], "o", color=colour, markersize=6)
        handles.append(Line2D([], [], color=colour, marker="o", label=f"{by} = {level}"))
    if numeric:
        ax.plot(
            column,
            np.full(len(column), 0.015),
            "|",
            color=INK,
            alpha=0.25,
            transform=ax.get_xaxis_transform(),
        )
    else:
        ax.set_xticks(np.arange(len(values)), [str(v) for v in values])
        ax.set_xlim(-0.5, len(values) - 0.5)
    ax.set_xlabel(variable)
    ax.set_ylabel(f"expected {model._design().formula.response}, {prob:.0%} interval")
    plain_axes(ax)
    if by is not None:
        legend_above(ax, handles)
    return ax


def _along(
    model: Any, rows: pd.DataFrame, variable: str, values: np.ndarray, groups: Any, prob: float
) -> pd.DataFrame:
    """The average of the rows' expected responses at every value of the variable."""
    parts = [
        rows.assign(**{variable: _filled(rows[variable], value), "_at": k})
        for k, value in enumerate(values)
    ]
    return model.predictions(
        pd.concat(parts, ignore_index=True), by="_at", groups=groups, prob=prob
    )


def _filled(column: pd.Series, value: Any) -> Any:
    """One value for all rows, in the column's own kind."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return pd.Categorical([value] * len(column), dtype=column.dtype)
    return value


def draw_comparisons(table: pd.DataFrame, ax: Axes | None) -> Axes:
    """See `lrvb.plot.comparisons`."""
    if "contrast" not in table or not len(table):
        raise InvalidModel("The table must be one of MixedModel.comparisons or slopes, with by=….")
    if len(table) > 60:
        raise InvalidModel(
            f"The table has {len(table)} rows, too many to draw; average them with by=True or by='column'."
        )
    ax = ax or new_axes(7.0, 1.2 + 0.36 * len(table))
    at = np.arange(len(table))
    ratio = bool(table["contrast"].str.contains(" / ").any())
    ax.axvline(1.0 if ratio else 0.0, color="0.75", linewidth=1, zorder=0)
    ax.hlines(at, table["lower"], table["upper"], color=LRVB, linewidth=2.2)
    ax.plot(table["mean"], at, "o", color=LRVB, markersize=5)
    others = [
        c for c in table.columns if c not in ("term", "contrast", "mean", "sd", "lower", "upper")
    ]
    labels = [
        " · ".join([f"{row['term']}: {row['contrast']}", *(f"{c} = {row[c]}" for c in others)])
        for _, row in table.iterrows()
    ]
    ax.set_yticks(at, labels)
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlabel("ratio of the expected response" if ratio else "change of the expected response")
    plain_axes(ax)
    return ax
