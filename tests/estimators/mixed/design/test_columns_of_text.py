"""Columns of numbers in which one value is text are refused by that value, not read as categories."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lrvb


def rows(x: list) -> pd.DataFrame:
    return pd.DataFrame({"y": np.arange(float(len(x))), "x": x})


def test_a_slip_among_numbers_is_named() -> None:
    """Among six numbers or more the value that is none is told with its row."""
    table = rows([*map(str, [1, 2, 3, 4, 5, 6] * 4), "oops"])
    with pytest.raises(lrvb.InvalidData) as refused:
        lrvb.MixedModel("y ~ x").fit(table)
    assert str(refused.value) == (
        "Column 'x', row 24: the value 'oops' is not a number, as 6 other values of the column are. Correct "
        "it, or write C(x) if categories are meant."
    )
    assert (refused.value.column, refused.value.row, refused.value.value) == ("x", 24, "oops")


def test_categories_are_read_as_before() -> None:
    """Few numbers among words, numbers alone as text, and whatever C() says, are categories."""
    y = np.random.default_rng(0)
    for x in (["1", "2", "3", "K"] * 6, [*map(str, range(6))] * 4):
        found = lrvb.MixedModel("y ~ x").fit(rows(x).assign(y=y.normal(size=24)))
        assert len(found.summary()) == len(set(x)) + 1
    meant = rows([*map(str, [1, 2, 3, 4, 5, 6] * 4), "K", "K"]).assign(y=y.normal(size=26))
    assert "C(x)[K]" in lrvb.MixedModel("y ~ C(x)").fit(meant).summary().index
