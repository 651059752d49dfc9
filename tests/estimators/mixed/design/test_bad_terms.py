"""Groups and fixed effects that data cannot tell are refused by name."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from bad_rows import N, put, refused, table

from lrvb.errors import InvalidData, InvalidModel
from lrvb.estimators.mixed.design.design import build


# ---------------------------------------------------------------- groups
def test_one_level() -> None:
    message = refused("y ~ x + (1|g)", table(g="north"))
    assert message == (
        "The group 'g' has the single level 'north', so that the standard deviation between levels is "
        "not identified; leave its term out or group by another column."
    )


def test_empty_categories_are_no_levels() -> None:
    g = pd.Categorical(["only"] * N, categories=["only", "empty"])
    assert "the single level 'only'" in refused("y ~ x + (1|g)", table(g=g))


def test_real_numbers_as_a_group() -> None:
    message = refused("y ~ x + (1|w)", table())
    assert message.startswith("Column 'w' holds 40 different real numbers, one for each row")


def test_labels_that_cannot_be_sorted() -> None:
    mixed = put("c", 0, datetime.date(2020, 1, 1))
    mixed.loc[1, "c"] = 7
    assert "labels of different kinds that cannot be sorted" in refused("y ~ (1|c)", mixed)


@pytest.mark.parametrize(
    ("formula", "sentence", "at"),
    [
        ("y ~ (1|g) + (1|g)", "'1' varies by 'g' in two terms", 12),
        ("y ~ (1|g) + (x|g)", "'1' varies by 'g' in two terms", 12),
        ("y ~ (1|g:c) + (0 + x|c:g) + (x||c:g)", "'1' varies by 'g:c' in two terms", 28),
        ("y ~ (1|g/c) + (1|g)", "'1' varies by 'g' in two terms", 14),
        ("y ~ (1|g) + (1|h)", "'g' and 'h' group the rows in the same way", 12),
        ("y ~ (0|g)", "'0' has no columns", 4),
    ],
)
def test_terms_that_cannot_be_told_apart(formula: str, sentence: str, at: int) -> None:
    data = table(h=lambda d: -3 * d.g)
    with pytest.raises(InvalidModel) as found:
        build(formula, data, "gaussian")
    assert sentence in str(found.value)
    assert str(found.value).split("\n")[2].index("^") - 4 == at


def test_a_row_effect_beside_the_residual() -> None:
    with pytest.raises(
        InvalidModel, match="cannot be told from the residual's; leave its term out"
    ):
        build("y ~ x + (1|row)", table(row=np.arange(N)), "gaussian")


# ---------------------------------------------------------------- fixed effects
def test_collinear_columns_are_named() -> None:
    data = table(sum=lambda d: 2 * d.x - d.w + 3, twice=lambda d: 2 * d.x)
    message = refused("y ~ x + w + sum", data)
    for name in ("x", "w", "sum", "Intercept"):
        assert f"'{name}'" in message
    assert "is an exact combination of" in message
    assert "leave one of them out." in message
    message = refused("y ~ x + w + twice", data)
    assert "'x'" in message
    assert "'twice'" in message
    assert "'w'" not in message
    assert "'Intercept'" not in message
    build("y ~ x + w", data, "gaussian")


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_nearly_collinear_columns_are_fine(scale: float, shift: float) -> None:
    """Far from zero, in odd units, or correlated to 1 − 1e-10: still of full rank."""
    data = table(x=lambda d: scale * (d.x + shift), w=lambda d: d.x + 1e-5 * scale * d.w)
    build("y ~ x + w", data, "gaussian")


def test_more_effects_than_rows() -> None:
    assert "is an exact combination of" in refused("y ~ x + w + c", table().iloc[:3])


def test_constant_and_zero_columns() -> None:
    assert "'x' is the same in every row and cannot be told from the intercept" in refused(
        "y ~ x", table(x=0.1)
    )
    assert "'x' is zero in every row" in refused("y ~ 0 + x", table(x=0.0))
    build("y ~ 0 + x", table(x=0.1), "gaussian")
    empty = table(d=lambda d: np.where(d.c == "a", "u", np.where(d.g < 4, "u", "v")))
    assert "'c[b]:d[v]' is zero in every row" in refused(
        "y ~ c*d", empty.assign(d=empty.d[::-1].to_numpy())
    )


def test_unseen_category() -> None:
    design = build("y ~ c*x + (1|g)", table(), "gaussian")
    new = {"c": ["a", "z"], "x": [0.0, 1.0], "g": [0, 0]}
    with pytest.raises(InvalidData) as found:
        design.apply(new)
    assert str(found.value) == (
        "Column 'c', row 1: the value 'z' is a category that was not in the data of the fit, so that "
        "its effect is unknown. Use one of 'a', 'b'."
    )
    with pytest.raises(InvalidData, match="Column 'k', row 0: the value 99 is a category"):
        build("y ~ C(k)", table(), "gaussian").apply({"k": [99]})
    with pytest.raises(InvalidData, match="Column 'c', row 0: the value 'z' is a category"):
        build("y ~ x + (c|g)", table(), "gaussian").apply({"c": ["z"], "x": [1.0], "g": [0]})


def test_new_rows_are_checked() -> None:
    design = build("y ~ x + (1|g)", table(), "gaussian")
    with pytest.raises(InvalidData, match="The data have no column 'g'"):
        design.apply({"x": [1.0]})
    with pytest.raises(InvalidData, match="column 'x', row 1"):
        design.apply({"x": [1.0, np.nan], "g": [0, 1]})
