"""Contrasts: read from text, computed from the covariance, refused with a place and a remedy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.estimators.mixed.answers.contrast import weights
from mixed_fits import fitted

KNOWN = ["Intercept", "x1", "x", "x2", "c[b]", "x:c[b]", "np.log(x)", "log(precision[1|g])"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x1 - x2", {"x1": 1, "x2": -1}),
        ("2*x1 - 0.5*x2 + c[b]", {"x1": 2, "x2": -0.5, "c[b]": 1}),
        ("-x", {"x": -1}),
        ("x:c[b]*2 - x", {"x:c[b]": 2, "x": -1}),
        (" 1e-2 * np.log(x)+x / 4 ", {"np.log(x)": 0.01, "x": 0.25}),
        ("x1+x1 - .5*2*x2", {"x1": 2, "x2": -1}),
        ("x - -x2", {"x": 1, "x2": 1}),
        ("log(precision[1|g])", {"log(precision[1|g])": 1}),
    ],
)
def test_reading(text, expected):
    found = weights(text, KNOWN)
    assert {name: w for name, w in zip(KNOWN, found, strict=True) if w} == expected


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("x1 - x3", "no quantity 'x3'; did you mean 'x", 5),
        ("x1 - c[d]", r"no quantity 'c\[d\]'; did you mean 'c\[b\]'", 5),
        ("x1 - 3", "constant", 5),
        ("x1 * x2", "linear: a name is multiplied", 5),
        ("1 / x", "linear", 4),
        ("x ** 2", "'\\+' or '-' was expected", 2),
        ("x1 x2", "'\\+' or '-' was expected", 3),
        ("(x1 - x2)/2", "plain sum", 0),
        ("x1 -", "ends where a name", 4),
        ("", "empty", 0),
        ("x - x", "cancels", 0),
        ("x / 0", "divided by zero", 4),
    ],
)
def test_what_is_refused(text, message, at):
    with pytest.raises(lrvb.InvalidModel, match=message) as caught:
        weights(text, KNOWN)
    *_, shown, caret = str(caught.value).split("\n")
    assert shown == f"    {text}"
    assert caret == f"    {' ' * at}^"


def test_values_are_those_of_the_covariance():
    """c'm, and c'Σ̂c with both covariances; z is mean/sd."""
    model = fitted("slopes")
    names = ["x", "c[b]", "c[c]"]
    c = np.array([2.0, -0.5, 1.0])
    row = model.contrast("2*x - 0.5*c[b] + c[c]", prob=0.5).iloc[0]
    assert_allclose(row["mean"], c @ model.posterior_.mean(names))
    for column, method in (("sd", "lrvb"), ("mfvb_sd", "mfvb")):
        cov = model.posterior_.cov(names, method).to_numpy()
        assert_allclose(row[column], np.sqrt(c @ cov @ c))
    assert_allclose(row["z"], row["mean"] / row["sd"])
    assert_allclose(row["upper"] - row["mean"], 0.67448975 * row["sd"])
    assert_allclose(row["mean"] - row["lower"], 0.67448975 * row["sd"])


def test_one_name_is_its_row_of_the_summary():
    model = fitted("slopes")
    ours = model.contrast("x").drop(columns="z").iloc[0]
    assert_allclose(ours, model.summary()[ours.index].loc["x"])


def test_several_at_once():
    model = fitted("slopes")
    listed = model.contrast(["c[b] - c[c]", "x"])
    assert list(listed.index) == ["c[b] - c[c]", "x"]
    named = model.contrast({"b or c": "c[b] - c[c]"})
    assert list(named.index) == ["b or c"]
    assert_allclose(named.iloc[0], listed.iloc[0])
    for nothing in (3, [3], [], {}):
        with pytest.raises(lrvb.InvalidModel, match="contrast"):
            model.contrast(nothing)
    with pytest.raises(lrvb.InvalidModel, match=r"The contrast 'exp\(' is no formula"):
        model.contrast("exp(")
    with pytest.raises(lrvb.InvalidModel, match="call fit"):
        lrvb.MixedModel("y ~ (1|g)").contrast("x")
