"""Columns that are not what they were meant to be: dates, and numbers with a slip of the pen among them."""

from __future__ import annotations

import pandas as pd

from ....errors import InvalidData
from .columns import Table, is_date

MANY_NUMBERS = 5  # labels that are numbers, from which on others among them are taken for slips


def refuse_dates(name: str, table: Table) -> None:
    """Points and spans of time, which are no numbers."""
    if is_date(table.frame[name]):
        raise InvalidData(
            f"Column '{name}' holds dates; make a number of them, such as days since the first.",
            column=name,
        )


def refuse_slips(name: str, table: Table, otherwise: str = "") -> None:
    """A column of numbers in which a few entries have made text of all; it names the first of these."""
    column = table.frame[name]
    labels = pd.Series(column.unique()).astype(str)
    numbers = pd.to_numeric(labels, errors="coerce").notna()
    if numbers.all() or numbers.sum() < MANY_NUMBERS or numbers.mean() < 0.5:
        return
    row = int(column.astype(str).isin(labels[~numbers]).to_numpy().argmax())
    raise table.error(
        name,
        row,
        column.iloc[row],
        f"is not a number, as {int(numbers.sum())} other values of the column are",
        f"Correct it{otherwise}",
    )
