"""Input that is unusual but right: other containers, other units, extreme values."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.models import NormalPoisson, RandomSlope
from refusals import (
    COUNTS,
    GAUSSIAN,
    GROUPED,
    SLOPE,
    TILTED,
    Measurements,
    N,
    X,
    Y,
    stated,
)

# ---- values that are fine ------------------------------------------------------------------

SAME_COUNTS = {
    "list": Y.tolist(),
    "uint8": Y.astype(np.uint8),
    "float16": Y.astype(np.float16),
    "objects": Y.astype(object),
    "decimals": [Decimal(int(y)) for y in Y],
    "jax": jnp.asarray(Y),
    "nullable": pd.array(Y.tolist(), dtype="Int64"),
    "sparse": pd.arrays.SparseArray(Y),
    "categories": pd.Categorical(Y),
    "masked nowhere": np.ma.masked_array(Y, mask=False),
    "series": pd.Series(Y, index=range(100, 100 + N)),
}


@pytest.mark.parametrize("kind", SAME_COUNTS)
def test_the_same_numbers_in_other_containers(kind: str) -> None:
    expected = lrvb.infer(TILTED, COUNTS)
    got = lrvb.infer(TILTED, {"x": X, "y": SAME_COUNTS[kind]})
    pd.testing.assert_frame_equal(got.summary(), expected.summary())


def test_booleans_count_as_zero_and_one() -> None:
    expected = lrvb.infer(Measurements(), {"y": (X > 0).astype(float)})
    for column in (X > 0, pd.array(X > 0, dtype="boolean")):
        got = lrvb.infer(Measurements(), {"y": column})
        np.testing.assert_allclose(got.cov(), expected.cov(), rtol=1e-12)


def test_narrow_integers_do_not_wrap_around() -> None:
    """In eight bits 0 − 5 is 251; a user's terms see wide integers."""
    shifted = stated(
        local_term=lambda self, m, z, row: (
            (m.tau.log_x - m.tau.x * ((row.y - 5) ** 2 - 2 * (row.y - 5) * m.mu.x + m.mu.xx)) / 2
        )
    )
    wide = lrvb.infer(shifted, {"y": Y.astype(np.int64)})
    narrow = lrvb.infer(shifted, {"y": Y.astype(np.uint8)})
    assert wide.mean("mu").item() < 0
    np.testing.assert_array_equal(narrow.mean(), wide.mean())


# ---- extreme but right ---------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e8, 1e-8])
@pytest.mark.parametrize("model", [NormalPoisson, RandomSlope], ids=lambda m: m.__name__)
def test_units_of_x_do_not_matter(model: Any, scale: float) -> None:
    """With β's prior in the same units the answer is the same, β divided by the scale."""
    data = COUNTS if model is NormalPoisson else GROUPED
    scaled = {**data, "x": data["x"] * scale}
    for options in [{"local": "gaussian"}, {"local": "tilted"}] if model is NormalPoisson else [{}]:
        ours = lrvb.infer(model(beta_var=10.0, **options), data, certify=False)
        theirs = lrvb.infer(model(beta_var=10.0 / scale**2, **options), scaled, certify=False)
        ours, theirs = (p.summary().drop(columns="verdict") for p in (ours, theirs))
        beta = [name for name in ours.index if name.startswith("beta")]
        theirs.loc[beta] *= scale
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_units_that_the_prior_does_not_follow(scale: float) -> None:
    """Then the answer is another one: β without a prior, or β as the prior has it."""
    posterior = lrvb.infer(TILTED, {"x": X * scale, "y": Y})
    assert posterior.converged
    expected = lrvb.infer(NormalPoisson(beta_var=10 * scale**2), COUNTS)
    np.testing.assert_allclose(posterior.sd() * [scale, 1, 1], expected.sd(), rtol=1e-6)


def test_columns_of_zeros_leave_the_prior() -> None:
    """β without data, and ν without random effects, keep their priors exactly."""
    for model in (TILTED, GAUSSIAN):
        posterior = lrvb.infer(model, {"x": np.zeros(N), "y": Y})
        np.testing.assert_allclose(posterior.sd("beta"), np.sqrt(10), rtol=1e-9)
        np.testing.assert_allclose(posterior.mean("beta"), 0, atol=1e-12)
    posterior = lrvb.infer(SLOPE, {**GROUPED, "x": np.zeros((N, 2))})
    np.testing.assert_allclose(posterior.sd("beta"), np.sqrt(10), rtol=1e-9)
    posterior = lrvb.infer(SLOPE, {**GROUPED, "r": np.zeros(N)})
    np.testing.assert_allclose(posterior.mean("nu"), 1.0, rtol=1e-9)
    np.testing.assert_allclose(posterior.sd("nu"), np.sqrt(0.5), rtol=1e-9)


@pytest.mark.parametrize("model", [TILTED, GAUSSIAN], ids=["tilted", "gaussian"])
@pytest.mark.parametrize(
    "data",
    [
        {"x": np.ones(N), "y": Y},
        {"x": X, "y": 0 * Y},
        {"x": X, "y": 1_000_000 * Y},
        {"x": np.ones(N), "y": 1_000_000 + Y},
        {"x": X[:1], "y": Y[:1]},
    ],
    ids=["constant x", "no events", "many events", "many alike", "one row"],
)
def test_extreme_counts_converge(model: Any, data: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = lrvb.infer(model, data)
    assert posterior.converged
    summary = posterior.summary()
    assert np.isfinite(summary.drop(columns="verdict")).all(axis=None)
    assert (summary["sd"] >= summary["mfvb_sd"] * (1 - 1e-9)).all()


def test_one_row_and_one_group() -> None:
    posterior = lrvb.infer(SLOPE, {name: column[:1] for name, column in GROUPED.items()})
    assert posterior.converged
    assert posterior.local("z").sizes["group"] == 1


def test_collinear_columns() -> None:
    """Two copies of a column share one coefficient, whose prior has twice the variance."""
    twice = lrvb.infer(SLOPE, {**GROUPED, "x": np.column_stack([X, X])})
    once = lrvb.infer(RandomSlope(beta_var=20.0), {**GROUPED, "x": X})
    together = twice.of(lambda m: m.beta.x.sum())
    np.testing.assert_allclose(together, once.cov("beta[0]").iloc[0, 0], rtol=1e-8)
    np.testing.assert_allclose(twice.sd("tau"), once.sd("tau"), rtol=1e-8)


def test_a_large_offset_is_reported() -> None:
    """Differences from 1e8 are lost to rounding: no number without a warning."""
    with pytest.warns(lrvb.NotConverged, match="centre columns with a large offset"):
        lrvb.infer(RandomSlope(beta_var=1e20), {**GROUPED, "y": GROUPED["y"] + 1e7})
