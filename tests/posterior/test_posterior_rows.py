"""What a posterior says of the local variables of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from posterior_cases import BY_NAME, COUNTS, every_case, posterior_of, prior

import lrvb


@every_case
def test_local_variables(name: str) -> None:
    posterior, case = posterior_of(name), BY_NAME[name]
    block = next(iter(posterior.fit.problem.local.blocks))
    local = posterior.local(block)
    assert isinstance(local, xr.Dataset)
    assert set(local.data_vars) == {"mean", "sd", "mfvb_sd", "cov"}
    dim = "group" if name == "RandomSlope" else "row"
    n = 12 if name == "RandomSlope" else len(next(iter(case.data.values())))
    assert local.sizes[dim] == n
    assert local["cov"].dims[0] == dim
    assert local["cov"].dims[-1] == "quantity"
    assert list(local["quantity"].values) == posterior.names
    assert (local["sd"] >= 0).all()
    some = posterior.local(block, rows=[4, 1, -1])
    for variable in local.data_vars:
        whole = local[variable].isel({dim: [4, 1, n - 1]})
        np.testing.assert_allclose(some[variable], whole, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(some[dim], local[dim][[4, 1, n - 1]])


def test_ways_to_ask_for_rows(counts: lrvb.Posterior) -> None:
    expected = counts.local("z")["mean"].values
    mask = np.zeros(40, dtype=bool)
    mask[[2, 3]] = True
    for rows, at in [
        (slice(0, 2), [0, 1]),
        (slice(None, None, -20), [39, 19]),
        (mask, [2, 3]),
        (range(2), [0, 1]),
        (pd.Series([1, 2]), [1, 2]),
        ((5, 5), [5, 5]),
        (np.int64(7), [7]),
        (7, [7]),
    ]:
        np.testing.assert_allclose(counts.local("z", rows=rows)["mean"], expected[at], rtol=1e-9)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([40], "Row 40 does not exist; there are 40 rows, from 0."),
        ([0, -41], "Row -41 does not exist"),
        ([1.5], "rows=[1.5] must be row positions: whole numbers, a slice"),
        ("a", "rows='a' must be row positions"),
        ([[0, 1]], "must be row positions"),
        ([None], "must be row positions"),
        ({1, 2}, "must be row positions"),
        (np.ones(39, dtype=bool), "one True or False for each of the 40 rows"),
        ([], "asks for no rows"),
    ],
)
def test_rows_that_are_not_there(rows: Any, words: str, counts: lrvb.Posterior) -> None:
    with pytest.raises(lrvb.InvalidData) as caught:
        counts.local("z", rows=rows)
    assert words in str(caught.value)


def test_local_names_that_are_not_there(counts: lrvb.Posterior) -> None:
    with pytest.raises(
        lrvb.InvalidModel, match="no local quantity 'q'; the local quantities are: z"
    ):
        counts.local("q")
    assert set(posterior_of("GammaPoisson").local("log(lam)").data_vars) == {
        *("mean", "sd", "mfvb_sd", "cov")
    }


def test_a_model_without_rows() -> None:
    posterior = prior()
    assert posterior.converged
    with pytest.raises(lrvb.InvalidModel, match="no local blocks, so there is no local 'z'"):
        posterior.local("z")


def test_rows_keep_the_labels_of_a_data_frame() -> None:
    labels = [f"r{i}" for i in range(40)]
    frame = pd.DataFrame(dict(COUNTS.data), index=labels)
    local = lrvb.infer(COUNTS.model, frame).local("z")
    assert list(local["row"].values) == labels
    np.testing.assert_allclose(
        local["mean"].sel(row="r3"), posterior_of(str(COUNTS)).local("z")["mean"][3], rtol=1e-6
    )
