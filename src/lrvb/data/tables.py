"""The user's columns, checked at the door: equally long, numeric, finite.

Every complaint names the column, the first offending row and its value, and says what to do.
"""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import InvalidData

LARGEST = 1e150  # squares of larger numbers, summed over rows, overflow
SMALLEST = 1e-150  # squares of a column of smaller ones vanish


class Row:
    """One row of data, or a chunk of rows: `row.x`, `row["x"]`, or `x, y = row`."""

    __slots__ = ("_columns", "_used")

    def __init__(self, columns: Mapping[str, Any], used: set[str] | None = None):
        self._columns: dict[str, Any] = dict(columns)
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

    columns: Mapping[str, Any]
    labels: Sequence[Any] | np.ndarray | None = None
    dim: str = "row"
    weights: np.ndarray | None = None
    n: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", length(self.columns))
        if self.labels is not None and len(self.labels) != self.n:
            raise InvalidData(
                f"There are {len(self.labels)} labels for {self.n} rows; give one label per row."
            )
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            if weights.shape != (self.n,) or not (np.isfinite(weights) & (weights >= 0)).all():
                raise InvalidData(
                    f"The weights must be {self.n} finite numbers, one per row and none negative."
                )


def missing_column(name: str, columns: Iterable[str]) -> str:
    """The sentence for a column that is not there."""
    have = ", ".join(f"'{c}'" for c in columns) or "none"
    return f"The data have no column '{name}'; the columns are {have}. Add it or rename one."


def as_columns(data: Any) -> tuple[dict[str, Any], Any]:
    """A mapping of columns from a mapping or a data frame, and the row labels if there are any."""
    refuse_lazy(data)
    if isinstance(data, Mapping):
        names = list(data)
        labels = _common_index(data)
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):
        names = list(data.columns)
        labels = getattr(data, "index", None)
    else:
        raise InvalidData(
            f"The data are {kind_of(data)}; give a mapping of equally long columns "
            "such as {'x': x, 'y': y}, or a pandas DataFrame."
        )
    repeated = [name for name, n in Counter(map(str, names)).items() if n > 1]
    if repeated:
        raise InvalidData(
            f"The data have more than one column '{repeated[0]}'; rename or drop all but one.",
            column=repeated[0],
        )
    return {str(name): _as_array(str(name), data[name]) for name in names}, labels


def refuse_lazy(data: Any) -> None:
    """A lazy frame holds no rows yet."""
    if hasattr(data, "collect") and hasattr(data, "collect_schema"):
        raise InvalidData("The data are a lazy frame; call .collect() on it first.")


def _common_index(data: Mapping[Any, Any]) -> Any:
    """The row labels that all pandas columns of a mapping share; None when there are no such."""
    first, labels = None, None
    for name, column in data.items():
        if not (hasattr(column, "iloc") and hasattr(column, "index")):
            continue
        if labels is None:
            first, labels = name, column.index
        elif len(column.index) == len(labels) and not column.index.equals(labels):
            raise InvalidData(
                f"Columns '{first}' and '{name}' have different row labels, so that it is not clear "
                "which values belong together. Put them into one DataFrame, or pass plain arrays "
                "with .to_numpy().",
                column=str(name),
            )
    return labels


def _as_array(name: str, column: Any) -> Any:
    """The column as something with a shape; what has one already is left as it is."""
    if hasattr(column, "iloc"):
        column = getattr(column, "values", column)
    if hasattr(column, "shape") or isinstance(column, str) or not isinstance(column, Sequence):
        return column
    try:
        return np.asarray(column)
    except (ValueError, TypeError):
        raise InvalidData(
            f"The rows of column '{name}' differ in length; give every row the same number of values.",
            column=name,
        ) from None


