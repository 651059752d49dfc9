"""A DataFrame with a line beneath it when it is printed."""

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


def noted(table: pd.DataFrame, note: str) -> Noted:
    """The table with a note."""
    result = Noted(table)
    result.note = note
    return result
