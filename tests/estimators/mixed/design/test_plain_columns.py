"""Sums of plain columns are what formulaic makes of them, and are read without it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lrvb.estimators.mixed.design import model_matrix
from lrvb.estimators.mixed.design.columns import read_table
from lrvb.estimators.mixed.design.model_matrix import build_block, build_number
from lrvb.estimators.mixed.design.plain_columns import PlainSum, plain_sum

TABLE = read_table(
    {
        "x": np.linspace(-1, 1, 6),
        "whole": np.arange(6, dtype=np.uint8),
        "yes": np.arange(6) % 2 == 0,
        "label": list("abcabc"),
        "ordered": pd.Categorical([1, 2, 3, 1, 2, 3]),
        "center": np.arange(6.0),
    },
    ["x", "whole", "yes", "label", "ordered", "center"],
)
NEW = read_table(
    {"x": [3, 4], "whole": [0.5, 1.5], "yes": [1.0, 0.0], "center": [True, False]},
    ["x", "whole", "yes", "center"],
)


@pytest.mark.parametrize(
    "text", ["1", "0", "x", "1 + x", "0 + x", "0+yes", " x + whole+yes ", "1 + center + x"]
)
def test_a_sum_of_columns_is_what_formulaic_makes_of_it(text, monkeypatch):
    """Values, names and kinds, of the rows of the fit and of others."""
    values, block = build_block(text, TABLE)
    assert isinstance(block.spec, PlainSum)
    monkeypatch.setattr(model_matrix, "plain_sum", lambda text: None)
    expected, other = build_block(text, TABLE)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(block.apply(NEW), other.apply(NEW))
    assert (block.names, block.references()) == (other.names, other.references())
    kinds, others = block.spec.encoder_state, other.spec.encoder_state
    assert {name: kind.value for name, (kind, _) in kinds.items()} == {
        str(name): kind.value for name, (kind, _) in others.items()
    }


@pytest.mark.parametrize("text", ["x", "whole", "yes"])
def test_a_column_alone_is_the_number_that_formulaic_makes_of_it(text, monkeypatch):
    values, number = build_number(text, TABLE)
    assert isinstance(number.spec, PlainSum)
    monkeypatch.setattr(model_matrix, "plain_sum", lambda text: None)
    expected, other = build_number(text, TABLE)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(number.apply(NEW), other.apply(NEW))


@pytest.mark.parametrize(
    "text",
    [
        *("x + x", "x + 1", "1 + 1", "x - 1", "-1 + x", "x:whole", "x*whole", "log(x)", "2 + x"),
        *("x +", "+ x", "", "x.y", "`x`", "lambda", "x + None", "Intercept", "x whole", "é", "1e3"),
    ],
)
def test_anything_else_is_left_to_formulaic(text):
    assert plain_sum(text) is None


@pytest.mark.parametrize("text", ["label", "1 + x + label", "ordered"])
def test_columns_of_labels_are_left_to_formulaic(text):
    _, block = build_block(text, TABLE)
    assert plain_sum(text) is not None
    assert not isinstance(block.spec, PlainSum)
    assert block.seen
