"""Bad input: one clear sentence that names column, row, value and remedy, before any work starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrvb
from refusals import (
    COUNTS,
    DESIGN,
    GAUSSIAN,
    GROUPED,
    SLOPE,
    TILTED,
    Measurements,
    N,
    X,
    Y,
    put,
    refused,
)

# ---- values --------------------------------------------------------------------------------

TARGETS = {
    "NormalPoisson.x": (TILTED, COUNTS, "x"),
    "NormalPoisson.y": (GAUSSIAN, COUNTS, "y"),
    "RandomSlope.x": (SLOPE, GROUPED | {"x": X}, "x"),
    "RandomSlope.r": (SLOPE, GROUPED, "r"),
    "RandomSlope.y": (SLOPE, GROUPED, "y"),
    "user.y": (Measurements(), {"y": X}, "y"),
}

VALUES: dict[str, tuple[Callable[[np.ndarray], Any], tuple[str, ...]]] = {
    "nan": (lambda c: put(c, 3, np.nan, float), ("row 3", "nan", "finite", "Drop or fill")),
    "inf": (lambda c: put(c, 3, -np.inf, float), ("row 3", "-inf", "finite", "Drop or fill")),
    "text": (lambda c: ["a"] * len(c), ("row 0", "'a'", "not a number", "Convert")),
    "numbers as text": (lambda c: c.astype(str), ("row 0", "not a number", "Convert")),
    "pandas text": (lambda c: pd.Series(["a"] * len(c), dtype="string"), ("row 0", "'a'")),
    "None": (lambda c: put(c, 3, None, object), ("row 3", "None", "not a number")),
    "NA": (lambda c: pd.array([1, 2, 3, None] * 5, dtype="Int64"), ("row 3",)),
    "masked": (lambda c: np.ma.masked_array(c, mask=np.arange(N) == 3), ("row 3", "masked")),
    "datetime": (lambda c: pd.date_range("2020", periods=N), ("datetime64", "real numbers")),
    "timedelta": (lambda c: np.arange(N).astype("m8[s]"), ("timedelta64", "real numbers")),
    "complex": (lambda c: c + 0j, ("complex128", "real numbers", "Convert")),
    "structured": (lambda c: np.zeros(N, dtype=[("a", float)]), ("real numbers",)),
    "objects": (lambda c: [{}] * N, ("row 0", "{}", "not a number")),
    "ragged": (lambda c: [[1], [1, 2]] * 10, ("differ in length",)),
    "one value": (lambda c: 3.0, ("single value 3.0", "one value per row")),
    "a word": (lambda c: "abc", ("single value 'abc'",)),
    "None alone": (lambda c: None, ("single value None",)),
    "a set": (lambda c: {1, 2}, ("single value {1, 2}",)),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_bad_value_is_named(target: str, value: str) -> None:
    """InvalidData names the column, and the row and the value where there is one."""
    model, data, column = TARGETS[target]
    spoil, fragments = VALUES[value]
    with refused(lrvb.InvalidData, f"olumn '{column}'", *fragments) as caught:
        lrvb.infer(model, {**data, column: spoil(np.asarray(data[column]))})
    assert caught.value.column == column
    if "row 3" in fragments:
        assert caught.value.row == 3


@pytest.mark.parametrize("target", TARGETS)
def test_columns_of_different_length(target: str) -> None:
    model, data, column = TARGETS[target]
    short = np.asarray(data[column])[:-1]
    with refused(lrvb.InvalidData, f"'{column}' has 19", "20", "one value per row"):
        lrvb.infer(model, {**data, column: short, "more": X})


def test_an_entry_of_a_row_is_named() -> None:
    with refused(lrvb.InvalidData, "Column 'x', row 3, entry [1]", "nan"):
        lrvb.infer(SLOPE, {**GROUPED, "x": put(DESIGN, (3, 1), np.nan)})


@pytest.mark.parametrize("value", [-1, 2.5, 2.0**60])
def test_counts_are_counts(value: float) -> None:
    with refused(lrvb.InvalidData, "Column 'y', row 3", "counts", "Correct or drop") as caught:
        lrvb.infer(TILTED, {"x": X, "y": put(Y, 3, value, float)})
    assert caught.value.value == value


@pytest.mark.parametrize(
    ("model", "data", "column"), [(TILTED, COUNTS, "x"), (SLOPE, GROUPED, "y")]
)
def test_a_number_whose_square_overflows(model: Any, data: Any, column: str) -> None:
    with refused(lrvb.InvalidData, f"Column '{column}', row 3", "1e+200", "too large", "Rescale"):
        lrvb.infer(model, {**data, column: put(data[column], 3, 1e200, float)})


def test_a_long_value_is_shown_in_short() -> None:
    with refused(lrvb.InvalidData, "row 0", "…"):
        lrvb.infer(Measurements(), {"y": np.array(["long " * 1000] * N, dtype=object)})


# ---- tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [TILTED, SLOPE, Measurements()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    ("data", "fragments"),
    [
        (np.ones((N, 2)), ("ndarray", "mapping of equally long columns")),
        ([X, Y], ("list", "mapping")),
        ("data.csv", ("str", "mapping")),
        (pd.Series(X), ("Series", "mapping")),
        (None, ("data are None", "mapping of columns")),
        ({}, ("no column",)),
        ({"q": X}, ("no column '", "the columns are 'q'", "Add it or rename")),
        ({name: [] for name in ("x", "r", "y", "group")}, ("no rows",)),
        (pd.DataFrame(columns=["x", "r", "y", "group"]), ("no rows",)),
    ],
    ids=["array", "list", "text", "series", "None", "empty", "missing", "no rows", "empty frame"],
)
def test_a_table_that_is_none(model: Any, data: Any, fragments: tuple[str, ...]) -> None:
    with refused(lrvb.InvalidData, *fragments):
        lrvb.infer(model, data)


def test_two_columns_of_one_name() -> None:
    frame = pd.DataFrame(COUNTS)
    with refused(lrvb.InvalidData, "more than one column 'x'", "rename"):
        lrvb.infer(TILTED, pd.concat([frame, frame[["x"]]], axis=1))
    with refused(lrvb.InvalidData, "more than one column '1'"):
        lrvb.infer(Measurements(), {1: X, "1": X})


def test_series_that_do_not_match_are_not_guessed() -> None:
    """pandas would align them by label, NumPy by position; we ask."""
    there = pd.Series(Y, index=np.arange(N)[::-1])
    with refused(lrvb.InvalidData, "'x' and 'y' have different row labels", "to_numpy"):
        lrvb.infer(TILTED, {"x": pd.Series(X), "y": there})


def test_rows_are_checked() -> None:
    with refused(lrvb.InvalidData, "3 labels for 20 rows"):
        lrvb.Rows({"y": X}, labels=[1, 2, 3])
    for weights in (np.ones(3), -np.ones(N), np.full(N, np.nan)):
        with refused(lrvb.InvalidData, "weights must be 20 finite numbers"):
            lrvb.Rows({"y": X}, weights=weights)


def test_columns_that_no_term_reads_may_hold_anything() -> None:
    frame = pd.DataFrame(
        {
            "name": ["a"] * N,
            "when": pd.date_range("2020", periods=N),
            "missing": pd.array([None] * N, dtype="Int64"),
            "nan": np.full(N, np.nan),
            "complex": X + 0j,
            "mixed": [None, "a"] * (N // 2),
            "y": X,
        }
    )
    alone = lrvb.infer(Measurements(), {"y": X})
    pd.testing.assert_frame_equal(lrvb.infer(Measurements(), frame).summary(), alone.summary())


# ---- groups --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing",
    [
        put(GROUPED["group"], 3, np.nan, float),
        put(GROUPED["group"], 3, None, object),
        pd.array([0, 1, 2, None] * 5, dtype="Int64"),
        np.ma.masked_array(GROUPED["group"], mask=np.arange(N) == 3),
        put(np.arange(N).astype("M8[D]"), 3, "NaT"),
    ],
    ids=["nan", "None", "NA", "masked", "NaT"],
)
def test_a_row_without_a_group(missing: Any) -> None:
    with refused(lrvb.InvalidData, "Column 'group', row 3", "row") as caught:
        lrvb.infer(SLOPE, {**GROUPED, "group": missing})
    assert caught.value.row == 3


@pytest.mark.parametrize(
    ("group", "fragments"),
    [
        (np.ones((N, 2)), ("shape (20, 2)", "one label per row")),
        ([{}] * N, ("cannot be compared", "numbers or text")),
        (1, ("single value 1",)),
    ],
)
def test_labels_that_are_none(group: Any, fragments: tuple[str, ...]) -> None:
    with refused(lrvb.InvalidData, "'group'", *fragments):
        lrvb.infer(SLOPE, {**GROUPED, "group": group})


def test_groups_are_named_by_their_labels() -> None:
    expected = lrvb.infer(SLOPE, GROUPED)
    words = np.array(["e", "d", "c", "b", "a"])[GROUPED["group"]]
    for labels in (words, pd.Categorical(words), words.astype(object)):
        posterior = lrvb.infer(SLOPE, {**GROUPED, "group": labels})
        np.testing.assert_allclose(posterior.sd(), expected.sd(), rtol=1e-10)
        local = posterior.local("z")
        assert list(local["group"].values) == ["a", "b", "c", "d", "e"]
        reverse = expected.local("z")["mean"].values[::-1]
        np.testing.assert_allclose(local["mean"], reverse, rtol=1e-8)


def test_a_group_of_one_row() -> None:
    posterior = lrvb.infer(SLOPE, {**GROUPED, "group": np.arange(N) // 19})
    assert posterior.converged
    assert posterior.local("z").sizes["group"] == 2


@pytest.mark.parametrize("shape", [(N, 0), (N, 2, 2)])
def test_a_design_is_a_matrix(shape: tuple[int, ...]) -> None:
    with refused(lrvb.InvalidData, "Column 'x'", str(shape), "(N, p)"):
        lrvb.infer(SLOPE, {**GROUPED, "x": np.ones(shape)})


def test_a_design_of_one_column_may_be_a_vector() -> None:
    vector = lrvb.infer(SLOPE, {**GROUPED, "x": X})
    matrix = lrvb.infer(SLOPE, {**GROUPED, "x": X[:, None]})
    assert vector.names[0] == "beta[0]"
    np.testing.assert_array_equal(vector.sd(), matrix.sd())


# ---- options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("tol", [0, -1.0, np.nan, np.inf, "a", None]),
        ("max_iter", [0, -1, 2.5, np.nan, "a", None, True]),
        ("chunk_size", [0, -1, 2.5, np.inf, np.nan, "a", True]),
    ],
)
def test_options(option: str, values: list[Any]) -> None:
    for value in values:
        with refused(ValueError, f"{option}={value!r} must be"):
            lrvb.infer(TILTED, COUNTS, **{option: value})


def test_chunks_do_not_change_the_answer() -> None:
    expected = lrvb.infer(TILTED, COUNTS)
    for size in (7, np.int64(20), 10_000):
        got = lrvb.infer(TILTED, COUNTS, chunk_size=size)
        np.testing.assert_allclose(got.cov(), expected.cov(), rtol=1e-8)


def test_too_few_iterations_give_a_result_and_a_warning() -> None:
    with pytest.warns(lrvb.NotConverged, match="max_iter=1 .* Try max_iter=2") as w:
        posterior = lrvb.infer(TILTED, COUNTS, max_iter=1)
    assert w[0].filename == __file__
    assert not posterior.converged
    assert posterior.n_iter == 1
    assert "NOT converged" in repr(posterior)
    assert np.isfinite(posterior.sd()).all()


def test_progress(capfd: pytest.CaptureFixture[str]) -> None:
    lrvb.infer(TILTED, COUNTS, progress=True)
    captured = capfd.readouterr()
    assert "lrvb" in captured.err
    assert "ELBO" in captured.err
    assert captured.out == ""
    lrvb.infer(TILTED, COUNTS)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
