"""Small densities whose answers are known, as the methods see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lrvb.blackbox.density import Density


def density(log_density: Callable[[Any], Any], start: np.ndarray) -> Density:
    """Over one array `x`."""
    names = tuple(f"x[{i}]" for i in range(len(start)))
    return Density(log_density, lambda x: {"x": x}, start[None], names, "f")


def covariance(d: int, seed: int = 0) -> np.ndarray:
    A = np.random.default_rng(seed).normal(size=(d, d))
    return A @ A.T + 0.5 * np.eye(d)


def gaussian(d: int) -> tuple[Density, np.ndarray, np.ndarray]:
    """N(m, S) with m and S."""
    S, m = covariance(d), np.linspace(-3, 3, d)
    P = np.linalg.inv(S)
    return density(lambda x: -0.5 * (x - m) @ P @ (x - m), np.zeros(d)), m, S
