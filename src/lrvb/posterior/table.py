"""The one builder of tables of estimates: `mean, sd, mfvb_sd, lower, upper, verdict`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidModel

if TYPE_CHECKING:
    import pandas as pd


BEYOND = (
    "Numbers or their squares have left the range that a computer holds, or the distribution has no "
    "such moment: rescale the columns, or give a tighter prior"
)


def require_finite(what: str, values: np.ndarray, index: Any, why: str = BEYOND) -> None:
    """Refuse NaN and infinity, naming the first quantity (entries of `index`) that has one."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        name = list(index)[int(bad[0])]
        raise InvalidModel(
            f"The {what} of '{name}' is {values[bad[0]]}, not a finite number. {why}.",
            quantity=name,
            column=what,
            value=float(values[bad[0]]),
        )


def table(
    index: Any,
    *,
    mean: Any,
    sd: Any,
    mfvb_sd: Any = None,
    z: Any = None,
    ends: tuple[Any, Any] | None = None,
    verdict: Any = None,
    why: str = BEYOND,
) -> pd.DataFrame:
    """One row for each entry of `index`; columns that are not given are left out.

    A number that is not finite is refused, with `why` there is none.

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
    for name, values in given.items():
        require_finite(name, values, index, why)
    rows = index if isinstance(index, pd.Index) else pd.Index(index)
    result = pd.DataFrame(given, index=rows)
    if verdict is not None:
        result["verdict"] = list(verdict)
    return result
