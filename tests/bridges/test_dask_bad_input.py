"""Bad Dask columns: the sentences of data in memory, and no part prepared that needs all rows."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import lrvb
from lrvb.models import NormalPoisson

RNG = np.random.default_rng(0)
X = RNG.normal(size=40)
Y = RNG.poisson(np.exp(X)).astype(float)


def cut(column: Any) -> Any:
    return da.from_array(np.asarray(column), chunks=10)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (cut(np.where(np.arange(40) == 25, np.nan, Y)), "'y', row 5: .*nan.* start of their part"),
        (cut(np.where(np.arange(40) == 25, -1, Y)), "'y', row 5: .*-1.* start of their part"),
        (cut(Y.astype(str)), "'y', row 0: .*not a number"),
        (cut(Y[:-1]), "'y' has 39 rows"),
        (da.ones(()), "'y' is a single value"),
        (3.0, "'y' is the single value 3.0"),
    ],
    ids=["nan", "negative", "text", "short", "no axis", "one value"],
)
def test_a_bad_value_is_named(y: Any, words: str) -> None:
    with pytest.raises(lrvb.InvalidData, match=words):
        lrvb.infer(NormalPoisson(), {"x": cut(X), "y": y})


def test_no_rows() -> None:
    with pytest.raises(lrvb.InvalidData, match="no rows"):
        lrvb.infer(NormalPoisson(), {"x": cut(X[:0]), "y": cut(Y[:0])})


class Centred(lrvb.Model):
    """prepare subtracts the mean of all rows, which no part knows."""

    global_blocks = {"mu": lrvb.Normal()}

    def prepare(self, data):
        return {"y": data["y"] - np.mean(data["y"])}

    def global_term(self, m):
        return -m.mu.xx

    def local_term(self, m, z, row):
        return row.y * m.mu.x - m.mu.xx


def test_prepare_that_may_need_all_rows() -> None:
    with pytest.raises(lrvb.InvalidModel, match=r"prepare of Centred may need all rows.*compute"):
        lrvb.infer(Centred(), {"y": cut(X)})