def length(columns: Mapping[str, Any]) -> int:
    """The common length of the columns."""
    if not columns:
        raise InvalidData("The data have no columns; give at least one.")
    lengths = {}
    for name, column in columns.items():
        if np.ndim(column) == 0:
            raise InvalidData(
                f"Column '{name}' is the single value {shortened(column)}; give one value per row.",
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
    """The column as finite numbers, or the sentence that says which value is not one.

    Real columns become float64 and whole ones int64, whatever their width, so that arithmetic in
    a model's terms does not wrap around.
    """
    refuse_masked(name, column)
    values = np.asarray(column)
    if values.dtype.kind in "OUST":
        values = _parse(name, values)
    if values.dtype.kind not in "buif":
        raise InvalidData(
            f"Column '{name}' holds {values.dtype} values; the model needs real numbers. "
            "Convert the column first.",
            column=name,
        )
    if values.dtype.kind in "iu":
        fits = values.dtype != np.uint64 or not (values > np.iinfo(np.int64).max).any()
        return values.astype(np.int64 if fits else np.float64, copy=False)
    if values.dtype.kind == "f":
        values = np.asarray(values, dtype=np.float64)
        if not np.isfinite(values).all():
            where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
            raise invalid_value(
                name, where, values[where], "must be finite", "Drop or fill the row"
            )
    return values


def refuse_masked(name: str, column: Any) -> None:
    """A masked entry is a missing one, whatever number stands beneath the mask."""
    if isinstance(column, np.ma.MaskedArray) and np.ma.getmaskarray(column).any():
        where = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(column))[0])
        raise invalid_value(name, where, column.data[where], "is masked", "Drop or fill the row")


def real(name: str, column: Any) -> None:
    """A complex column would lose its imaginary part."""
    if getattr(getattr(column, "dtype", None), "kind", "") == "c":
        raise InvalidData(
            f"Column '{name}' holds {column.dtype} values. Complex data not supported: the model "
            "needs real numbers, such as column.real.",
            column=name,
        )


def _parse(name: str, values: np.ndarray) -> np.ndarray:
    """Numbers from an object column that holds only numbers; text and None are refused."""
    whole = True
    for where in np.ndindex(*values.shape):
        value = values[where]
        if not isinstance(value, numbers.Real | Decimal | np.bool_):
            raise invalid_value(
                name,
                where,
                value,
                "is not a number",
                "Convert the column to numbers or leave it out",
            )
        whole &= isinstance(value, numbers.Integral) and abs(value) < 2**63
    return values.astype(np.int64 if whole else np.float64)


def counts(name: str, column: Any) -> np.ndarray:
    """The column as counts: whole numbers, zero or more."""
    values = vector(name, column)
    problems = {
        "is negative": values < 0,
        "is not a whole number": values != np.floor(values),
        "is too large to be an exact count": values > 2**53,
    }
    for problem, bad in problems.items():
        if bad.any():
            row = int(np.argmax(bad))
            raise invalid_value(
                name,
                (row,),
                values[row],
                f"{problem}, but the column must hold counts, whole numbers from 0",
                "Correct or drop the row",
            )
    return values.astype(np.float64)


def vector(name: str, column: Any) -> np.ndarray:
    """A numeric column with one number per row."""
    values = numeric(name, column)
    if values.ndim != 1:
        raise InvalidData(
            f"Column '{name}' has shape {values.shape}; give one number per row.", column=name
        )
    return values


def squarable(name: str, values: np.ndarray) -> np.ndarray:
    """The column as floats whose squares do not overflow."""
    values = values.astype(np.float64)
    large = np.abs(values) > LARGEST
    if large.any():
        where = tuple(int(i) for i in np.argwhere(large)[0])
        raise invalid_value(
            name, where, values[where], "is too large to be squared", "Rescale the column"
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
        f"Column '{name}', {place}: the value {shortened(shown)} {problem}. {remedy}.",
        column=name,
        row=where[0],
        value=shown,
    )


def shortened(value: Any, most: int = 80) -> str:
    """A value as it is shown in a sentence."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def kind_of(value: Any) -> str:
    """The type of a value as it is named in a sentence: "an int", "a list"."""
    name = type(value).__name__
    vowel = name[0] in "aeiouAEIO" or name == "ndarray"
    return f"{'an' if vowel else 'a'} {name}"
