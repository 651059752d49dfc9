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


@pytest.mark.parametrize("where", ["response", "weights"])
def test_a_slip_in_the_response_or_the_weights_is_named(where: str) -> None:
    """By its own row, not the first one, whose value is a number."""
    table = rows(list(np.random.default_rng(0).normal(size=25))).assign(n=1.0)
    column = {"response": "y", "weights": "n"}[where]
    table[column] = [*map(str, range(1, 25)), "2?"]
    with pytest.raises(lrvb.InvalidData) as refused:
        lrvb.MixedModel("y ~ x", weights="n").fit(table)
    assert str(refused.value) == (
        f"Column '{column}', row 24: the value '2?' is not a number, as 24 other values of the column are. "
        "Correct it."
    )


def test_dates_are_no_response() -> None:
    table = rows([1.0, 2.0, 4.0]).assign(y=pd.date_range("2020-01-01", periods=3))
    with pytest.raises(lrvb.InvalidData, match="Column 'y' holds dates; make a number of them"):
        lrvb.MixedModel("y ~ x").fit(table)


def test_a_cell_of_two_numbers_is_refused() -> None:
    table = rows([[1, 2], [3, 4], [5, 7]])
    with pytest.raises(lrvb.InvalidData, match=r"Column 'x', row 0: the value \[1, 2\] is a list"):
        lrvb.MixedModel("y ~ x").fit(table)


def test_an_expression_without_a_value_says_of_what() -> None:
    """The value of the column, which is what the user can correct."""
    with pytest.raises(lrvb.InvalidData) as refused:
        lrvb.MixedModel("y ~ log(x)").fit(rows([1.0, 2.0, -0.5, 3.0]))
    assert str(refused.value) == (
        "The formula's 'log(x)', row 2: the value nan is not finite, where x is -0.5. Correct the value or "
        "drop the row."
    )
