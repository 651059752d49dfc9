"""The fewest rows without which a conclusion changes: every set is a refit's, and it is small."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from posterior.what_if_cases import Line, line


def test_a_slope_that_three_far_rows_hold_up():
    """The refit of the rows that are left has the mean and the interval that are told."""
    data = line(30, seed=1, slope=0.0)
    data.iloc[:3] = [[3.0, 4.5], [3.2, 4.8], [2.9, 4.1]]
    found = lrvb.infer(Line(), data).fragility("b")
    assert found.lower > 0
    assert set(found.interval) <= {"r0", "r1", "r2"}
    again = lrvb.infer(Line(), data.drop(index=found.interval)).summary().loc["b"]
    assert_allclose(found.mean_without["interval"], again["mean"], rtol=1e-6)
    assert_allclose(
        found.interval_without["interval"], again[["lower", "upper"]].astype(float), rtol=1e-6
    )
    assert found.interval_without["interval"][0] <= 0
    assert "a refit has mean" in repr(found)


def test_a_negative_effect_is_as_fragile_as_a_positive_one():
    """With −y the line has −b: the same rows, and every number with the other sign."""
    data = line(30, seed=1, slope=0.0)
    data.iloc[:3] = [[3.0, 4.5], [3.2, 4.8], [2.9, 4.1]]
    found, turned = (
        lrvb.infer(Line(), rows).fragility("b") for rows in (data, data.assign(y=-data["y"]))
    )
    assert (turned.interval, turned.sign) == (found.interval, found.sign)
    assert turned.interval is not None
    for what in ("interval", "sign"):
        assert_allclose(turned.mean_without[what], -found.mean_without[what], rtol=1e-6)
        low, high = found.interval_without[what]
        assert_allclose(turned.interval_without[what], [-high, -low], rtol=1e-6)


def slope_without(data, rows):
    """Its sign by least squares, which the weak prior leaves as it is."""
    kept = data.drop(index=data.index[list(rows)])
    return np.polyfit(kept["x"], kept["y"], 1)[0]


@pytest.mark.parametrize("seed", range(3))
def test_no_smaller_set_flips_the_sign(seed):
    """Of all sets with one row less, none does: brute force over every one of them."""
    data = line(14, seed=seed + 20, slope=0.25)
    found = lrvb.infer(Line(), data).fragility("b")
    size = len(found.sign)
    assert 1 <= size <= 4
    assert found.mean_without["sign"] * found.mean < 0
    before = np.sign(found.mean)
    fewer = combinations(range(len(data)), size - 1)
    assert all(slope_without(data, rows) * before > 0 for rows in fewer)


@pytest.mark.parametrize("seed", [100, 102, 108])
def test_a_row_that_those_after_it_make_needless_is_spared(seed):
    """Where rows lie far out one at a time takes in more than are needed: of those left all are."""
    data = line(13, seed=seed, slope=0.0)
    tails = np.random.default_rng(seed).standard_t(2.0, size=13)
    data["y"] = 0.5 * data["x"] + 0.5 * tails
    found = lrvb.infer(Line(), data).fragility("b")
    assert found.mean_without["sign"] * found.mean < 0
    fewer = combinations(range(len(data)), len(found.sign) - 1)
    assert all(slope_without(data, rows) * np.sign(found.mean) > 0 for rows in fewer)


def test_a_strong_effect_needs_many_rows():
    """First orders of all rows together do not reach zero; refits in between do, without half of them."""
    data = line(100, seed=4, slope=0.5)
    posterior = lrvb.infer(Line(), data)
    helpful = posterior.influence("b")["b"]
    found = posterior.fragility("b")
    assert -helpful[helpful < 0].sum() < found.mean
    assert len(found.interval) < len(found.sign) <= 50
    assert found.mean_without["sign"] < 0 < found.mean_without["interval"]


def test_what_half_of_the_rows_cannot_change_is_said():
    data = line(60, seed=2, slope=30.0)
    found = lrvb.infer(Line(), data).fragility("b")
    assert found.sign is None
    assert found.interval is None
    assert "no rows were found without which the sign flips: up to 50% of the rows" in repr(found)


def test_a_quantity_that_is_not_there():
    with pytest.raises(lrvb.InvalidModel, match="no quantity 'slope'"):
        lrvb.infer(Line(), line()).fragility("slope")
    with pytest.raises(lrvb.InvalidModel, match="prob=2 must lie between"):
        lrvb.infer(Line(), line()).fragility("b", prob=2)
