"""A fitted mixture in the plane: rows, components, and how uncertain both means and spreads are."""

from __future__ import annotations

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon

from ..errors import InvalidData, InvalidModel

PALETTE = (
    "#1f6fb2",
    "#d1622b",
    "#2f8f5b",
    "#8a5bb0",
    "#b08a1e",
    "#b0446f",
    "#3a98a8",
    "#6f6257",
)
ROWS_REGION = np.sqrt(-2 * np.log(0.10))  # Mahalanobis radius that holds 90 % of a plane normal
MEAN_REGION = np.sqrt(-2 * np.log(0.05))  # 95 %
MOST_ROWS = 4000  # drawn; more would only hide each other
MOST_PANELS = 6
CIRCLE = np.stack([f(np.linspace(0, 2 * np.pi, 181)) for f in (np.cos, np.sin)])


class Component(NamedTuple):
    """What is drawn of one component, on the two columns."""

    number: int
    color: str
    mean: np.ndarray
    cov: np.ndarray
    lrvb: np.ndarray
    mfvb: np.ndarray
    drawn_means: np.ndarray
    drawn_covs: np.ndarray


def draw_mixture(
    estimator: Any, X: Any, columns: Any, ax: Axes | None, *, draws: int, seed: int
) -> Axes:
    """See `lrvb.plot.mixture`."""
    names = _names(estimator)
    pair = _pair(columns, names)
    R = estimator.predict_proba(X)
    points = np.asarray(X, dtype=float)[:, pair]
    shown = np.flatnonzero(R.sum(axis=0) > 0.5)
    components = _components(estimator, pair, names, shown, draws, seed)
    panels: list[Axes] = []
    if ax is None:
        ax, panels = _figure(min(len(components), MOST_PANELS))
    _rows(ax, points, R, seed)
    for component in components:
        _spread(ax, component)
    for component in components:
        _mean(ax, component, cross=8.0)
    _limits(ax, points, components)
    ax.set_xlabel(_label(names[pair[0]], estimator))
    ax.set_ylabel(_label(names[pair[1]], estimator))
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("0.5")
    ax.tick_params(labelsize=9, colors="0.25")
    for panel, component in zip(panels, components, strict=False):
        _enlarged(panel, component)
    _legend(ax, panels, R.shape[1] - len(shown))
    return ax


# ---- what to draw --------------------------------------------------------------------------


def _names(estimator: Any) -> list[str]:
    P = estimator.means_.shape[1]
    if P < 2:
        raise InvalidModel("The mixture has one column; a plane needs two.")
    return [str(name) for name in getattr(estimator, "feature_names_in_", range(P))]


def _pair(columns: Any, names: list[str]) -> list[int]:
    """Positions of the two columns asked for."""
    chosen = list(columns) if not isinstance(columns, str) else [columns]
    positions = []
    for column in chosen:
        if isinstance(column, str) and column in names:
            positions.append(names.index(column))
        elif isinstance(column, int | np.integer) and 0 <= column < len(names):
            positions.append(int(column))
        else:
            raise InvalidData(
                f"There is no column {column!r}; the columns are {', '.join(names)}.", column=column
            )
    if len(positions) != 2 or positions[0] == positions[1]:
        raise InvalidData(f"columns={columns!r} must name two different columns.")
    return positions


def _components(
    estimator: Any, pair: list[int], names: list[str], shown: np.ndarray, draws: int, seed: int
) -> list[Component]:
    drawn = estimator.posterior_.draws(draws, seed)
    covs = np.linalg.inv(drawn["Lambda"])
    at = np.ix_(pair, pair)
    result = []
    for k in shown:
        mu = [f"mu[{k},{names[p]}]" for p in pair]
        result.append(
            Component(
                int(k),
                PALETTE[int(k) % len(PALETTE)],
                estimator.means_[k, pair],
                estimator.covariances_[k][at],
                estimator.posterior_.cov(mu).to_numpy(),
                estimator.posterior_.cov(mu, method="mfvb").to_numpy(),
                drawn["mu"][:, k][:, pair],
                covs[:, k][:, pair][:, :, pair],
            )
        )
    return result


def _outline(center: np.ndarray, cov: np.ndarray, radius: float) -> np.ndarray:
    """Points of the ellipse (x − c)ᵀ cov⁻¹ (x − c) = radius², shape (n, 2)."""
    return center + radius * (np.linalg.cholesky(cov) @ CIRCLE).T


# ---- drawing -------------------------------------------------------------------------------


