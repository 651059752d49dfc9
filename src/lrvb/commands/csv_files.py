"""Read the numeric columns of a CSV file, or say in one sentence why that is not possible."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ..errors import InvalidData


def read_csv(path: Path, separator: str = ",") -> pd.DataFrame:
    """The whole file as a table."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidData(f"The file {path} {what}; give the name of a CSV file.")
    try:
        table = pd.read_csv(path, sep=separator, low_memory=False)
    except pd.errors.EmptyDataError:
        raise InvalidData(f"The file {path} is empty; its first line must name columns.") from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        first = str(error).strip().partition("\n")[0]
        raise InvalidData(f"The file {path} cannot be read as CSV: {first}.") from error
    except OSError as error:
        raise InvalidData(f"The file {path} cannot be read: {error.strerror}.") from error
    if table.shape[1] == 1 and separator == ",":
        for other in (";", "\t"):
            if other in str(table.columns[0]):
                raise InvalidData(
                    f"The file {path} has one column, '{table.columns[0]}'; if its columns are "
                    f"separated by {other!r}, add --separator {other!r}."
                )
    return table


def chosen_columns(table: pd.DataFrame, names: list[str] | None) -> tuple[pd.DataFrame, list[str]]:
    """The numeric columns, or those named; and which others were left out."""
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
    _require_complete(table, chosen)
    left_out = [str(c) for c in table.columns if c not in chosen]
    return table[chosen].astype(float), left_out


def _is_numeric(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _first_text(column: pd.Series) -> tuple[int, object]:
    """The first entry that is not a number."""
    text = pd.to_numeric(column.astype(str), errors="coerce").isna().to_numpy()
    row = int(text.argmax()) if text.any() else 0
    return row, column.iloc[row]


def _require_complete(table: pd.DataFrame, chosen: list[str]) -> None:
    for name in chosen:
        missing = table[name].isna().to_numpy()
        if missing.any():
            raise InvalidData(
                f"Column '{name}' has {int(missing.sum())} missing values, the first in line "
                f"{int(missing.argmax()) + 2}; fill or remove those rows, or leave the column out "
                "with --columns.",
                column=name,
            )
