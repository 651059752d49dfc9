"""Missing values and columns of the wrong kind are refused by name, row and value."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from bad_rows import N, put, refused, table

from lrvb.errors import InvalidData, InvalidModel
from lrvb.estimators.mixed.design.design import build
from lrvb.estimators.mixed.text.translation import INSTEAD


# ---------------------------------------------------------------- missing and infinite values
def test_missing_values_are_listed() -> None:
    data = put("x", 3, np.nan)
    data.loc[[7, 9], "w"] = np.nan
    message = refused("y ~ x + w", data)
    assert message == (
        "3 of 40 rows have missing values: column 'x', row 3; column 'w', rows 7, 9. Fill them in, "
        'or set missing="drop" to leave those rows out.'
    )
    assert build("y ~ x + w", data, "gaussian", missing="drop").dropped == 3


def test_many_missing_values_are_counted() -> None:
    message = refused(
        "y ~ x", table(x=np.nan).assign(x=lambda d: d.x.where(d.g == 0, 1.0).shift(1))
    )
    assert "column 'x', rows 0, 1, 2, 3, 4, … (6 in all)" in message


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_missing_group_label(nothing: object) -> None:
    message = refused("y ~ x + (1|c)", put("c", 4, nothing))
    assert message.startswith("1 of 40 rows has missing values: column 'c', row 4.")


def test_missing_in_polars_and_masked_arrays() -> None:
    frame = pl.DataFrame({"y": [1.0, 2.0, 3.0], "x": [1, None, 2]})
    assert "column 'x', row 1" in refused("y ~ x", frame)
    masked = {"y": [1.0, 2.0, 3.0], "x": np.ma.array([1.0, 2.0, 4.0], mask=[0, 0, 1])}
    assert "column 'x', row 2" in refused("y ~ x", masked)


def test_nothing_left_after_dropping() -> None:
    message = refused("y ~ x", table(x=np.nan), missing="drop")
    assert message.startswith("Every one of the 40 rows has a missing value")


def test_missing_has_two_values() -> None:
    with pytest.raises(InvalidModel, match="missing='ignore' must be 'error' or 'drop'"):
        build("y ~ x", table(), "gaussian", missing="ignore")


def test_infinite_value() -> None:
    message = refused("y ~ x", put("x", 5, np.inf))
    assert message == (
        "Column 'x', row 5: the value inf is infinite. Correct the value or drop the row."
    )


def test_rows_are_named_by_place_and_label() -> None:
    data = put("x", 5, -np.inf).set_index(pd.Index([f"r{i}" for i in range(N)]))
    assert "row 5 (label 'r5'): the value -inf" in refused("y ~ x", data)


def test_places_count_the_dropped_rows() -> None:
    data = put("x", 2, np.nan)
    data.loc[6, "w"] = np.inf
    assert "Column 'w', row 6" in refused("y ~ x + w", data, missing="drop")


def test_transform_without_a_value() -> None:
    message = refused("y ~ log(k)", put("k", 0, 0, k=3 + table().g))
    assert message.startswith(
        "The formula's 'log(k)', row 0: the value -inf is not finite, where k is 0."
    )
    assert "'log(k)', row 0: the value -inf" in refused("log(k) ~ x", put("k", 0, 0, k=3))
    assert "'log(k)', row 0: the value -inf" in refused("y ~ offset(log(k))", put("k", 0, 0, k=3))


def test_too_large() -> None:
    assert "row 1: the value 1e+200 is too large to be squared" in refused(
        "y ~ x", put("x", 1, 1e200)
    )


# ---------------------------------------------------------------- columns and their kinds
@pytest.mark.parametrize(
    ("formula", "name", "hint", "at"),
    [
        ("y ~ wx + (1|g)", "wx", "did you mean 'x' or 'w'?", 4),
        ("y ~ x + (1|G)", "G", "did you mean 'g'?", 11),
        ("y ~ x + (W|g)", "W", "did you mean 'w'?", 9),
        ("Y ~ x", "Y", "did you mean 'y'?", 0),
        (
            "y ~ x + offset(log(exposure))",
            "exposure",
            "there are 'y', 'x', 'w', 'c', 'g', 'k', 'b'.",
            19,
        ),
        ("prop(b, trials) ~ x", "trials", "there are", 8),
    ],
)
def test_unknown_column(formula: str, name: str, hint: str, at: int) -> None:
    family = "binomial" if "prop" in formula else "gaussian"
    with pytest.raises(InvalidData) as found:
        build(formula, table(), family)
    first, shown, caret = str(found.value).split("\n")
    assert first.startswith(f"The data have no column '{name}'; {hint}")
    assert shown == "    " + formula
    assert caret.index("^") - 4 == at
    assert found.value.column == name


def test_unknown_function() -> None:
    with pytest.raises(InvalidModel) as found:
        build("y ~ x + (1|g) + lgo(w)", table(), "gaussian")
    first, _, caret = str(found.value).split("\n")
    assert "The function 'lgo' is not known in a formula; did you mean 'log'" in first
    assert caret.index("^") - 4 == 16


@pytest.mark.parametrize("name", INSTEAD)
def test_functions_of_r_have_their_words_here(name: str) -> None:
    """What R users write in a formula, and what is not there, is answered by what is."""
    with pytest.raises(InvalidModel) as found:
        build(f"y ~ x + {name}(w)", table(), "gaussian")
    known = f"The function '{name}' is not known in a formula. {INSTEAD[name]}"
    assert str(found.value).startswith(known)


@pytest.mark.parametrize(
    ("formula", "sentence", "at"),
    [
        ("y ~ (1|g) + x w", "Missing operator", 12),
        ("y ~ x + 3", "Numeric literals", 8),
        ("y ~ (.|g)", "'.' stands for no columns", 5),
        ("y ~ x + {w +}", "invalid syntax", 4),
    ],
)
def test_fixed_part_that_cannot_be_read(formula: str, sentence: str, at: int) -> None:
    with pytest.raises(InvalidModel) as found:
        build(formula, table(), "gaussian")
    assert sentence in str(found.value).split("\n")[0]
    assert str(found.value).split("\n")[2].index("^") - 4 == at


def test_duplicate_columns() -> None:
    data = table()
    twice = pd.concat([data, data[["x"]]], axis=1)
    message = "The data have more than one column 'x'; rename or drop all but one."
    assert refused("y ~ x", twice) == message
    build("y ~ w", twice, "gaussian")


def test_text_where_numbers_are_needed() -> None:
    message = refused("y ~ x + log(c)", table())
    assert message == (
        "The formula's 'log(c)' needs numbers, but column 'c' holds text, such as 'a' in row 0. "
        "Convert the column to numbers."
    )
    assert "The formula's 'c + 1' needs numbers, but column 'c'" in refused(
        "y ~ offset(c + 1)", table()
    )
    assert "the value 'a' is text, but the response must be a number" in refused("c ~ x", table())


def test_numbers_stored_as_text() -> None:
    message = refused("y ~ x", table(x=[str(i / 7) for i in range(N)]))
    assert message.startswith(
        "Column 'x' holds 40 different labels, such as '0.0' in row 0, in 40 rows"
    )
    assert "If numbers are meant, convert the column; if groups are meant, write (1|x)." in message


def test_dates_and_complex_numbers() -> None:
    days = pd.date_range("2020-01-01", periods=N)
    assert "Column 'x' holds dates; make a number of them" in refused("y ~ x", table(x=days))
    dates = [datetime.date(2020, 1, 1 + i % 20) for i in range(N)]
    assert "Column 'x' holds dates" in refused("y ~ x", table(x=dates))
    build("y ~ 1 + (1|x)", table(x=dates), "gaussian")
    assert "Column 'x' holds complex numbers" in refused("y ~ x", table(x=1j))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (3, "The data are an int; give a pandas or polars DataFrame"),
        (pl.DataFrame({"y": [1.0]}).lazy(), "call .collect() on it first"),
        ({"y": [1.0, 2.0], "x": [1.0]}, "Column 'x' has 1 rows but 'y' has 2"),
        (
            {"y": [1.0, 2.0], "x": np.ones((2, 2))},
            "Column 'x' has shape (2, 2); give one value per row",
        ),
        (pd.DataFrame({"y": [], "x": []}), "The data have no rows"),
        (pl.DataFrame({"y": [], "x": []}), "The data have no rows"),
        ({"y": [1.0], "x": [2.0]}, "The data have one row; a mixed model needs at least two"),
    ],
)
def test_no_table(data: object, sentence: str) -> None:
    assert sentence in refused("y ~ x", data)
