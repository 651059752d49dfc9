"""The normal–Poisson study: both restrictions of q(z), row by row."""

from __future__ import annotations

from pathlib import Path

from . import regression
from .regression import Panel, Tables

QUANTITIES = ("beta", "tau", "log(tau)")
MODELS = {"gaussian": "Gaussian q(z)", "tilted": "optimal q(z)"}
PANELS = [Panel(model, name, words) for model, words in MODELS.items() for name in QUANTITIES]
LOCALS = [
    Panel(model, name, words) for model, words in MODELS.items() for name in ("z", *QUANTITIES)
]


def draw_means(tables: Tables, path: Path, truth: str) -> Path:
    """Means of β, τ, log τ."""
    return regression.draw_means(tables, path, truth, PANELS)


def draw_sds(tables: Tables, path: Path, truth: str) -> Path:
    """Sds of β, τ, log τ."""
    return regression.draw_sds(tables, path, truth, PANELS)


def draw_locals(tables: Tables, path: Path, truth: str) -> Path:
    """Sds of z, and its covariances with β, τ, log τ."""
    return regression.draw_locals(tables, path, truth, LOCALS, columns=4)


def draw_ratios(tables: Tables, path: Path) -> Path:
    """Sd ratios: the study's comparison, then matched priors with either q(z)."""
    panels = [
        ("as published:\nother priors, Gaussian q(z)", "gaussian", "as published"),
        ("matched priors,\nGaussian q(z)", "gaussian", "matched"),
        ("matched priors,\noptimal q(z)", "tilted", "matched"),
    ]
    return regression.draw_ratios(tables, path, panels, QUANTITIES)
