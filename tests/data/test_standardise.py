"""Columns are measured once, without cancellation, whole or in parts."""

from __future__ import annotations

import numpy as np
import pytest

from lrvb.data import standardise
from lrvb.data.standardise import measure, merge


def columns(n: int = 500) -> np.ndarray:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4)) * [1.0, 1e-3, 50.0, 1e5] + [0.0, 1e6, -3.0, 1e5]
    return np.column_stack([X, np.full(n, -0.1), np.zeros(n), np.ones(n)])


def test_the_moments_of_plain_columns() -> None:
    X = columns()
    found = measure(X)
    np.testing.assert_allclose(found.center, X.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.spread, X.std(axis=0), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.size, np.sqrt((X**2).mean(axis=0)), rtol=1e-12)
    assert (found.n, found.total) == (500, 500.0)


def test_weights_count_rows() -> None:
    """A row of weight 3 is three rows, one of weight 0 none."""
    X, rng = columns(), np.random.default_rng(4)
    times = rng.integers(0, 4, size=len(X))
    weighted, repeated = measure(X, times.astype(float)), measure(np.repeat(X, times, axis=0))
    assert weighted.total == repeated.total
    for name in ("center", "spread", "size"):
        one, other = getattr(weighted, name), getattr(repeated, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("numbers", [7, 100, 2000])
def test_chunks_and_parts_change_nothing(numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = columns()
    weights = np.random.default_rng(5).uniform(size=len(X))
    whole = measure(X, weights)
    monkeypatch.setattr(standardise, "CHUNK", numbers)
    halves = merge(measure(X[:123], weights[:123]), measure(X[123:], weights[123:]))
    for found in (measure(X, weights), halves):
        assert found.n == whole.n
        np.testing.assert_allclose(found.total, whole.total, rtol=1e-14)
        for name in ("center", "spread", "size", "low", "high"):
            error = np.abs(getattr(found, name) - getattr(whole, name))
            assert (error <= 1e-14 * (1.0 + whole.size)).all(), name  # what rounding leaves
        np.testing.assert_array_equal(found.constant(), whole.constant())


def test_constant_columns_have_their_size_as_unit() -> None:
    found = measure(columns())
    np.testing.assert_array_equal(found.constant(), [False] * 4 + [True] * 3)
    np.testing.assert_allclose(found.unit()[4:], [0.1, 1.0, 1.0], rtol=1e-14)
    np.testing.assert_array_equal(found.unit()[:4], found.spread[:4])
    assert not found.constant()[1]  # a spread of 1e-9 of the size is a spread,
    assert found.constant(1e-7)[1]  # unless the tolerance says otherwise


def test_columns_about_zero() -> None:
    """Columns that are not centred have centre zero and their size as spread."""
    plain = measure(columns())
    kept = np.arange(7) == 6
    some, all_ = plain.about_zero(kept), plain.about_zero()
    assert (some.center[6], some.spread[6]) == (0.0, 1.0)
    assert not some.constant()[6]
    np.testing.assert_array_equal(some.spread[:6], plain.spread[:6])
    np.testing.assert_array_equal(all_.spread, plain.size)
    np.testing.assert_array_equal(all_.constant(), plain.size == 0)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_squares_stay_in_range(scale: float) -> None:
    X = columns()[:, :1]
    found, plain = measure(scale * X), measure(X)
    np.testing.assert_allclose(found.spread / scale, plain.spread, rtol=1e-12)
    np.testing.assert_allclose(found.size / scale, plain.size, rtol=1e-12)
    half = merge(measure(scale * X[:200]), measure(scale * X[200:]))
    np.testing.assert_allclose(half.spread / scale, plain.spread, rtol=1e-12)


def test_no_columns_have_no_measures() -> None:
    """A model without fixed effects has none."""
    found = measure(np.zeros((5, 0))).about_zero()
    assert found.n == 5
    assert found.unit().shape == found.center.shape == (0,)
