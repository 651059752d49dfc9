"""A line with two numbers of its prior, which the questions of what if are asked of."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd

import lrvb


class Line(lrvb.Model):
    """y ~ N(a + bx, 1/τ) with independent factors."""

    columns = ("x", "y")
    global_blocks = {"a": lrvb.Normal(), "b": lrvb.Normal(), "tau": lrvb.Gamma()}

    def __init__(self, slope_mean=0.0, slope_var=100.0):
        self.slope_mean, self.slope_var = slope_mean, slope_var

    def global_term(self, m):
        slope = m.b.xx - 2 * self.slope_mean * m.b.x + self.slope_mean**2
        return -m.a.xx / 200 - slope / (2 * self.slope_var) - 0.01 * m.tau.x

    def local_term(self, m, z, row):
        mean = m.a.x + m.b.x * row.x
        square = m.a.xx + 2 * m.a.x * m.b.x * row.x + m.b.xx * row.x**2
        return (m.tau.log_x - m.tau.x * (row.y**2 - 2 * row.y * mean + square)) / 2


class Coefficients(lrvb.Model):
    """y ~ N(xᵀβ, 1/τ), all coefficients in one factor."""

    columns = ("X", "y")

    def global_blocks(self, rows):
        return {"beta": lrvb.MultivariateNormal(rows.columns["X"].shape[1]), "tau": lrvb.Gamma()}

    def global_term(self, m):
        return -jnp.trace(m.beta.xx) / 2 - m.tau.x

    def local_term(self, m, z, row):
        square = row.X @ m.beta.xx @ row.X
        return (m.tau.log_x - m.tau.x * (row.y**2 - 2 * row.y * (row.X @ m.beta.x) + square)) / 2


def line(n: int = 40, seed: int = 0, slope: float = 0.5) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {"x": x, "y": 1 + slope * x + rng.normal(size=n)}, index=[f"r{i}" for i in range(n)]
    )
