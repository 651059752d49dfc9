"""A fitted mixture as files: in the plane of two columns, or along its only one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from .figure_files import bare, save
from .mixture_plots import PALETTE, draw_mixture


def plane(mixture: Any, X: Any, columns: tuple[int, int], path: Path) -> Path:
    """The mixture over two columns, with each mean's region enlarged."""
    axes = draw_mixture(mixture, X, columns, None, draws=30, seed=0)
    figure = axes.figure
    assert isinstance(figure, Figure)
    return save(figure, path)


def line(mixture: Any, X: Any, path: Path) -> Path:
    """A histogram of the only column under the weighted densities of the components."""
    values = np.asarray(X, dtype=float)[:, 0]
    figure, axis = plt.subplots(figsize=(7.5, 4))
    axis.hist(values, bins="auto", density=True, color="0.88")
    grid = np.linspace(values.min(), values.max(), 400)
    total = np.zeros_like(grid)
    for k, (weight, mean, cov) in enumerate(
        zip(mixture.weights_, mixture.means_[:, 0], mixture.covariances_[:, 0, 0], strict=True)
    ):
        density = weight * np.exp(-0.5 * (grid - mean) ** 2 / cov) / np.sqrt(2 * np.pi * cov)
        total += density
        axis.plot(grid, density, color=PALETTE[k % len(PALETTE)], label=f"component {k}")
    axis.plot(grid, total, color="0.3", linewidth=1, linestyle="--", label="all")
    axis.set_xlabel(str(getattr(mixture, "feature_names_in_", ["value"])[0]))
    axis.set_ylabel("density")
    axis.legend(frameon=False)
    bare(axis)
    figure.tight_layout()
    return save(figure, path)