def _figure(panels: int) -> tuple[Axes, list[Axes]]:
    """A figure with the main axes, and small ones on its right."""
    rows = min(max(panels, 1), 3)
    wide = -(-panels // rows)
    figure = plt.figure(figsize=(7.0 + 2.1 * wide, 5.6), layout="constrained")
    # Matplotlib's stubs know no engine's own arguments
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)  # type: ignore[union-attr,call-arg]
    grid = figure.add_gridspec(rows, 1 + wide, width_ratios=[3.4] + [1.0] * wide)
    main = figure.add_subplot(grid[:, 0])
    small = [figure.add_subplot(grid[i % rows, 1 + i // rows]) for i in range(panels)]
    return main, small


def _rows(ax: Axes, points: np.ndarray, R: np.ndarray, seed: int) -> None:
    """The rows, each in the mixture of its components' colours."""
    if len(points) > MOST_ROWS:
        chosen = np.random.default_rng(seed).choice(len(points), MOST_ROWS, replace=False)
        points, R = points[chosen], R[chosen]
    colors = R @ np.array([to_rgb(PALETTE[k % len(PALETTE)]) for k in range(R.shape[1])])
    size = float(np.clip(6000 / len(points), 4, 22))
    x, y = points.T
    ax.scatter(x, y, s=size, c=np.clip(colors, 0, 1), alpha=0.40, linewidths=0, zorder=1)


def _spread(ax: Axes, component: Component) -> None:
    for mean, cov in zip(component.drawn_means, component.drawn_covs, strict=True):
        line = _outline(mean, cov, ROWS_REGION)
        ax.plot(*line.T, color=component.color, alpha=0.16, linewidth=0.8, zorder=2)
    line = _outline(component.mean, component.cov, ROWS_REGION)
    ax.plot(*line.T, color="white", linewidth=3.2, alpha=0.7, zorder=3)
    ax.plot(*line.T, color=component.color, linewidth=1.7, zorder=4)


def _mean(ax: Axes, component: Component, cross: float) -> None:
    region = _outline(component.mean, component.lrvb, MEAN_REGION)
    ax.add_patch(Polygon(region, facecolor="white", alpha=0.75, linewidth=0, zorder=5))
    ax.add_patch(
        Polygon(
            region,
            facecolor=(*to_rgb(component.color), 0.28),
            edgecolor=component.color,
            linewidth=1.3,
            zorder=6,
        )
    )
    line = _outline(component.mean, component.mfvb, MEAN_REGION)
    ax.plot(*line.T, color="0.15", linewidth=1.0, linestyle=(0, (3, 2)), zorder=7)
    ax.plot(*component.mean, "+", color="0.05", markersize=cross, markeredgewidth=1.3, zorder=8)


def _enlarged(ax: Axes, component: Component) -> None:
    """The region of one mean, with draws of it."""
    x, y = component.drawn_means.T
    ax.scatter(x, y, s=9, color=component.color, alpha=0.55, linewidths=0, zorder=6.5)
    _mean(ax, component, cross=7.0)
    reach = (
        1.25 * MEAN_REGION * np.sqrt(np.maximum(np.diag(component.lrvb), np.diag(component.mfvb)))
    )
    ax.set_xlim(component.mean[0] - reach[0], component.mean[0] + reach[0])
    ax.set_ylim(component.mean[1] - reach[1], component.mean[1] + reach[1])
    ax.locator_params(nbins=4)
    ax.tick_params(labelsize=7, length=2, colors="0.35")
    ax.set_title(f"mean of component {component.number}", fontsize=9, color=component.color)
    for spine in ax.spines.values():
        spine.set_color("0.75")


def _limits(ax: Axes, points: np.ndarray, components: list[Component]) -> None:
    outlines = [_outline(c.mean, c.cov, ROWS_REGION) for c in components]
    everything = np.concatenate([points, *outlines])
    low, high = everything.min(axis=0), everything.max(axis=0)
    margin = 0.04 * np.where(high > low, high - low, 1.0)
    ax.set_xlim(low[0] - margin[0], high[0] + margin[0])
    ax.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _label(name: str, estimator: Any) -> str:
    return name if hasattr(estimator, "feature_names_in_") else f"column {name}"


def _legend(ax: Axes, panels: list[Axes], empty: int) -> None:
    handles: list[Any] = [
        Line2D([], [], color="0.35", linewidth=1.7, label="90 % of a component's rows"),
        Line2D([], [], color="0.35", linewidth=0.8, alpha=0.5, label="draws from the posterior"),
        Patch(facecolor="0.82", edgecolor="0.35", label="95 % region of the mean, linear response"),
        Line2D([], [], color="0.15", linewidth=1.0, linestyle=(0, (3, 2)), label="… mean field"),
    ]
    if empty:
        what = "component without rows" if empty == 1 else "components without rows"
        handles.append(Line2D([], [], linestyle="", label=f"not drawn: {empty} {what}"))
    if panels:
        ax.figure.legend(
            handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8
        )
    else:
        legend = ax.legend(handles=handles, loc="best", framealpha=0.85, fontsize=7)
        legend.get_frame().set_linewidth(0)
        legend.set_zorder(9)
