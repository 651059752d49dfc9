"""Six small mixed models with simulated data and stated priors, each from a fixed seed.

A case is (formula, family, data frame, priors). The priors are plain tuples under the names of
`lrvb.MixedModel`: ("Normal", mean, sd) of the fixed effects, ("Gamma", shape, rate) of a precision,
("Wishart", degrees of freedom, scale) of a correlated term's precision matrix, E Λ = dof · scale.
`results/mixed_truth.csv` holds their posteriors by long NUTS runs (`mixed_truth.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

Prior = tuple[Any, ...]

FIXED: Prior = ("Normal", 0.0, 5.0)
PRECISION: Prior = ("Gamma", 2.0, 1.0)
PAIR: Prior = ("Wishart", 4.0, [[0.25, 0.0], [0.0, 0.25]])  # E Λ = I


class MixedCase(NamedTuple):
    """A mixed model and its data."""

    formula: str
    family: str
    data: pd.DataFrame
    priors: dict[str, Prior]


def gaussian_slopes(groups: int = 40, per_group: int = 8) -> MixedCase:
    """Gaussian rows, a correlated intercept and slope in each group."""
    rng = np.random.default_rng(101)
    g = np.repeat(np.arange(groups), per_group)
    x = rng.normal(size=len(g))
    z = _pairs(rng, groups, sds=(0.8, 0.5), corr=0.4)
    y = 1.0 + 0.5 * x + z[g, 0] + z[g, 1] * x + rng.normal(size=len(g))
    data = pd.DataFrame({"y": y, "x": x, "g": _labels("g", g)})
    priors = {"fixed": FIXED, "g": PAIR, "residual": PRECISION}
    return MixedCase("y ~ x + (1 + x | g)", "gaussian", data, priors)


def poisson_nested(outer: int = 12, inner: int = 4, per_cell: int = 6) -> MixedCase:
    """Counts in b within a, with an effect of its own for each row; b is coded anew within each a."""
    rng = np.random.default_rng(102)
    cell = np.repeat(np.arange(outer * inner), per_cell)
    a, b = cell // inner, cell % inner
    x = rng.normal(size=len(cell))
    eta = 1.0 + 0.5 * x + 0.6 * rng.normal(size=outer)[a]
    eta += 0.4 * rng.normal(size=outer * inner)[cell] + 0.4 * rng.normal(size=len(cell))
    data = pd.DataFrame(
        {
            "y": rng.poisson(np.exp(eta)),
            "x": x,
            "a": _labels("a", a),
            "b": _labels("b", b),
            "obs": _labels("o", np.arange(len(cell))),
        }
    )
    priors = {"fixed": FIXED, "1|a": PRECISION, "1|a:b": PRECISION, "1|obs": PRECISION}
    return MixedCase("y ~ x + (1 | a/b) + (1 | obs)", "poisson", data, priors)


def bernoulli_small(groups: int = 60) -> MixedCase:
    """Zeros and ones, two to five of them in each group."""
    rng = np.random.default_rng(103)
    g = np.repeat(np.arange(groups), rng.integers(2, 6, size=groups))
    x = rng.normal(size=len(g))
    eta = -0.5 + x + rng.normal(size=groups)[g]
    y = (rng.uniform(size=len(g)) < 1 / (1 + np.exp(-eta))).astype(int)
    data = pd.DataFrame({"y": y, "x": x, "g": _labels("g", g)})
    return MixedCase("y ~ x + (1 | g)", "bernoulli", data, {"fixed": FIXED, "1|g": PRECISION})


def gaussian_crossed(first: int = 30, second: int = 20, rows: int = 400) -> MixedCase:
    """Gaussian rows at random cells of two crossed factors."""
    rng = np.random.default_rng(104)
    a, b = rng.integers(first, size=rows), rng.integers(second, size=rows)
    x = rng.normal(size=rows)
    y = 0.5 - x + 0.8 * rng.normal(size=first)[a] + 0.6 * rng.normal(size=second)[b]
    data = pd.DataFrame(
        {"y": y + rng.normal(size=rows), "x": x, "a": _labels("a", a), "b": _labels("b", b)}
    )
    priors = {"fixed": FIXED, "1|a": PRECISION, "1|b": PRECISION, "residual": PRECISION}
    return MixedCase("y ~ x + (1 | a) + (1 | b)", "gaussian", data, priors)


def binomial(groups: int = 25, per_group: int = 4) -> MixedCase:
    """Successes s out of n trials, n from 5 to 20."""
    rng = np.random.default_rng(105)
    g = np.repeat(np.arange(groups), per_group)
    x = rng.normal(size=len(g))
    n = rng.integers(5, 21, size=len(g))
    eta = 0.3 + 0.6 * x + 0.7 * rng.normal(size=groups)[g]
    s = rng.binomial(n, 1 / (1 + np.exp(-eta)))
    data = pd.DataFrame({"s": s, "n": n, "x": x, "g": _labels("g", g)})
    priors = {"fixed": FIXED, "1|g": PRECISION}
    return MixedCase("prop(s, n) ~ x + (1 | g)", "binomial", data, priors)


def poisson_slopes(groups: int = 50, per_group: int = 10) -> MixedCase:
    """Counts, a correlated intercept and slope in each group."""
    rng = np.random.default_rng(106)
    g = np.repeat(np.arange(groups), per_group)
    x = rng.normal(size=len(g))
    z = _pairs(rng, groups, sds=(0.6, 0.4), corr=-0.3)
    y = rng.poisson(np.exp(0.5 + 0.3 * x + z[g, 0] + z[g, 1] * x))
    data = pd.DataFrame({"y": y, "x": x, "g": _labels("g", g)})
    return MixedCase("y ~ x + (1 + x | g)", "poisson", data, {"fixed": FIXED, "g": PAIR})


CASES: dict[str, Callable[[], MixedCase]] = {
    "gaussian_slopes": gaussian_slopes,
    "poisson_nested": poisson_nested,
    "bernoulli_small": bernoulli_small,
    "gaussian_crossed": gaussian_crossed,
    "binomial": binomial,
    "poisson_slopes": poisson_slopes,
}


def _labels(prefix: str, codes: np.ndarray) -> list[str]:
    """Levels as text whose order is that of the codes, such as g00 and g01."""
    digits = len(str(codes.max()))
    return [f"{prefix}{code:0{digits}d}" for code in codes]


def _pairs(
    rng: np.random.Generator, groups: int, sds: tuple[float, float], corr: float
) -> np.ndarray:
    """Correlated intercepts and slopes, (groups, 2)."""
    cov = np.diag(sds) @ np.array([[1, corr], [corr, 1]]) @ np.diag(sds)
    return rng.multivariate_normal(np.zeros(2), cov, size=groups)
