"""Cells of two crossed factors have the sums of their rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small import LARGE, SMALL, crossed, intercepts, regression

from lrvb.integrated.cells import TabledCells
from lrvb.integrated.crossed import Crossed
from lrvb.integrated.effort import enough
from lrvb.integrated.few import can_tabulate

CENTER = np.r_[0.3, 0.4, 0.1, -0.2, 0.3, 0.0, np.log(0.4), np.log(0.6)]


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_of_constant_columns_are_their_rows(weighted):
    """Nothing is left for polynomials, so that both are one formula, wherever the point is."""
    inside = crossed(constant=True, weighted=weighted)
    tabled = TabledCells(inside, CENTER)
    assert tabled.cells == LARGE * SMALL - 1
    points = CENTER + np.random.default_rng(1).normal(size=(5, len(CENTER)))
    assert_allclose(tabled.log_density(points), inside.log_density(points), rtol=1e-11)
    found, exact = tabled.evaluate(points), inside.evaluate(points)
    assert_allclose(found.first, exact.first, atol=1e-9)
    assert_allclose(found.second, exact.second, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_follow_further_columns(weighted):
    """Within some sds of the mode, polynomials leave what is of degree five and more."""
    inside = crossed(weighted=weighted)
    tabled = TabledCells(inside, CENTER)
    H = inside.derivatives(CENTER)[2][: inside.p, : inside.p]
    noise = np.random.default_rng(2).standard_normal((20, inside.p))
    points = np.tile(CENTER, (20, 1))
    points[:, : inside.p] += noise @ np.linalg.cholesky(np.linalg.inv(-H)).T
    value = tabled.log_density(points)
    assert_allclose(value, inside.log_density(points), atol=1e-4)
    assert tabled.off(points) < 1e-4
    assert np.ptp(value) > 1.0
    assert_allclose(tabled.derivatives(CENTER)[1], inside.derivatives(CENTER)[1], atol=1e-4)


def test_cells_are_for_many_rows_of_rates():
    """Not where a cell has hardly more than a row, nor where rates are no product."""
    budget = enough(8, SMALL)
    assert can_tabulate(crossed(), budget)
    assert not can_tabulate(crossed(family="bernoulli"), budget)
    few = np.arange(100)
    rows = regression("poisson", np.zeros(100), np.ones((100, 1)))
    assert not can_tabulate(
        Crossed(rows, intercepts(few % 25, 25), intercepts(few // 25, 4)), budget
    )
