"""Where the search for the posterior starts, and where a polynomial through points ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from integrated.matrix_free.crossing import RESIDUAL, rows_and_terms
from lrvb.integrated.matrix_free.model import MatrixFree
from lrvb.integrated.matrix_free.preparation import _information, _sizes, start
from lrvb.integrated.matrix_free.surrogate import Shares, Surrogate


def test_it_starts_where_x_may_be_counted_from_anywhere() -> None:
    """θ is of a level at x̄ and of its slope, which do not change if x has another origin."""
    rows, terms = rows_and_terms("slopes")
    found = []
    for origin in (np.zeros(2), np.array([0.0, 100.0])):
        there = [replace(t, R=t.R + origin) if t.q == 2 else t for t in terms]
        model = MatrixFree(replace(rows, X=rows.X + origin), there, RESIDUAL)
        zeta = start(model)
        found.append(np.r_[zeta, _information(model, zeta)])
    assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-6)


def test_a_polynomial_ends_beyond_its_points() -> None:
    """All that is not the part of h in closed form is the same, however large sds are."""
    rows, terms = rows_and_terms("crossed")
    model = MatrixFree(rows, terms, RESIDUAL)
    center = np.array([-2.0, -2.5])
    moves = 0.1 * np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [-1, -1]])
    points = [model.evidence.at(center + move) for move in moves]
    shares = Shares(model.big, _sizes(model, center))
    surrogate = Surrogate(shares, points, center, np.ones(len(points)))
    far = center + np.array([[3.0, 3.0], [9.0, 6.0]])
    found = surrogate.at(far)
    smooth = found.h - shares.log_sizes(far)
    assert_allclose(smooth[1], smooth[0], rtol=1e-9)
    assert_allclose(found.M[1], found.M[0], rtol=1e-9)
    near = surrogate.at(center + moves)
    assert_allclose(near.h, [point.h for point in points], atol=1e-3)


def test_a_polynomial_follows_levels_that_dwarf_the_residual() -> None:
    """Shares are 1 − 10⁻¹¹ there, and differ in their last digits alone; h and M are as smooth as ever."""
    rows, terms = rows_and_terms("crossed")
    model = MatrixFree(rows, terms, RESIDUAL)
    center = np.log([5e4, 2e4])
    shares = Shares(model.big, _sizes(model, center))
    axis = np.linspace(-0.3, 0.3, 4)
    moves = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    points = [model.evidence.at(center + move) for move in moves]
    surrogate = Surrogate(shares, points, center, np.ones(len(points)))
    between = [model.evidence.at(center + move) for move in ([0.05, -0.15], [-0.2, 0.1])]
    found = surrogate.at(np.array([point.zeta for point in between]))
    assert_allclose(found.h, [point.h for point in between], atol=1e-6)
    expected = np.array([point.M for point in between])
    assert_allclose(
        found.M[:, 0, 0], expected[:, 0, 0], rtol=1e-4
    )  # of the mean: what levels leave
    assert_allclose(found.M[:, -1, -1], expected[:, -1, -1], rtol=1e-12)
