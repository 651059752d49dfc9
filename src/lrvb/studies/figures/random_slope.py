"""The random-slope study."""

from __future__ import annotations

from pathlib import Path

from . import regression
from .regression import Panel, Tables

MODEL = "conjugate"
QUANTITIES = ("beta[0]", "nu", "log(nu)", "beta[1]", "tau", "log(tau)")
PANELS = [Panel(MODEL, name) for name in QUANTITIES]
LOCALS = [Panel(MODEL, name) for name in ("z", "nu", "beta[0]", "log(nu)", "tau", "beta[1]")]


def draw_means(tables: Tables, path: Path, truth: str) -> Path:
    """Means of β₁, β₂, ν, τ and the logarithms of both."""
    return regression.draw_means(tables, path, truth, PANELS)


def draw_sds(tables: Tables, path: Path, truth: str) -> Path:
    """Sds of β₁, β₂, ν, τ and the logarithms of both."""
    return regression.draw_sds(tables, path, truth, PANELS)


def draw_locals(tables: Tables, path: Path, truth: str) -> Path:
    """Sds of z, and its covariances with β₁, β₂, ν, log ν, τ."""
    return regression.draw_locals(tables, path, truth, LOCALS, columns=3)


def draw_ratios(tables: Tables, path: Path) -> Path:
    """Sd ratios: the study's comparison, then matched priors."""
    panels = [
        ("as published: other priors", MODEL, "as published"),
        ("matched priors", MODEL, "matched"),
    ]
    order = ("beta[0]", "beta[1]", "nu", "log(nu)", "tau", "log(tau)")
    return regression.draw_ratios(tables, path, panels, order)
