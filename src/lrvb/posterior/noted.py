"""Tables with a line beneath them when they are printed."""

from __future__ import annotations

import html

import pandas as pd

FEW = 12  # columns, of which none is left out where a table is printed
WIDE = 120  # characters of a line, at least, before columns go to lines of their own


class Noted(pd.DataFrame):
    """A table whose `note` is printed under it. Parts of it are plain DataFrames."""

    _metadata = ["note"]

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __repr__(self) -> str:
        plain = pd.DataFrame(self)
        if len(self.columns) > FEW:
            return f"{plain!r}\n{self.note}"
        wide = max(pd.get_option("display.width") or 0, WIDE)
        with pd.option_context("display.max_columns", None, "display.width", wide):
            return f"{plain!r}\n{self.note}"

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
