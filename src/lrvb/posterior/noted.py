"""Tables with a line beneath them when they are printed."""

from __future__ import annotations

import html

import pandas as pd


class Noted(pd.DataFrame):
    """A table whose `note` is printed under it. Parts of it are plain DataFrames."""

    _metadata = ["note"]

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        return f"{pd.DataFrame(self)!r}\n{self.note}"

    def _repr_html_(self) -> str:
        return f"{pd.DataFrame(self).to_html()}<p>{html.escape(self.note)}</p>"


class NotedSeries(pd.Series):
    """A column whose `note` is printed under it. Parts of it are plain Series."""

    _metadata = ["name", "note"]

    @property
    def _constructor(self) -> type[pd.Series]:
        return pd.Series

    def __repr__(self) -> str:
        return f"{pd.Series(self)!r}\n{self.note}"


def noted_series(values: pd.Series, note: str) -> NotedSeries:
    """The column with a note, and with its own `attrs`, which pandas leaves behind."""
    result = NotedSeries(values)
    result.note, result.attrs = note, dict(values.attrs)
    return result


def noted(table: pd.DataFrame, note: str) -> Noted:
    """The table with a note, and with its own `attrs`."""
    result = Noted(table)
    result.note, result.attrs = note, dict(table.attrs)
    return result
