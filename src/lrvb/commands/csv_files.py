"""CSV files: what is read is checked, and what is written is never run by a spreadsheet."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InvalidData
from .common import count

MANY_NUMBERS = 5  # in a column, from which on other values among them are taken for slips
RUN = ("=", "+", "-", "@", "\t", "\r")  # how text begins that a spreadsheet runs


def read_csv(path: Path, separator: str = ",") -> pd.DataFrame:
    """The whole file as a table."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidData(f"The file {path} {what}; give the name of a CSV file.")
    separator = _separator(separator)
    try:
        _require_equal_lines(path, separator)
        table = pd.read_csv(path, sep=separator, low_memory=False)
    except pd.errors.EmptyDataError:
        raise InvalidData(f"The file {path} is empty; its first line must name columns.") from None
    except UnicodeDecodeError as error:
        raise InvalidData(
            f"The file {path} is no text in UTF-8 (byte {error.start} is {error.object[error.start]:#x}); "
            "save it as CSV in UTF-8."
        ) from error
    except (pd.errors.ParserError, csv.Error) as error:
        first = str(error).strip().partition("\n")[0]
        raise InvalidData(f"The file {path} cannot be read as CSV: {first}.") from error
    except OSError as error:
        raise InvalidData(f"The file {path} cannot be read: {error.strerror}.") from error
    if table.shape[1] == 1:
        _refuse_other_separator(path, str(table.columns[0]), separator)
    return table


def _refuse_other_separator(path: Path, header: str, separator: str) -> None:
    """A first line with one name in which another separator stands."""
    for other in (";", "\t"):
        if separator == "," and other in header:
            raise InvalidData(
                f"The file {path} has one column, '{header}'; if its columns are separated by {other!r}, "
                f"add --separator {other!r}."
            )


def _separator(text: str) -> str:
    r"""One character between columns; the two characters \t, as shells pass them, are a tab."""
    separator = "\t" if text == "\\t" else text
    if len(separator) != 1 or separator in "\"'\r\n":
        raise InvalidData(
            f"--separator {text!r} must be one character, such as ',' or ';', and no quote."
        )
    return separator


def _require_equal_lines(path: Path, separator: str) -> None:
    """Every line has as many fields as the first: Pandas would shift or fill the others in silence."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        first: list[str] = []
        for fields in reader:
            if not fields or (len(first) != 1 and not any(fields) and len(fields) == 1):
                continue  # an empty line
            if not first:
                _require_distinct(path, fields)
                first = fields
            if len(fields) != len(first):
                if len(first) == 1:
                    _refuse_other_separator(path, first[0], separator)
                raise InvalidData(
                    f"The file {path} has {count(len(first), 'column')} by its first line, but "
                    f"{count(len(fields), 'field')} in line {reader.line_num}; correct that line, or put a "
                    "field that holds the separator in quotes.",
                    row=reader.line_num,
                )


def _require_distinct(path: Path, fields: list[str]) -> None:
    """Every column has a name of its own: Pandas would number the others in silence."""
    for name in fields:
        if name and fields.count(name) > 1:
            raise InvalidData(
                f"The file {path} has more than one column '{name}'; rename or drop all but one.",
                column=name,
            )


def write_csv(table: pd.DataFrame, path: Path, index_label: str | None = None) -> None:
    """A table with its row labels; text that a spreadsheet would run gets a quote in front."""
    safe = table.copy()
    for j, kind in enumerate(table.dtypes):
        if not (pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind)):
            safe.isetitem(j, table.iloc[:, j].map(_inert).astype(object))
    safe.columns = pd.Index([_inert(name) for name in table.columns])
    levels = [table.index.get_level_values(i).map(_inert) for i in range(table.index.nlevels)]
    names = [None if name is None else _inert(name) for name in table.index.names]
    safe.index = (
        pd.MultiIndex.from_arrays(levels, names=names)
        if len(levels) > 1
        else pd.Index(levels[0], name=names[0])
    )
    safe.to_csv(path, float_format="%.10g", index_label=index_label)


def _inert(value: Any) -> Any:
    """Text that begins as a spreadsheet's formulas do, with a quote in front of it.

    A carriage return, which some readers take for the end of a line, becomes a line feed.
    """
    if not isinstance(value, str):
        return value
    start = "'" if value.startswith(RUN) else ""
    return start + value.replace("\r\n", "\n").replace("\r", "\n")


def chosen_columns(
    table: pd.DataFrame, names: list[str] | None
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The numeric columns, or those named; and the others, each with its first value that is no number."""
    long = {c: numbers for c in table.columns if (numbers := _long_numbers(table[c])) is not None}
    table = table.assign(**long)
    numeric = [c for c in table.columns if _is_numeric(table[c])]
    if names is None:
        if not numeric:
            raise InvalidData(
                "No column is numeric; the columns are "
                f"{', '.join(map(repr, map(str, table.columns)))}."
            )
        chosen = numeric
    else:
        for name in names:
            if name not in table.columns:
                raise InvalidData(
                    f"There is no column '{name}'; the columns are "
                    f"{', '.join(map(repr, map(str, table.columns)))}.",
                    column=name,
                )
            if name not in numeric:
                row, value = _first_text(table[name])
                raise InvalidData(
                    f"Column '{name}' is not numeric: line {row + 2} has {value!r}.", column=name
                )
        if len(set(names)) < len(names):
            raise InvalidData(f"--columns names a column twice: {', '.join(names)}.")
        chosen = names
    if names is None:
        _refuse_slips(table, numeric)
    _require_complete(table, chosen)
    left_out = {str(c): "" for c in table.columns if c not in chosen}
    for name in left_out if names is None else ():
        row, value = _first_text(table[name])
        left_out[name] = f"line {row + 2} has {value!r}"
    return table[chosen].astype(float), left_out


