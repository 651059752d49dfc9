"""The user's columns, checked at the door: equally long, numeric, finite.

Every complaint names the column, the first offending row and its value, and says what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import InvalidData


class Row:
    """One row of data, or a chunk of rows: `row.x`, `row["x"]`, or `x, y = row`."""

    __slots__ = ("_columns", "_used")

    def __init__(self, columns: Mapping[str, Any], used: set[str] | None = None):
        self._columns = dict(columns)
        self._used = used

    def __getitem__(self, name: str) -> Any:
        if self._used is not None:
            self._used.add(name)
        try:
            return self._columns[name]
        except KeyError:
            raise InvalidData(missing_column(name, self._columns), column=name) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[Any]:
        return (self[name] for name in self._columns)

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{k}={v!r}' for k, v in self._columns.items())})"


@dataclass(frozen=True)
class Rows:
    """The rows of a model's plate: columns with one leading axis of length n, and row labels.

    A model's `prepare` returns it when the plate's rows are not the user's rows (one row per
    group), with `labels` naming them along the dimension `dim`; `weights` counts each row so many
    times.
    """

    columns: Mapping[str, np.ndarray]
    labels: Sequence[Any] | np.ndarray | None = None
    dim: str = "row"
    weights: np.ndarray | None = None
    n: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", length(self.columns))


def missing_column(name: str, columns: Iterable[str]) -> str:
    """The sentence for a column that is not there."""
    have = ", ".join(f"'{c}'" for c in columns) or "none"
    return f"The data have no column '{name}'; the columns are {have}. Add it or rename one."


def as_columns(data: Any) -> tuple[dict[str, Any], Any]:
    """A mapping of columns from a mapping or a data frame, and the row labels if there are any."""
    if hasattr(data, "columns") and hasattr(data, "__getitem__") and not isinstance(data, Mapping):
        columns = {str(name): data[name] for name in data.columns}
        labels = getattr(data, "index", None)
        return {k: getattr(v, "values", v) for k, v in columns.items()}, labels
    if isinstance(data, Mapping):
        labels = next(
            (v.index for v in data.values() if hasattr(v, "index") and hasattr(v, "iloc")), None
        )
        return {
            str(k): getattr(v, "values", v) if hasattr(v, "iloc") else v for k, v in data.items()
        }, labels
    raise InvalidData(
        f"The data are a {type(data).__name__}; give a mapping of equally long columns "
        "such as {'x': x, 'y': y}, or a pandas DataFrame."
    )


def length(columns: Mapping[str, Any]) -> int:
    """The common length of the columns."""
    if not columns:
        raise InvalidData("The data have no columns; give at least one.")
    lengths = {}
    for name, column in columns.items():
        if np.ndim(column) == 0:
            raise InvalidData(
                f"Column '{name}' is the single value {column!r}; give one value per row.",
                column=name,
                value=column,
            )
        lengths[name] = int(np.shape(column)[0])
    first, n = next(iter(lengths.items()))
    for name, other in lengths.items():
        if other != n:
            raise InvalidData(
                f"Column '{name}' has {other} rows but '{first}' has {n}; "
                "every column must have one value per row.",
                column=name,
                value=other,
            )
    if n == 0:
        raise InvalidData("The data have no rows; at least one is needed.", value=0)
    return n


def numeric(name: str, column: Any) -> np.ndarray:
    """The column as finite numbers, or the sentence that says which value is not one."""
    values = np.asarray(column)
    if values.dtype.kind in "OUS":
        values = _parse(name, values)
    if values.dtype.kind == "c" or values.dtype.kind not in "buif":
        raise InvalidData(
            f"Column '{name}' holds {values.dtype} values; the model needs real numbers. "
            "Convert the column first.",
            column=name,
        )
    if values.dtype.kind == "f":
        values = np.asarray(values, dtype=np.float64)
        if not np.isfinite(values).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
            raise invalid_value(
                name, where, values[where], "must be finite", "Drop or fill the row"
            )
    return values


def _parse(name: str, values: np.ndarray) -> np.ndarray:
    """Numbers from an object column that holds only numbers; text and None are refused."""
    for where in np.ndindex(*values.shape):
        value = values[where]
        is_number = isinstance(value, int | float | np.number | np.bool_) and not isinstance(
            value, str
        )
        if not is_number:
            raise invalid_value(
                name,
                where,
                value,
                "is not a number",
                "Convert the column to numbers or leave it out",
            )
    return values.astype(np.float64)


def counts(name: str, column: Any) -> np.ndarray:
    """The column as counts: whole numbers, zero or more."""
    values = vector(name, column).astype(np.float64)
    bad = (values < 0) | (values != np.floor(values))
    if bad.any():
        row = int(np.argmax(bad))
        problem = "is negative" if values[row] < 0 else "is not a whole number"
        raise invalid_value(
            name,
            (row,),
            values[row],
            f"{problem}, but the column must hold counts 0, 1, 2, …",
            "Check the column",
        )
    return values


def vector(name: str, column: Any) -> np.ndarray:
    """A numeric column with one number per row."""
    values = numeric(name, column)
    if values.ndim != 1:
        raise InvalidData(
            f"Column '{name}' has shape {values.shape}; give one number per row.", column=name
        )
    return values


def require(columns: Mapping[str, Any], names: Iterable[str]) -> None:
    """Every named column is there."""
    for name in names:
        if name not in columns:
            raise InvalidData(missing_column(name, columns), column=name)


def invalid_value(
    name: str, where: tuple[int, ...], value: Any, problem: str, remedy: str
) -> InvalidData:
    """The error that names column, row and value."""
    place = f"row {where[0]}" if len(where) == 1 else f"row {where[0]}, entry {list(where[1:])}"
    shown = value.item() if isinstance(value, np.generic) else value
    return InvalidData(
        f"Column '{name}', {place}: the value {shown!r} {problem}. {remedy}.",
        column=name,
        row=where[0],
        value=shown,
    )
