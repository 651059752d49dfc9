"""A fitted mixed model as files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .check_plots import draw_predictive, draw_residuals
from .figure_files import save
from .marginal_plots import draw_comparisons
from .mixed_plots import draw_coefficients, draw_fitted, draw_ranef
from .smooth_plots import draw_smooth

MOST_TERMS = 6  # whose levels are drawn
MOST_ROWS = 2000  # over which comparisons are averaged, evenly spaced
MOST_LINES = 40  # of comparisons


def write_figures(model: Any, out: Path) -> list[tuple[Path, str]]:
    """Every figure with its caption: coefficients, fitted rows, checks, smooths, comparisons, levels."""
    found = []
    if model.design_.names:
        found.append(
            (
                _saved(draw_coefficients(model, None, None, prob=0.94), out / "coefficients.png"),
                "Fixed effects with 94 % intervals, and what mean field alone would have said.",
            )
        )
    what = (
        "The share of ones among rows with similar fitted probabilities; on the line they agree."
        if model.design_.family.binary
        else "Fitted means with 90 % intervals against what was observed; on the line they agree."
    )
    found.append((_saved(draw_fitted(model, None, interval=0.9, seed=0), out / "fitted.png"), what))
    found.append(
        (
            _saved(draw_predictive(model, None, replicates=50, seed=0), out / "predictive.png"),
            "The observed responses beside 50 data sets that the fitted model made.",
        )
    )
    found.append(
        (
            _saved(draw_residuals(model, None, kind="quantile", seed=0), out / "residuals.png"),
            "Quantile residuals against fitted means, and against a normal's: on the line they agree.",
        )
    )
    for k, name in enumerate(dict.fromkeys(s.text.label for s in model.design_.smooths)):
        ax = draw_smooth(model, name, None, prob=0.94)
        caption = f"What {name} adds to the linear predictor, with its 94 % band; marks are rows."
        found.append((_saved(ax, out / f"smooth-{k}.png"), caption))
    compared = _compared(model)
    if compared is not None:
        found.append(
            (
                _saved(draw_comparisons(compared, None), out / "comparisons.png"),
                "What each column does to the expected response, averaged over rows: of a number from its "
                "first to its third quartile, of labels each with the first; 94 % intervals.",
            )
        )
    for k, term in enumerate(list(model._effects)[:MOST_TERMS]):
        ax = draw_ranef(model, term, None, prob=0.94)
        caption = f"The effect of every level, {term}, sorted, with 94 % intervals."
        found.append((_saved(ax, out / f"effects-{k}.png"), caption))
    return found


def _compared(model: Any) -> pd.DataFrame | None:
    """Comparisons of all columns of the fixed effects, averaged over rows; None where there are none."""
    design = model.design_
    text = " ".join([design.formula.fixed, *(s.argument for s in design.formula.smooths)])
    rows = design.frame.iloc[
        np.linspace(0, design.n - 1, min(design.n, MOST_ROWS)).round().astype(int)
    ]
    asked: dict[str, Any] = {}
    for name in design.needed([str(column) for column in rows.columns]):
        if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text):
            number = pd.api.types.is_numeric_dtype(rows[name].dtype) and rows[name].nunique() > 2
            labels = re.search(rf"(?<![\w.])(?:factor|C)\s*\(\s*{re.escape(name)}", text)
            asked[name] = "iqr" if number and not labels else None
    if not asked:
        return None
    table: pd.DataFrame = model.comparisons(asked, by=True, new_data=rows)
    return table if 0 < len(table) <= MOST_LINES else None


def _saved(ax: Axes, path: Path) -> Path:
    figure = ax.figure
    assert isinstance(figure, Figure)
    return save(figure, path)
