"""Grouping factors: integer codes of a column's labels, or of the combinations of several columns."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....errors import InvalidData
from .columns import Table


class Factor(NamedTuple):
    """One grouping factor with G levels.

    codes (N,) int32 in 0..G−1; levels (G,) labels in sorted order (of a pandas categorical: in the
    order of its categories), for several columns joined as "3:b". Categories without rows are no
    levels.
    """

    name: str
    codes: np.ndarray
    levels: np.ndarray


class Coder(NamedTuple):
    """What turns rows into a factor's codes: each column's labels, and the combinations that occur."""

    name: str
    columns: tuple[str, ...]
    labels: tuple[pd.Index, ...]
    combinations: pd.Index  # sorted keys Σ code·stride; for one column 0..G−1

    def codes(self, table: Table) -> np.ndarray:
        """Codes of new rows, −1 where the label or the combination has not been seen."""
        key = np.zeros(table.n, dtype=np.int64)
        known = np.ones(table.n, dtype=bool)
        for name, labels in zip(self.columns, self.labels, strict=True):
            part = matched(labels, pd.Index(_values(table.frame[name])))
            known &= part >= 0
            key = key * len(labels) + part
        codes = self.combinations.get_indexer(pd.Index(key))
        return np.where(known, codes, -1).astype(np.int32)

    def written(self, table: Table) -> np.ndarray:
        """The label of every new row, of several columns joined by ':'; none where they are absent."""
        if not set(self.columns) <= set(table.frame):
            return np.full(table.n, "", dtype=object)
        texts = [table.frame[name].astype(str).to_numpy() for name in self.columns]
        return np.array([":".join(parts) for parts in zip(*texts, strict=True)], dtype=object)


def matched(labels: pd.Index, values: pd.Index) -> np.ndarray:
    """Where each value stands among the labels, −1 where it does not.

    4601, 4601.0 and "4601" are one label, whichever of them the fit has seen.
    """
    found = labels.get_indexer(values)
    missed = found < 0
    if missed.any():
        written = pd.Index([_written(label) for label in labels])
        if written.is_unique:
            found[missed] = written.get_indexer(pd.Index([_written(v) for v in values[missed]]))
    return found


def _written(label: Any) -> Any:
    """A label as it is written: a whole number without a point."""
    if isinstance(label, str | bytes | bool | np.bool_):
        return str(label)
    if isinstance(label, numbers.Real) and float(label).is_integer():
        return str(int(float(label)) if isinstance(label, float | np.floating) else label)
    return str(label)


def read_factor(name: str, columns: tuple[str, ...], table: Table) -> tuple[Factor, Coder]:
    """A factor from the rows, and what will code new rows the same way."""
    parts = [_factorize(column, table) for column in columns]
    key = np.zeros(table.n, dtype=np.int64)
    sizes = [len(labels) for _, labels in parts]
    if np.prod([float(size) for size in sizes]) > 2.0**62:
        raise InvalidData(
            f"The group '{name}' has too many combinations of labels to be counted; make one column "
            "of the combinations and group by it.",
            column=columns[0],
        )
    for (codes, _), size in zip(parts, sizes, strict=True):
        key = key * size + codes
    dense, combinations = pd.factorize(key, sort=True)
    levels = _level_names(combinations, [labels for _, labels in parts])
    if len(levels) == 1:
        raise InvalidData(
            f"The group '{name}' has the single level '{levels[0]}', so that the standard deviation "
            "between levels is not identified; leave its term out or group by another column.",
            column=columns[0],
            value=levels[0],
        )
    coder = Coder(name, columns, tuple(labels for _, labels in parts), pd.Index(combinations))
    return Factor(name, dense.astype(np.int32), levels), coder


def _factorize(name: str, table: Table) -> tuple[np.ndarray, pd.Index]:
    """Codes and sorted labels of one column."""
    column = table.frame[name]
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64), pd.Index(
            column.cat.categories.to_numpy()
        )
    values = _values(column)
    try:
        codes, labels = pd.factorize(values, sort=True)
    except TypeError:
        raise InvalidData(
            f"Column '{name}' holds labels of different kinds that cannot be sorted; make them all "
            "text or all numbers.",
            column=name,
        ) from None
    if values.dtype.kind == "f" and len(labels) == len(values):
        raise InvalidData(
            f"Column '{name}' holds {len(labels)} different real numbers, one for each row, so that "
            "it groups nothing; name the grouping column after the bar, or number the rows "
            "1, 2, 3, … for an effect of each row.",
            column=name,
            row=int(table.positions[0]),
            value=float(values[0]),
        )
    return codes.astype(np.int64), pd.Index(labels)


def _values(column: pd.Series) -> np.ndarray:
    """Labels as an array; whole numbers stored as floats become integers."""
    values = np.asarray(column)
    if values.dtype.kind != "f":
        return values
    whole = (values == np.floor(values)) & (np.abs(values) < 2**53)
    return values.astype(np.int64) if whole.all() else values


def _level_names(combinations: np.ndarray, labels: list[pd.Index]) -> np.ndarray:
    """The label of each level; of several columns joined by ':'."""
    if len(labels) == 1:
        return np.asarray(labels[0])
    texts = []
    key = combinations
    for index in reversed(labels):
        texts.append(np.asarray(index.astype(str))[key % len(index)])
        key = key // len(index)
    return np.array([":".join(parts) for parts in zip(*reversed(texts), strict=True)], dtype=object)
