"""Frequency weights: how often each row counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import InvalidData, InvalidModel
from .columns import Table, close_to, is_text
from .slips import refuse_dates, refuse_slips

MOST = 2**20  # rows that weights are written out as, at most


def check_name(weights: Any, known: list[str]) -> None:
    """The name of a column of the table."""
    if not isinstance(weights, str):
        raise InvalidModel(
            f"weights={type(weights).__name__} must be the name of a column of the data, such as "
            "weights='w'."
        )
    if weights not in known:
        raise InvalidData(
            f"The data have no column '{weights}', which weights names; {close_to(weights, known)}",
            column=weights,
        )


def split_weights(name: str | None, table: Table) -> tuple[np.ndarray | None, Table]:
    """The weights (N,) of the rows that count, and those rows; None where each counts once."""
    if name is None:
        return None, table
    if is_text(table.frame[name]):
        refuse_dates(name, table)
        refuse_slips(name, table)
        value = table.frame[name].iloc[0]
        raise table.error(
            name, 0, value, "is text, but weights must be numbers", "Convert the column to numbers"
        )
    values = table.frame[name].to_numpy().astype(np.float64)
    for row in np.flatnonzero(values < 0)[:1]:
        raise table.error(
            name,
            int(row),
            values[row],
            "is negative, but a row cannot count less than not at all",
            "Give weights from 0; a row of weight 0 is left out",
        )
    there = np.flatnonzero(values > 0)
    if not len(there):
        raise InvalidData(f"Every weight in column '{name}' is zero, so that no row counts.")
    if len(there) < len(values):
        table = table.take(there)
    return values[there], table


def written_out(weights: np.ndarray) -> np.ndarray:
    """Rows as often as they count, as indices; in proportion where that is not a whole number or many."""
    whole = bool(np.all(weights == np.floor(weights)))
    share = weights if whole and weights.sum() <= MOST else weights * (MOST / weights.sum())
    ends = np.rint(np.cumsum(share)).astype(np.int64)
    return np.repeat(np.arange(len(weights)), np.diff(ends, prepend=0))
