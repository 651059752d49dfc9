"""Levels in parts: sums over them are those of all rows at the same nodes, whatever columns effects have."""

from __future__ import annotations

from dataclasses import replace

import dask
import numpy as np
import pytest
from numpy.testing import assert_allclose
from small import dispersion, intercepts, regression

from lrvb.bridges.dask import DaskPartitions
from lrvb.integrated.levels import Levels
from lrvb.integrated.scattered_levels import ScatteredLevels

N, G = 90, 9
BETA = np.array([0.2, -0.4])


@pytest.mark.parametrize("bent", [False, True], ids=["even nodes", "bent nodes"])
@pytest.mark.parametrize("column", ["ones", "zeros and ones", "numbers"])
@pytest.mark.parametrize("family", ["poisson", "bernoulli", "shaped"])
def test_sums_over_parts_are_those_of_all_rows(family, column, bent):
    """Whether an effect is an intercept, and how far it reaches, every part tells of its own rows."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, G - 1, N)  # the last level has no rows
    X = np.column_stack([np.ones(N), rng.integers(0, 2, N)])
    zeros = rng.integers(0, 2, N).astype(float)
    R = {"ones": np.ones(N), "zeros and ones": zeros, "numbers": rng.normal(size=N)}[column]
    rows = regression(family, X @ BETA + R * rng.normal(size=G)[codes], X)
    term = replace(intercepts(codes, G), R=R[:, None])

    def some(levels):
        at = np.flatnonzero(np.isin(codes, levels))
        return Levels(rows.take(at), replace(term, codes=codes[at], R=R[at, None]))

    parts = [some([0, 5]), None, some([1, 2, 3]), some([4, 6, 7])]
    none = replace(term, codes=codes[:0], R=R[:0, None])
    here = Levels(rows, term)
    there = ScatteredLevels(
        rows.take(np.zeros(1, dtype=int)),
        none,
        DaskPartitions(list(map(dask.delayed, parts))),
        some,
    )
    theta = np.r_[BETA, np.log(1.7), dispersion(family)]
    theta = theta + 0.1 * rng.normal(size=(5, len(theta)))
    for sums in (here, there):
        sums.choose_nodes(theta)
        sums.bent, sums.nodes = bent, 15
        if bent:
            sums._box = None
    assert there.work == here.work
    assert_allclose(there.log_density(theta), here.log_density(theta), rtol=1e-12)
    assert_allclose(there.error(theta), here.error(theta), rtol=1e-6, atol=1e-12)
    weights = np.full(len(theta), 0.2)
    ours, theirs = (
        sums.unfold(theta, weights, weights @ found.first, weights @ found.second)[0]
        for sums in (here, there)
        for found in [sums.evaluate(theta)]
    )
    assert_allclose(theirs.mean, ours.mean, rtol=1e-9, atol=1e-12)
    assert_allclose(theirs.sd, ours.sd, rtol=1e-9)
