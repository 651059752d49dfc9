"""Levels in parts: sums over them are those of all rows at the same nodes, whatever columns effects have."""

from __future__ import annotations

from dataclasses import replace

import dask
import numpy as np
import pytest
from numpy.testing import assert_allclose
from small import dispersion, intercepts, regression, sloped

from lrvb.bridges.dask import DaskPartitions
from lrvb.integrated.held import Held
from lrvb.integrated.levels import Levels
from lrvb.integrated.scattered_levels import ScatteredLevels
from lrvb.integrated.scattered_slopes import ScatteredSlopes
from lrvb.integrated.slopes import Slopes

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


def pairs_of_effects(family, correlated):
    """Slopes of rows in memory, and of three parts and an empty one."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, G - 1, N)
    x = rng.normal(size=N)
    z = rng.normal(size=(G, 2)) * [0.8, 0.4]
    X = np.column_stack([np.ones(N), x])
    rows = regression(family, X @ BETA + z[codes, 0] + z[codes, 1] * x, X)
    terms = [replace(t, columns=t.measures) for t in sloped(codes, x, G, correlated)]

    def of(levels):
        at = np.flatnonzero(np.isin(codes, levels))
        return Slopes(rows.take(at), [replace(t, codes=codes[at], R=t.R[at]) for t in terms])

    parts = [of([0, 5]), None, of([1, 2, 3]), of([4, 6, 7])]
    none = [replace(t, codes=codes[:0], R=t.R[:0]) for t in terms]
    lazy = DaskPartitions(list(map(dask.delayed, parts)))
    there = ScatteredSlopes(rows.take(np.zeros(1, dtype=int)), none, lazy, of)
    tail = [0.3] if correlated else []
    theta = np.r_[BETA, np.log([0.8, 0.4]), tail, dispersion(family)]
    return Slopes(rows, terms), there, theta + 0.1 * rng.normal(size=(5, len(theta)))


@pytest.mark.parametrize("correlated", [False, True], ids=["apart", "correlated"])
@pytest.mark.parametrize("family", ["poisson", "binomial", "shaped", "differenced"])
def test_sums_of_two_effects_over_parts_are_those_of_all_rows(family, correlated):
    """Modes, ends and nodes, derivatives, and what is said of levels, whose order is another."""
    here, there, theta = pairs_of_effects(family, correlated)
    for sums in (here, there):
        sums.choose_nodes(theta)
    assert (there.nodes, there.work) == (here.nodes, here.work)
    assert_allclose(there.log_density(theta), here.log_density(theta), rtol=1e-10)
    assert_allclose(there.error(theta), here.error(theta), rtol=1e-5, atol=1e-9)
    for theirs, ours in zip(there.derivatives(theta[0]), here.derivatives(theta[0]), strict=True):
        assert_allclose(theirs, ours, rtol=1e-7, atol=1e-7)
    weights = np.full(len(theta), 0.2)
    ours, theirs = (
        sums.unfold(theta, weights, weights @ found.first, weights @ found.second)
        for sums in (here, there)
        for found in [sums.evaluate(theta)]
    )
    for one, other in zip(ours, theirs, strict=True):
        assert_allclose(other.mean, one.mean, rtol=1e-7, atol=1e-9)
        assert_allclose(other.sd, one.sd, rtol=1e-7)


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_nodes_that_stay_ask_parts_for_their_sums(family):
    """Each level's own, in its place; from then on no part is asked."""
    here, there, theta = pairs_of_effects(family, True)
    for sums in (here, there):
        sums.choose_nodes(theta)
    held, over_parts = Held(here, theta), Held(there, theta)
    there.parts = None
    assert_allclose(over_parts._sums(theta)[0], held._sums(theta)[0], rtol=1e-10)
    levels = here.groups.group[:-1]
    for level in range(G - 1):
        ours, theirs = held.nodes[levels[level]], over_parts.nodes[there.groups.group[level]]
        assert_allclose(theirs.level, ours.level, rtol=1e-6, atol=1e-6)


def test_columns_that_no_part_explains_are_said_by_all():
    """One part with X ≠ RA is enough, and sizes of columns are those of all rows."""
    here, there, _ = pairs_of_effects("poisson", True)
    assert_allclose(
        there.within_groups()[there.groups.group[:-1]],
        here.within_groups()[here.groups.group[:-1]],
        atol=1e-9,
    )
    there = pairs_of_effects("poisson", True)[1]
    parts = [dask.compute(part)[0] for part in there.parts.parts]
    parts[2].rows.X[0, 0] += 1e-3
    there.parts = DaskPartitions(list(map(dask.delayed, parts)))
    assert there.within_groups() is None
