"""`weights="w"`: a row counts as often as its weight says."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import pytest

import lrvb
from mixed_fits import frame

FITS = {
    "gaussian": ("y ~ x + (1|g) + (1|h)", "gaussian", "blocked"),
    "poisson": ("count ~ x + (1|g)", "poisson", "blocked"),
    "regression": ("prop(s, n) ~ x", "binomial", "blocked"),
    "mean field": ("yes ~ x + (1|g)", "bernoulli", "mean_field"),
    "variational": ("y ~ x + (1|g)", "gaussian", "variational"),
}


def weighted():
    """Rows with weights 0, 1, 2 and 3."""
    data = frame()
    return data.assign(times=np.random.default_rng(5).integers(0, 4, len(data)))


@functools.cache
def pair(name):
    """The weighted fit, and that of the rows repeated."""
    formula, family, factorization = FITS[name]
    data = weighted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a response that a variational fit need not converge to
        one = lrvb.MixedModel(formula, family, None, factorization, weights="times").fit(data)
        repeated = data.loc[data.index.repeat(data["times"])]
        return one, lrvb.MixedModel(formula, family, None, factorization).fit(repeated)


@pytest.mark.parametrize("name", [*FITS])
def test_a_weighted_fit_is_that_of_the_repeated_rows(name):
    """Default priors, draws and all; only the order of sums differs."""
    one, other = pair(name)
    numbers = ["mean", "sd", "mfvb_sd", "lower", "upper"]
    np.testing.assert_allclose(
        one.summary()[numbers], other.summary()[numbers], rtol=1e-8, atol=1e-9
    )
    np.testing.assert_allclose(one.elbo_, other.elbo_, rtol=1e-9)
    new = frame(seed=2).head(6)
    np.testing.assert_allclose(
        one.predict(new, interval=0.9), other.predict(new, interval=0.9), rtol=1e-8
    )


@pytest.mark.parametrize("name", [name for name, (*_, how) in FITS.items() if how == "blocked"])
def test_averages_count_rows_by_their_weights(name):
    """The same draws, averaged over weighted and over repeated rows."""
    one, other = pair(name)
    for ask in (
        lambda m: m.predictions(by=True, n=50),
        lambda m: m.comparisons({"x": "iqr"}, by=True, n=50),
        lambda m: m.slopes("x", by=True, n=50),
        lambda m: m.r2(),
    ):
        a, b = (ask(m).select_dtypes("number") for m in (one, other))
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_rows_of_weight_zero_are_left_out():
    """Neither counted nor predicted, nor are levels that only they have."""
    one, _ = pair("poisson")
    data = weighted()
    assert one.n_rows_ == (data["times"] > 0).sum()
    assert one.dropped_ == 0
    assert list(one.predict().index) == list(data.index[data["times"] > 0])


def test_half_weights_are_roots_of_the_likelihood():
    """Every row twice at half weight is every row once."""
    data = frame()
    twice = pd.concat([data, data], ignore_index=True).assign(half=0.5)
    one = lrvb.MixedModel("count ~ x", "poisson", weights="half").fit(twice).summary()
    other = lrvb.MixedModel("count ~ x", "poisson").fit(data).summary()
    np.testing.assert_allclose(one[["mean", "sd"]], other[["mean", "sd"]], rtol=1e-8)


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (-1.0, "row 3 .*: the value -1.0 is negative"),
        (np.nan, "column 'times', row 3"),
        (np.inf, "row 3 .*: the value inf is infinite"),
    ],
)
def test_bad_weights_are_refused(column, sentence):
    """One sentence with column, row and value."""
    data = weighted().assign(times=np.r_[1.0, 1.0, 1.0, column, np.ones(len(frame()) - 4)])
    with pytest.raises(lrvb.LrvbError, match=sentence):
        lrvb.MixedModel("y ~ x + (1|g)", weights="times").fit(data)


def test_what_is_no_column_of_weights_is_refused():
    """Another name, an array, text, nothing but zeros."""
    data = weighted()
    for weights, sentence in (
        ("time", "no column 'time', which weights names; did you mean 'times'"),
        (np.ones(3), "weights=ndarray must be the name of a column"),
        ("g", "is text, but weights must be numbers"),
        ("none", "Every weight in column 'none' is zero"),
    ):
        with pytest.raises(lrvb.LrvbError, match=sentence):
            lrvb.MixedModel("y ~ x + (1|h)", weights=weights).fit(data.assign(none=0))
