"""A fitted mixed model as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .check_plots import draw_predictive, draw_residuals
from .figure_files import save
from .mixed_plots import draw_coefficients, draw_fitted, draw_ranef

MOST_TERMS = 6  # whose levels are drawn


def write_figures(model: Any, out: Path) -> list[tuple[Path, str]]:
    """Every figure with its caption: coefficients, fitted rows, and the levels of the first terms."""
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
    for k, term in enumerate(list(model._effects)[:MOST_TERMS]):
        ax = draw_ranef(model, term, None, prob=0.94)
        caption = f"The effect of every level, {term}, sorted, with 94 % intervals."
        found.append((_saved(ax, out / f"effects-{k}.png"), caption))
    return found


def _saved(ax: Axes, path: Path) -> Path:
    figure = ax.figure
    assert isinstance(figure, Figure)
    return save(figure, path)
