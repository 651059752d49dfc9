"""A small mixed model is fitted, summarised and asked for predictions before JAX is ever imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np, pandas as pd
import lrvb
assert "jax" not in sys.modules
rng = np.random.default_rng(0)
g, x = np.arange(60) % 10, rng.normal(size=60)
eta = 0.5 * x + rng.normal(size=10)[g]
data = pd.DataFrame({"y": eta + rng.normal(size=60), "b": rng.binomial(1, 0.5, 60), "x": x, "g": g})
model = lrvb.MixedModel("{response} ~ x + (1|g)", family="{family}").fit(data)
repr(model.summary()), model.ranef(), model.predict(data, interval=0.9)
slow = "formulaic jax jaxlib sklearn xarray matplotlib"
slow += " scipy.integrate scipy.interpolate scipy.optimize scipy.stats"
late = [name for name in slow.split() if name in sys.modules]
assert not late, late
"""


@pytest.mark.parametrize(("response", "family"), [("y", "gaussian"), ("b", "bernoulli")])
def test_jax_is_not_imported_for_a_small_mixed_model(response, family):
    script = SCRIPT.replace("{response}", response).replace("{family}", family)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there_whatever_was_imported():
    script = (
        "import lrvb\n"
        "assert set(lrvb.__all__) <= set(dir(lrvb))\n"
        "assert all(getattr(lrvb, name) is not None for name in lrvb.__all__)\n"
        "from lrvb import *\n"
        "assert fit is lrvb.fit and MixedModel is lrvb.MixedModel\n"
        "try:\n    lrvb.nothing\nexcept AttributeError as error:\n"
        "    assert str(error) == \"module 'lrvb' has no attribute 'nothing'\"\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
