"""Nothing is dropped, shifted or replaced in silence: not a field, a mask, or a part of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrvb
from lrvb.commands.csv_files import chosen_columns, read_csv

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2)) + 4 * RNG.integers(0, 2, (60, 1))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a,b\n1,2,3\n4,5,6\n", 2),  # Pandas: the first column becomes row labels
        ("a,b\n1,2\n4,5,6\n", 3),
        ("a,b\n1,2\n\n4\n", 4),  # Pandas: the last column is filled
        ('a,b\n"1\n,",2\n4,5,6\n', 4),
    ],
)
def test_a_line_of_another_length_is_refused(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(lrvb.InvalidData, match=f"2 columns .* in line {line};"):
        read_csv(path)


@pytest.mark.parametrize("separator", ["", "ab", '"', "\n"])
def test_a_separator_is_one_character(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(lrvb.InvalidData, match="must be one character"):
        read_csv(path, separator)


def test_a_typed_tab_is_a_tab(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a\tb\n1\t2\n")
    assert list(read_csv(path, "\\t").columns) == ["a", "b"]


def test_long_whole_numbers_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b,c\n123456789012345678901234567890,2,x\n5,3,y\n")
    table, left_out = chosen_columns(read_csv(path), None)
    assert list(table.columns) == ["a", "b"]
    assert left_out == {"c": "line 2 has 'x'"}
    assert table["a"].iloc[0] == 123456789012345678901234567890.0


def test_an_infinite_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2\n3,inf\n")
    with pytest.raises(lrvb.InvalidData, match="Column 'b' has the value inf in line 3"):
        chosen_columns(read_csv(path), None)


@pytest.mark.parametrize("method", ["fit", "predict", "predict_proba", "score", "score_samples"])
def test_a_masked_matrix_is_refused(method: str) -> None:
    mixture = lrvb.GaussianMixture(2, random_state=0).fit(X)
    masked = np.ma.MaskedArray(X, mask=np.zeros(X.shape, bool))
    masked[3, 1] = np.ma.masked
    with pytest.raises(lrvb.InvalidData, match=r"row 3, entry .1.: .* is masked"):
        getattr(mixture, method)(masked)


def test_a_missing_value_is_named_by_column_and_row() -> None:
    import pandas as pd

    frame = pd.DataFrame(X, columns=["height", "width"])
    frame.loc[7, "width"] = np.nan
    with pytest.raises(lrvb.InvalidData, match=r"Column .width., row 7: .*NaN"):
        lrvb.GaussianMixture(2).fit(frame)


def test_a_complex_dask_array_is_refused() -> None:
    da = pytest.importorskip("dask.array")
    with pytest.raises(lrvb.InvalidData, match="Complex data not supported"):
        lrvb.GaussianMixture(2).fit(da.from_array(X + 1j, chunks=20))


class Shifting:
    """Parts that are others at every pass after the second."""

    def __init__(self, change: Any):
        self.passes, self.change = 0, change

    def __iter__(self) -> Iterator[np.ndarray]:
        self.passes += 1
        parts = [X[:20], X[20:40], X[40:]]
        yield from self.change(parts) if self.passes > 2 else parts


CHANGES = {
    "fewer rows": lambda parts: [parts[0], parts[1], parts[2][:-1]],
    "other values": lambda parts: [parts[0], parts[1] + 0.5, parts[2]],
    "another order": lambda parts: parts[::-1],
    "a part less": lambda parts: parts[:2],
    "a part more": lambda parts: [*parts, parts[0]],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_chunks_that_change_are_refused(change: Any) -> None:
    source = Shifting(change)
    with pytest.raises(lrvb.InvalidData, match="the same rows in the same order"):
        lrvb.GaussianMixture(2, random_state=0).fit(lrvb.Chunks(source))


def test_chunks_that_do_not_change_are_fitted() -> None:
    mixture = lrvb.GaussianMixture(2, random_state=0).fit(
        lrvb.Chunks(Shifting(lambda parts: parts))
    )
    assert mixture.converged_
