"""A table that every mixed model can be fitted to, and what is said of one that is not right."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lrvb.errors import InvalidData
from lrvb.estimators.mixed.design.design import build

N = 40


def table(**changes) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    data = pd.DataFrame(
        {
            "y": rng.normal(size=N),
            "x": rng.normal(size=N),
            "w": rng.normal(size=N),
            "c": np.tile(["a", "b"], N // 2),
            "g": np.repeat(np.arange(8), N // 8),
            "k": rng.poisson(2, N),
            "b": rng.integers(0, 2, N),
        }
    )
    return data.assign(**changes)


def put(column: str, row: int, value: object, **changes) -> pd.DataFrame:
    """The table with one value replaced."""
    data = table(**changes)
    values = data[column].tolist()
    values[row] = value
    return data.assign(**{column: values})


def refused(formula: str, data: object, family: str = "gaussian", **options) -> str:
    """The sentence about bad data."""
    with pytest.raises(InvalidData) as found:
        build(formula, data, family, **options)
    message = str(found.value)
    assert message.split("\n")[0].endswith((".", "?")), message
    return message
