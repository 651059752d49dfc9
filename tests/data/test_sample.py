"""A sample stands for all rows: its weighted sums are unbiased, and levels come whole."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.data import sample
from lrvb.data.sample import sample_levels, sample_rows
from lrvb.data.tables import Rows


def test_weights_count_all_rows():
    """n rows counted N/n times are N rows; weights of the rows' own are kept, and so is their order."""
    x, w = np.arange(50.0), np.random.default_rng(0).uniform(size=50)
    plain, weighted = sample_rows(Rows({"x": x}), 20), sample_rows(Rows({"x": x}, weights=w), 20)
    assert plain.n == 20
    assert_allclose(plain.weights, 2.5, rtol=0)
    assert np.all(np.diff(plain.columns["x"]) > 0)
    assert_allclose(weighted.weights, 2.5 * w[weighted.columns["x"].astype(int)], rtol=1e-15)


def test_a_sum_over_the_sample_is_unbiased():
    """E Σ w x = Σ x over seeds, within five standard errors of the mean of 400 samples."""
    x = np.random.default_rng(1).normal(2.0, 1.0, size=60)
    drawn = [sample_rows(Rows({"x": x}), 15, seed=seed) for seed in range(400)]
    sums = np.array([s.weights @ s.columns["x"] for s in drawn])
    assert abs(sums.mean() - x.sum()) < 5 * sums.std() / 20


def test_few_rows_are_all_taken():
    rows = sample_rows(Rows({"x": np.arange(7.0)}), 20)
    assert_allclose(rows.columns["x"], np.arange(7.0), rtol=0)
    assert_allclose(rows.weights, 1.0, rtol=0)


def test_levels_come_whole(monkeypatch):
    """Every row of a chosen level is there, in about as many rows as asked for."""
    monkeypatch.setattr(sample, "ROWS", 200)
    monkeypatch.setattr(sample, "LARGE", 800)
    codes = np.random.default_rng(2).permutation(np.repeat(np.arange(300), 3))
    rows = sample_levels(codes, 300)
    assert len(rows) == 3 * int(np.ceil(300 * 200 / 900))
    assert np.all(np.bincount(codes[rows], minlength=300) % 3 == 0)


@pytest.mark.parametrize(("n", "levels"), [(800, 400), (900, 150), (0, 0)])
def test_no_sample_where_it_would_not_help(monkeypatch, n, levels):
    """Few rows, or fewer than fifty levels in the sample: all of them are fitted at once."""
    monkeypatch.setattr(sample, "ROWS", 200)
    monkeypatch.setattr(sample, "LARGE", 800)
    assert sample_levels(np.arange(n) % max(levels, 1), levels) is None
