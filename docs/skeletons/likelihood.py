r"""A likelihood in one file: copy it, rename it, change log p, the variance and the cdf.

The example is a geometric count, the number of failures before a success: overdispersed, with variance
mean + mean². With the log link, mean = exp η,

    p(y | η) = e^{ηy} / (1 + e^η)^{y + 1},   y = 0, 1, 2, …

so that log p is smooth and concave in η, which is all that a mixed model asks of it. Expectations over a
normal η and their derivatives, quantiles, draws and starts are derived from what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import lrvb
from lrvb.likelihoods import LOG, Given, Likelihood
from lrvb.likelihoods.base import Refuse, require_counts


class Geometric(Likelihood):
    """y ~ Geometric with mean exp η; `given` would hold the trials or the dispersion of others."""

    name, link, discrete = "geometric", LOG, True

    def log_p(self, y: Any, eta: Any, given: Given, xp: Any) -> Any:
        """ηy − (y + 1) log(1 + e^η); `xp` is NumPy, or JAX where the density is traced."""
        return y * eta - (y + 1) * xp.logaddexp(0.0, eta)

    def variance(self, eta: np.ndarray, given: Given) -> np.ndarray:
        """mean + mean²."""
        return np.exp(eta) + np.exp(2 * eta)

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given) -> np.ndarray:
        """1 − σ(η)^{k + 1} with k the whole part of y."""
        k = np.maximum(np.floor(y), -1.0)
        return -np.expm1(-(k + 1) * np.logaddexp(0.0, -eta))

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Whole numbers from 0; the sentence names column, row and value."""
        require_counts(names["response"], y, refuse)


if __name__ == "__main__":
    rng = np.random.default_rng(4)
    truth = {"Intercept": 1.0, "x": 0.5}
    group, x = rng.integers(40, size=1200), rng.normal(size=1200)
    eta = truth["Intercept"] + truth["x"] * x + 0.5 * rng.normal(size=40)[group]
    y = Geometric().draw(rng, eta)

    model = lrvb.MixedModel("y ~ x + (1|g)", Geometric()).fit({"y": y, "x": x, "g": group})
    print(model.summary())
