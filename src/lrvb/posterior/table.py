"""The one builder of tables of estimates: `mean, sd, mfvb_sd, lower, upper`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


def table(
    index: Any,
    *,
    mean: Any,
    sd: Any,
    mfvb_sd: Any = None,
    z: Any = None,
    ends: tuple[Any, Any] | None = None,
) -> pd.DataFrame:
    """One row for each entry of `index`; columns that are not given are left out.

    Everything that every table of estimates must say or refuse belongs here, and only here.
    """
    import pandas as pd

    lower, upper = (None, None) if ends is None else ends
    columns = {
        "mean": mean,
        "sd": sd,
        "mfvb_sd": mfvb_sd,
        "z": z,
        "lower": lower,
        "upper": upper,
    }
    given = {name: np.asarray(c, dtype=float) for name, c in columns.items() if c is not None}
    return pd.DataFrame(given, index=index if isinstance(index, pd.Index) else pd.Index(index))
