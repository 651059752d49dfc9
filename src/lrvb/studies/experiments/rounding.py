"""Numbers to a few significant digits, so that saved tables stay small."""

from __future__ import annotations

import pandas as pd


def rounded(table: pd.DataFrame, digits: int = 6) -> pd.DataFrame:
    """The table with its real numbers to so many significant digits."""
    real = table.select_dtypes("floating")
    rows = [[float(f"{x:.{digits}g}") for x in row] for row in real.to_numpy()]
    return table.assign(**pd.DataFrame(rows, table.index, real.columns).to_dict("series"))
