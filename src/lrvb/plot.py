"""Figures of fitted models; Matplotlib is imported when one is drawn (`pip install lrvb[plot]`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def mixture(
    estimator: Any,
    X: Any,
    columns: tuple[Any, Any] = (0, 1),
    ax: Axes | None = None,
    *,
    draws: int = 30,
    seed: int = 0,
) -> Axes:
    """A fitted `GaussianMixture` over two columns of X, given by number or by name.

    Rows have the colours of their components. Of each component: the region of 90 % of its rows,
    solid at the posterior mean and faint for `draws` draws from the posterior; a cross at its mean
    with the 95 % region of that mean, filled by linear response and dashed by mean field. Without
    `ax` a new figure also shows each mean's region enlarged. Returns the main axes.
    """
    try:
        from .report.mixture_plots import draw_mixture
    except ImportError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise ImportError(
            "lrvb.plot needs Matplotlib, which is not installed: pip install 'lrvb[plot]'.",
            name="matplotlib",
        ) from error
    return draw_mixture(estimator, X, columns, ax, draws=draws, seed=seed)
