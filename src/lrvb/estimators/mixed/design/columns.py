"""The user's table: the columns a formula names, checked for missing and infinite values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....data.tables import as_columns, kind_of, length, refuse_lazy, shortened
from ....errors import InvalidData, InvalidModel

SHOWN = 5  # rows or names listed before an ellipsis
DROP_THEM = 'Fill them in, or set missing="drop" to leave those rows out.'
NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean")


class Table(NamedTuple):
    """Named columns of equal length n without missing values, and the labels of the rows.

    `positions` are the rows' places in the user's table, of which `dropped` rows are gone;
    `functions` are the user's own, which a formula may call.
    """

    frame: pd.DataFrame
    rows: pd.Index
    positions: np.ndarray
    dropped: int
    functions: Mapping[str, Callable[..., Any]] = MappingProxyType({})

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def take(self, rows: np.ndarray) -> Table:
        """Some of the rows, with the categories that occur among them."""
        frame = self.frame.iloc[rows].reset_index(drop=True)
        for name in frame:
            if isinstance(frame[name].dtype, pd.CategoricalDtype):
                frame[name] = frame[name].cat.remove_unused_categories()
        return self._replace(frame=frame, rows=self.rows[rows], positions=self.positions[rows])

    def place(self, row: int) -> str:
        """A row as it is named in a sentence: its place, and its label when that is another."""
        position, label = self.positions[row], self.rows[row]
        return f"row {position}" if label == position else f"row {position} (label {label!r})"

    def error(self, column: str, row: int, value: Any, problem: str, remedy: str) -> InvalidData:
        """The error that names column, row and value."""
        shown = value.item() if isinstance(value, np.generic) else value
        return InvalidData(
            f"{_named(column)}, {self.place(row)}: the value {shortened(shown)} {problem}. {remedy}.",
            column=column,
            row=int(self.positions[row]),
            value=shown,
        )


def _named(column: str) -> str:
    """How a column, or an expression of the formula, is named at the start of a sentence."""
    plain = column.isidentifier() or (" " in column and "(" not in column)
    return f"Column '{column}'" if plain else f"The formula's '{column}'"


def close_to(name: str, known: Iterable[str]) -> str:
    """The question whether a close known name was meant; otherwise the names there are."""
    names = [str(other) for other in known]
    lower = {other.lower(): other for other in reversed(names)}
    close = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(f"'{lower[other]}'" for other in close) + "?"
    more = ", …" if len(names) > 4 * SHOWN else ""
    listed = ", ".join(f"'{other}'" for other in names[: 4 * SHOWN])
    return f"there are {listed}{more}." if names else "there are none."


def column_names(data: Any) -> list[str]:
    """The names of the table's columns."""
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    refuse_lazy(data)
    if hasattr(data, "columns") and hasattr(data, "__getitem__"):
        return [str(name) for name in data.columns]
    raise InvalidData(
        f"The data are {kind_of(data)}; give a pandas or polars DataFrame, or a mapping of "
        "equally long columns such as {'x': x, 'y': y}."
    )


def read_table(
    data: Any, names: Iterable[str], missing: str = "error", remedy: str = DROP_THEM
) -> Table:
    """The named columns as pandas holds them, rows with missing values refused or dropped."""
    if missing not in ("error", "drop"):
        raise InvalidModel(f"missing={missing!r} must be 'error' or 'drop'.")
    columns, labels, n = _columns(data, list(dict.fromkeys(names)))
    gaps = {name: np.asarray(column.isna()) for name, column in columns.items()}
    keep = ~np.logical_or.reduce([np.zeros(n, dtype=bool), *gaps.values()])
    if not keep.all() and missing == "error":
        raise _missing(gaps, keep, remedy)
    positions = np.flatnonzero(keep)
    if not len(positions):
        raise InvalidData(
            f"Every one of the {n} rows has a missing value in a column of the formula ("
            + ", ".join(f"'{name}'" for name, gap in gaps.items() if gap.any())
            + "), so that none is left; fill them in or leave a column out.",
            value=n,
        )
    dropped = n - len(positions)
    if dropped:
        columns = {name: column.iloc[positions] for name, column in columns.items()}
        labels = labels[positions]
    clean = {name: _clean(name, column) for name, column in columns.items()}
    table = Table(
        pd.DataFrame(clean, index=pd.RangeIndex(len(positions))), labels, positions, dropped
    )
    _refuse_infinite(table)
    return table


