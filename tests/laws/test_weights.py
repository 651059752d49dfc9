"""A row of weight w is w rows: value, gradient and curvature of every row sum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES
from lrvb.data.tables import Rows
from lrvb.engine.fitting import default_sum


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_weighted_row_is_as_many_rows(case):
    """Weights 0, 1, 2 and 3 against the rows repeated so often, to the rounding of the sums."""
    fit = case.small_fit()
    rows = fit.problem.rows
    weights = np.arange(rows.n) % 4
    repeated = {k: np.repeat(np.asarray(c), weights, axis=0) for k, c in rows.columns.items()}
    weighted = replace(fit.problem, rows=Rows(rows.columns, weights=weights.astype(float)))
    copied = replace(fit.problem, rows=Rows(repeated))
    for strategy in {default_sum(fit.problem), lrvb.AutodiffSum()}:
        ours = strategy.bind(weighted, 64).evaluate(fit.m)
        theirs = strategy.bind(copied, 64).evaluate(fit.m)
        assert ours.failed == theirs.failed == -1
        assert_allclose(ours.value, theirs.value, rtol=1e-11)
        for name in ("gradient", "curvature"):
            one, other = getattr(ours, name), getattr(theirs, name)
            assert_allclose(one, other, rtol=1e-9, atol=1e-12 * np.abs(other).max())
