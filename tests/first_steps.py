"""What a user does first, run by tests/test_packaging.py where only the package is installed."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

import lrvb

assert Path(lrvb.__file__).is_relative_to(sys.prefix), f"imported from {lrvb.__file__}"
assert lrvb.__version__ == version("lrvb")
assert all(hasattr(lrvb, name) for name in lrvb.__all__)

rng = np.random.default_rng(0)
x = rng.normal(size=40)


class Mean(lrvb.Model):
    """y ~ N(μ, 1) and μ ~ N(0, 1): the posterior of μ is N(Σy/41, 1/41)."""

    global_blocks = {"mu": lrvb.Normal()}

    def global_term(self, m):
        return -m.mu.xx / 2

    def local_term(self, m, z, row):
        return row.y * m.mu.x - m.mu.xx / 2


posterior = lrvb.infer(Mean(), {"y": x})
np.testing.assert_allclose(posterior.mean("mu"), x.sum() / 41, rtol=1e-9)
np.testing.assert_allclose(posterior.sd("mu"), 41**-0.5, rtol=1e-9)

table = pd.DataFrame({"x": x, "g": [f"g{k}" for k in np.arange(40) % 5]})
table["y"] = 1 + 2 * x + 0.1 * rng.normal(size=40)
summary = lrvb.MixedModel("y ~ x + (1 | g)").fit(table).summary()
assert abs(summary.loc["x", "mean"] - 2) < 4 * summary.loc["x", "sd"]