def _columns(data: Any, names: list[str]) -> tuple[dict[str, pd.Series], pd.Index, int]:
    """The columns as Series, the row labels, and the number of rows."""
    if isinstance(data, pd.DataFrame):
        data = data.set_axis([str(name) for name in data.columns], axis="columns")
        for name in names:
            if (data.columns == name).sum() > 1:
                raise InvalidData(
                    f"The data have more than one column '{name}'; rename or drop all but one.",
                    column=name,
                )
        if not len(data):
            raise InvalidData("The data have no rows; at least one is needed.", value=0)
        columns = {name: data[name].reset_index(drop=True) for name in names}
        return columns, data.index, len(data)
    if isinstance(data, Mapping):
        texts = {str(name): column for name, column in data.items()}
        arrays, labels = as_columns({name: texts[name] for name in (names or texts)})
        n = length(arrays)
    else:
        arrays, labels, n = {name: data[name] for name in names}, None, len(data)
        if not n:
            raise InvalidData("The data have no rows; at least one is needed.", value=0)
    columns = {name: _series(name, arrays[name]) for name in names}
    return columns, pd.RangeIndex(n) if labels is None else labels, n


def _series(name: str, column: Any) -> pd.Series:
    """One column of an array library or of polars as pandas holds it."""
    if type(column).__module__.startswith("polars"):
        return _from_polars(column)
    if np.ndim(column) != 1:
        raise InvalidData(
            f"Column '{name}' has shape {np.shape(column)}; give one value per row.", column=name
        )
    if isinstance(column, np.ma.MaskedArray):
        return pd.Series(column.data).mask(np.ma.getmaskarray(column))
    if isinstance(column, pd.api.extensions.ExtensionArray):
        return pd.Series(column)
    return pd.Series(np.asarray(column))


def _from_polars(column: Any) -> pd.Series:
    """Numbers as NumPy arrays, an Enum in its declared order, everything else as Python values."""
    if column.dtype.is_numeric():
        return pd.Series(column.to_numpy())
    if str(column.dtype).startswith("Enum"):
        levels = column.dtype.categories.to_list()
        return pd.Series(pd.Categorical(column.to_list(), categories=levels))
    return pd.Series(column.to_list(), dtype=object)


def _missing(gaps: dict[str, np.ndarray], keep: np.ndarray, remedy: str) -> InvalidData:
    """The error that lists the rows and columns with missing values."""
    found = {name: np.flatnonzero(gap) for name, gap in gaps.items() if gap.any()}
    listed = "; ".join(
        f"column '{name}', {'row' if len(rows) == 1 else 'rows'} "
        + ", ".join(map(str, rows[:SHOWN]))
        + (f", … ({len(rows)} in all)" if len(rows) > SHOWN else "")
        for name, rows in found.items()
    )
    first = next(iter(found))
    count = int((~keep).sum())
    return InvalidData(
        f"{count} of {len(keep)} rows {'has' if count == 1 else 'have'} missing values: {listed}. "
        + remedy,
        column=first,
        row=int(found[first][0]),
        rows={name: rows.tolist() for name, rows in found.items()},
    )


def _clean(name: str, column: pd.Series) -> pd.Series | np.ndarray:
    """A column without gaps: numbers as float, int or bool, categories that occur, or text."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories().reset_index(drop=True)
    if pd.api.types.is_bool_dtype(column.dtype):
        return column.to_numpy(dtype=bool)
    if pd.api.types.is_complex_dtype(column.dtype):
        raise InvalidData(
            f"Column '{name}' holds complex numbers; the model needs real ones.", column=name
        )
    if pd.api.types.is_integer_dtype(column.dtype):
        return column.to_numpy()
    if pd.api.types.is_float_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64)
    if column.dtype.kind in "mM" or isinstance(column.dtype, pd.PeriodDtype | pd.DatetimeTZDtype):
        return column.reset_index(drop=True)
    values = column.to_numpy(dtype=object)
    kind = pd.api.types.infer_dtype(values, skipna=False)
    if kind in NUMBERS:
        small = kind == "integer" and max(map(abs, values)) < 2**63
        return values.astype(bool if kind == "boolean" else np.int64 if small else np.float64)
    if kind == "mixed":
        _refuse_parts(name, values, column.index)
    return pd.Series(values, dtype=object)


def _refuse_parts(name: str, values: np.ndarray, rows: pd.Index) -> None:
    """Cells that hold more than one thing: lists, sets and mappings."""
    for row, value in zip(rows, values, strict=True):
        if not isinstance(value, Hashable):
            raise InvalidData(
                f"Column '{name}', row {row}: the value {shortened(value)} is {kind_of(value)}, "
                "but a cell holds one number or one label. Make columns of its parts.",
                column=name,
                row=int(row),
                value=value,
            )


def _refuse_infinite(table: Table) -> None:
    """Infinite numbers have no place in any column."""
    for name in table.frame:
        values = table.frame[name].to_numpy() if table.frame[name].dtype == np.float64 else None
        if values is not None and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise table.error(
                str(name), row, values[row], "is infinite", "Correct the value or drop the row"
            )


def is_text(column: pd.Series) -> bool:
    """Whether a column's values are labels rather than numbers."""
    return not (
        pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype)
    )


def is_date(column: pd.Series) -> bool:
    """Whether a column holds points or spans of time."""
    kinds = ("date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period")
    return column.dtype.kind in "mM" or (
        column.dtype == object and pd.api.types.infer_dtype(column.iloc[:100]) in kinds
    )
