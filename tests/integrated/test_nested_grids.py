"""Nodes of outer effects that rows leave no mass are left out, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small import dispersion, intercepts, regression

from lrvb.integrated import nested_sums
from lrvb.integrated.nested import Nested

OUTER, INNER, EACH = 5, 6, 2
FAMILIES = ("poisson", "bernoulli", "negbinomial")


def model(family: str) -> tuple[Nested, np.ndarray]:
    """Groups whose effects are far apart, and inner ones; sds are set by each test."""
    rng = np.random.default_rng(5)
    inner = np.repeat(np.arange(OUTER * INNER), EACH)
    X = np.column_stack([np.ones(len(inner)), rng.normal(size=len(inner))])
    eta = 0.3 * X[:, 1] + np.linspace(-1, 3, OUTER)[inner // INNER]
    rows = regression(family, eta, X)
    terms = intercepts(inner // INNER, OUTER), intercepts(inner, OUTER * INNER)
    found = Nested(rows, *terms)
    return found, np.r_[0.1, 0.2, 0.0, -1.0, dispersion(family)]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("log_sds", [(3.0, -1.0), (3.5, 0.0), (1.8, -2.5)])
def test_long_grids_are_cut_where_nothing_is(family, log_sds, monkeypatch):
    """Sums, their derivatives and moments are those of whole grids: e^−40 is left out, and rounding."""
    inside, theta = model(family)
    theta[2:4] = log_sds
    inside.single = False
    cut, few = inside.derivatives(theta), inside.evaluate(theta[None])
    grid = inside._sums(theta).grid
    monkeypatch.setattr(nested_sums, "_LONG", np.inf)
    whole, all_ = inside.derivatives(theta), inside.evaluate(theta[None])
    longer = inside._sums(theta).grid
    assert len(grid.o) < 0.8 * len(longer.o)  # a group of zeros alone has no lower end
    assert len(grid.t) < 0.8 * len(longer.t)
    for found, expected in zip([*cut, *few], [*whole, *all_], strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_every_second_node_of_a_cut_grid_is_one_of_the_whole(monkeypatch):
    """The error by half the nodes is the same, for the same ones are left out."""
    inside, theta = model("poisson")
    theta[2:4] = 3.0, -1.0
    inside.single = False
    found = inside._sums(theta, half=True)
    monkeypatch.setattr(nested_sums, "_LONG", np.inf)
    whole = inside._sums(theta, half=True)
    assert len(found.grid.o) % 2 == len(found.grid.t) % 2 == 1
    assert_allclose(found.error, whole.error, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("log_sds", [(0.0, -1.0), (2.0, -3.0)])
def test_heights_of_rates_are_below_their_peaks(log_sds):
    """Of counts: exp(height − peak), 1 at most and near it at some node between ends that reach a peak."""
    inside, theta = model("poisson")
    theta[2:4] = log_sds
    eta, t = inside.rows.predictor(theta[None, :2])[0], np.linspace(-6, 6, 121)
    W, peak = inside._weights(theta, eta, t, np.float64)
    heights = inside._heights(theta, eta, t)
    assert_allclose(W, np.exp(heights - peak), rtol=1e-9)
    assert W.max() <= 1 + 1e-9
    # nodes a twentieth from a peak of curvature up to its total of counts
    total = inside._within(inside.rows.columns[0])
    assert (W.max(1) >= np.exp(-np.maximum(total, 1) * 0.05**2)).all()
