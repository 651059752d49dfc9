"""Lines of rows whose levels are all new, which are made without sums."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.integrated.inside import stacked


@pytest.mark.parametrize("formula", ["y ~ x + (1|s/c)", "y ~ x + (1|s/c/e)"])
def test_new_levels_need_no_sums(formula):
    """The same as point by point of the sums, which know nothing of such levels: xᵀβ and all variances."""
    rng = np.random.default_rng(4)
    s, c, e = np.arange(96) // 24, np.arange(96) // 8, np.arange(96) // 2
    data = pd.DataFrame({"x": rng.standard_normal(96), "s": s, "c": c, "e": e})
    data["y"] = rng.poisson(np.exp(0.5 + 0.4 * rng.standard_normal(12)[c]))
    found = lrvb.MixedModel(formula, "poisson").fit(data).posterior_._sensitivity.found
    inside, theta = found.statement.inside, found.theta[:5]
    X = rng.standard_normal((3, inside.p))
    codes = [np.full(3, -1) for _ in found.design.terms]
    quick = list(inside.lines(theta, X, codes, []))
    summed = list(stacked(inside._lines(theta, X, codes)))
    for part in ("at", "eta", "P", "extra"):
        ours, theirs = (
            np.concatenate([getattr(lot, part) for lot in lots]) for lots in (quick, summed)
        )
        assert_allclose(ours, theirs, rtol=1e-12)
