"""Small mixed models, fitted once for all tests of what a user asks of them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

import lrvb


def frame(groups: int = 12, per_group: int = 6, seed: int = 0) -> pd.DataFrame:
    """Rows in groups with an intercept and a slope each, a second factor, and one response a family."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(groups), per_group)
    rng.shuffle(g)
    n = len(g)
    x, w = rng.normal(size=n), rng.normal(2.0, 3.0, size=n)
    h, c = rng.integers(5, size=n), rng.integers(3, size=n)
    z = rng.normal(size=(groups, 2)) * [0.7, 0.4]
    eta = 0.4 + 0.5 * x + 0.05 * w + z[g, 0] + z[g, 1] * x + 0.4 * rng.normal(size=5)[h]
    trials = rng.integers(3, 12, size=n)
    chance = 1 / (1 + np.exp(-eta))
    return pd.DataFrame(
        {
            "y": eta + 0.8 * rng.normal(size=n),
            "count": rng.poisson(np.exp(eta)),
            "yes": (rng.uniform(size=n) < chance).astype(int),
            "s": rng.binomial(trials, chance),
            "n": trials,
            "x": x,
            "w": w,
            "exposure": rng.uniform(0.5, 2.0, size=n),
            "g": [f"g{k:02d}" for k in g],
            "h": [f"h{k}" for k in h],
            "c": np.array(["a", "b", "c"])[c],
            "obs": np.arange(n),
        },
        index=[f"row{i}" for i in range(n)],
    )


FORMULAS = {
    "slopes": ("y ~ x + w + c + (1 + x | g)", "gaussian"),
    "crossed": ("y ~ x + (x || g) + (1 | h)", "gaussian"),
    "counts": ("count ~ x + offset(log(exposure)) + (1 | g)", "poisson"),
    "rows": ("count ~ x + (1 | g) + (1 | obs)", "poisson"),
    "yes": ("yes ~ x + (1 | g)", "bernoulli"),
    "shares": ("prop(s, n) ~ x + (1 + x | g) + (1 | h)", "binomial"),
}


@functools.cache
def fitted(name: str, factorization: str = "variational") -> lrvb.MixedModel:
    """One of the models above on `frame()`."""
    formula, family = FORMULAS[name]
    return lrvb.MixedModel(formula, family, factorization=factorization).fit(frame())


def mean_of_inverse(response: Any, block: str) -> np.ndarray:
    """E_q Λ⁻¹ of a block, (q, q), by SciPy's inverse gamma and inverse Wishart distributions."""
    params = response.fit.params()[block]
    if "shape" in params:
        law = scipy.stats.invgamma(float(params["shape"]), scale=float(params["rate"]))
        return np.array([[law.mean()]])
    scale = np.linalg.inv(np.asarray(params["scale"]))
    return np.asarray(scipy.stats.invwishart(float(params["dof"]), scale).mean())