def _is_numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _long_numbers(column: pd.Series) -> pd.Series | None:
    """Whole numbers of more than 18 digits, which Pandas reads as text; None for other columns."""
    if _is_numeric(column) or not column.notna().any():
        return None
    text = column.dropna().astype(str)
    if not text.str.fullmatch(r"\s*[+-]?\d+\s*").all():
        return None
    return column.astype(str).where(column.notna()).astype(float)


def _first_text(column: pd.Series) -> tuple[int, object]:
    """The first entry that is not a number."""
    text = pd.to_numeric(column.astype(str), errors="coerce").isna().to_numpy()
    row = int(text.argmax()) if text.any() else 0
    return row, column.iloc[row]


def _refuse_slips(table: pd.DataFrame, numeric: list[str]) -> None:
    """Columns that are left out, though most of their values are numbers."""
    for name in table.columns.difference(numeric, sort=False):
        there = table[name].dropna().astype(str)
        numbers = pd.to_numeric(there, errors="coerce").notna()
        if numbers.sum() >= MANY_NUMBERS and numbers.mean() >= 0.5 and not numbers.all():
            row = int(there.index[int((~numbers).to_numpy().argmax())])
            raise InvalidData(
                f"Column '{name}' has {table[name].iloc[row]!r} in line {row + 2}, which is not a number, as "
                f"{int(numbers.sum())} other values of the column are. Correct it, or name the columns "
                "to use with --columns.",
                column=str(name),
            )


def _require_complete(table: pd.DataFrame, chosen: list[str]) -> None:
    for name in chosen:
        missing = table[name].isna().to_numpy()
        if missing.any():
            raise InvalidData(
                f"Column '{name}' has missing values: {int(missing.sum())} of {len(missing)}, the first in "
                f"line {int(missing.argmax()) + 2}; fill or remove those rows, or leave the column out "
                "with --columns.",
                column=name,
            )
        infinite = np.isinf(table[name].to_numpy(dtype=float))
        if infinite.any():
            row = int(infinite.argmax())
            raise InvalidData(
                f"Column '{name}' has the value {table[name].iloc[row]} in line {row + 2}; numbers "
                "must be finite. Correct or remove the row, or leave the column out with --columns.",
                column=name,
            )
