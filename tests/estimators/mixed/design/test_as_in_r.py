"""Formulas as R users write them make the columns they expect, on new rows as on those of the fit."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import CubicSpline

import lrvb
from lrvb.estimators.mixed.design.design import build
from mixed_fits import frame


def columns(formula, data=None, family="gaussian"):
    """Names and X."""
    design = build(formula, frame() if data is None else data, family)
    return design.names, design.X


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("y ~ I(x^2)", "y ~ I(x**2)"),
        ("y ~ (x + w)^2", "y ~ x + w + x:w"),
        ("y ~ log(exposure^2)", "y ~ log(exposure**2)"),
        ("y ~ as.factor(h)", "y ~ factor(h)"),
        ("y ~ -1 + x", "y ~ 0 + x"),
        ("y ~ x * w", "y ~ x + w + x:w"),
    ],
)
def test_two_ways_to_write_one_thing(written, meant):
    np.testing.assert_array_equal(columns(written)[1], columns(meant)[1])


def test_a_number_becomes_a_category():
    """factor(k) has a column for every number but the first; (1|factor(g)) is (1|g)."""
    data = frame().assign(k=lambda d: d["n"] % 3)
    assert columns("y ~ factor(k)", data)[0] == ["Intercept", "factor(k)[1]", "factor(k)[2]"]
    for group in ("factor(g)", "as.factor( g )"):
        design = build(f"y ~ x + (1|{group})", data, "gaussian")
        assert [term.name for term in design.terms] == ["1|g"]
    assert build("y ~ (1|factor(g):factor(h))", data, "gaussian").factors[0].name == "g:h"


def test_successes_and_failures():
    """cbind(s, f) is prop(s, s + f), in the fit and for new rows."""
    data = frame().assign(f=lambda d: d["n"] - d["s"])
    one = build("cbind(s, f) ~ x", data, "binomial")
    other = build("prop(s, n) ~ x", data, "binomial")
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(one.trials, other.trials)
    np.testing.assert_array_equal(one.apply(data.head()).trials, other.trials[:5])
    with pytest.raises(lrvb.LrvbError, match=r"cbind\(s, f\) is for family='binomial'"):
        build("cbind(s, f) ~ x", data, "poisson")
    for bad, problem in ((-1, "is negative"), (0.5, "whole number")):
        wrong = data.astype({"f": float})
        wrong.iloc[3, wrong.columns.get_loc("f")] = bad
        with pytest.raises(lrvb.InvalidData, match=problem) as found:
            build("cbind(s, f) ~ x", wrong, "binomial")
        assert (found.value.column, found.value.row) == ("f", 3)


def test_a_dot_is_every_other_column():
    """None that the formula names elsewhere, nor that of the weights."""
    data = frame()[["y", "x", "w", "c", "g", "exposure", "n"]]
    design = build("y ~ . + offset(exposure) + (1|g)", data, "gaussian", weights="n")
    assert design.names == ["Intercept", "c[b]", "c[c]", "x", "w"] or design.names == [
        "Intercept",
        "x",
        "w",
        "c[b]",
        "c[c]",
    ]
    fewer = build("y ~ . - c - w + (1|g)", data.drop(columns=["exposure", "n"]), "gaussian")
    assert fewer.names == ["Intercept", "x"]
    odd = data[["y", "x"]].rename(columns={"x": "the x"})
    assert build("y ~ .", odd, "gaussian").names == ["Intercept", "the x"]
    with pytest.raises(lrvb.LrvbError, match="and there are none"):
        build("y ~ . + (1|g)", data[["y", "g"]], "gaussian")


def test_natural_splines():
    """df columns span, with 1, every cubic spline on the knots without bend at the ends."""
    data = frame()
    x = data["x"].to_numpy()
    names, X = columns("y ~ ns(x, df=4)")
    assert names == ["Intercept", *(f"ns(x, df=4)[{j}]" for j in range(1, 5))]
    knots = np.quantile(x, [0, 0.25, 0.5, 0.75, 1])
    for values in np.eye(5):
        natural = CubicSpline(knots, values, bc_type="natural")(x)
        left = natural - X @ np.linalg.lstsq(X, natural, rcond=None)[0]
        np.testing.assert_allclose(left, 0, atol=1e-10)
    same = columns("y ~ ns(x, 4)")[1]
    np.testing.assert_array_equal(same, X)
    given = ", ".join(map(repr, map(float, knots[1:-1])))
    np.testing.assert_allclose(columns(f"y ~ ns(x, knots=[{given}])")[1], X, atol=1e-12)


def test_natural_splines_of_new_rows():
    """The fit's knots, and lines beyond its ends."""
    data = frame()
    design = build("y ~ ns(x, df=3)", data, "gaussian")
    np.testing.assert_allclose(design.apply(data.head(3)).X, design.X[:3], rtol=1e-12)
    high = data["x"].max()
    beyond = pd.DataFrame({"x": high + np.array([-1e-7, 0.0, 1.0, 2.0, 3.0])})
    X = design.apply(beyond).X
    np.testing.assert_allclose(np.diff(X[1:], 2, axis=0), 0, atol=1e-10)
    np.testing.assert_allclose((X[1] - X[0]) / 1e-7, X[2] - X[1], atol=1e-5)


@pytest.mark.parametrize("text", ["ns(x)", "ns(x, df=0)", "ns(x, df=2.5)", "ns(c3, df=5)"])
def test_splines_that_cannot_be(text):
    """No number of columns, or more knots than different values."""
    data = frame().assign(c3=lambda d: (d["n"] > 6).astype(float))
    with pytest.raises(lrvb.LrvbError, match=rf"^The formula's '{re.escape(text)}': ns\(...\)"):
        build(f"y ~ {text}", data, "gaussian")


def test_columns_may_have_the_names_of_pythons_words():
    """As `yield` in many an experiment; where something is computed of them the error says what to do."""
    from lrvb.errors import InvalidModel

    table = {"yield": [1.0, 2.5, 3.0, 2.0], "class": [0.0, 1.0, 2.0, 0.5], "global": list("aabb")}
    design = build("yield ~ class + offset(class) + (1|global)", table, "gaussian")
    np.testing.assert_allclose(design.y, table["yield"])
    assert design.names == ["Intercept", "class"]
    with pytest.raises(InvalidModel, match="'yield' is a word of Python's"):
        build("log(yield) ~ class + (1|global)", table, "gaussian")
