"""Sums over inner levels at known outer effects need nodes near these: as all nodes have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small import intercepts, regression

from lrvb.integrated.inner import _LEFT, Inner
from lrvb.integrated.nested import Nested

LEVELS, N = 5, 400
THETA = np.r_[0.6, 0.4, np.log(1.2), np.log(0.2)]


def two(family: str, each: int, outlier: float | None = None) -> Nested:
    """Inner levels of so many rows within five outer ones, with sds 1.2 and 0.2; a count may be replaced."""
    rng = np.random.default_rng(7)
    inner = np.arange(N) // each
    outer, x = inner % LEVELS, rng.normal(size=N)
    eta = 0.6 + 0.4 * x + 1.2 * rng.normal(size=LEVELS)[outer]
    eta += 0.2 * rng.normal(size=inner.max() + 1)[inner]
    rows = regression(family, eta, np.column_stack([np.ones(N), x]))
    if outlier is not None:
        y = rows.columns[0].copy()
        y[0] = outlier
        rows = replace(rows, columns=(y, *rows.columns[1:]))
    return Nested(rows, intercepts(outer, LEVELS), intercepts(inner, inner.max() + 1))


def assert_as_by_all_nodes(nested: Nested, inner: Inner, places: np.ndarray) -> None:
    """At so many of the outer nodes (G, Q): they differ by what ends leave, in every inner level."""
    grid, _, log_F, _ = nested.logarithms(THETA)
    found = inner.line(grid.o[places][None])[0]
    exact = np.take_along_axis(nested.above.sum(log_F, axis=0), places, axis=1)
    assert_allclose(found, exact, rtol=0, atol=10 * _LEFT * nested.M)


def most_probable(nested: Nested) -> np.ndarray:
    """Where among outer nodes each level's effect most probably is, (G, 1)."""
    return nested.logarithms(THETA)[3].argmax(1)[:, None]


@pytest.mark.parametrize(("family", "each"), [("poisson", 1), ("poisson", 4), ("binomial", 4)])
def test_few_nodes_have_the_sums_of_all(family, each):
    """Every outer level's own, and later those of effects elsewhere: from nodes that are made for them."""
    nested = two(family, each)
    nested.choose_nodes(THETA[None])
    inner = Inner.of(nested, THETA[None])
    (point,) = inner.points
    near = most_probable(nested) + np.arange(2)
    assert_as_by_all_nodes(nested, inner, near)
    assert len(point.t) < len(point.whole) / 2
    assert_as_by_all_nodes(nested, inner, near + 3)
    assert len(point.t) < len(point.whole)
    assert_as_by_all_nodes(nested, inner, near)
    every = np.tile(np.arange(len(nested._grid(THETA).o)), (LEVELS, 1))
    assert_as_by_all_nodes(nested, inner, every)
    assert len(point.t) == len(point.whole)


def test_a_row_far_from_the_others_has_all_nodes():
    """A count that an effect of 16 of its sds explains best: nodes near none would leave it out."""
    nested = two("poisson", 1, outlier=400.0)
    nested.choose_nodes(THETA[None])
    inner = Inner.of(nested, THETA[None])
    (point,) = inner.points
    near = most_probable(nested)
    assert_as_by_all_nodes(nested, inner, near)
    assert len(point.t) == len(point.whole)
