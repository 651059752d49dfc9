"""Bad input of a mixed model: one sentence that names column, row, value and remedy."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lrvb import MixedModel, likelihoods, prior
from lrvb.errors import InvalidData, InvalidModel
from lrvb.estimators.mixed.design.design import build
from lrvb.estimators.mixed.priors.stated import resolve

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


# ---------------------------------------------------------------- missing and infinite values
def test_missing_values_are_listed() -> None:
    data = put("x", 3, np.nan)
    data.loc[[7, 9], "w"] = np.nan
    message = refused("y ~ x + w", data)
    assert message == (
        "3 of 40 rows have missing values: column 'x', row 3; column 'w', rows 7, 9. Fill them in, "
        'or set missing="drop" to leave those rows out.'
    )
    assert build("y ~ x + w", data, "gaussian", missing="drop").dropped == 3


def test_many_missing_values_are_counted() -> None:
    message = refused(
        "y ~ x", table(x=np.nan).assign(x=lambda d: d.x.where(d.g == 0, 1.0).shift(1))
    )
    assert "column 'x', rows 0, 1, 2, 3, 4, … (6 in all)" in message


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_missing_group_label(nothing: object) -> None:
    message = refused("y ~ x + (1|c)", put("c", 4, nothing))
    assert message.startswith("1 of 40 rows has missing values: column 'c', row 4.")


def test_missing_in_polars_and_masked_arrays() -> None:
    frame = pl.DataFrame({"y": [1.0, 2.0, 3.0], "x": [1, None, 2]})
    assert "column 'x', row 1" in refused("y ~ x", frame)
    masked = {"y": [1.0, 2.0, 3.0], "x": np.ma.array([1.0, 2.0, 4.0], mask=[0, 0, 1])}
    assert "column 'x', row 2" in refused("y ~ x", masked)


def test_nothing_left_after_dropping() -> None:
    message = refused("y ~ x", table(x=np.nan), missing="drop")
    assert message.startswith("Every one of the 40 rows has a missing value")


def test_missing_has_two_values() -> None:
    with pytest.raises(InvalidModel, match="missing='ignore' must be 'error' or 'drop'"):
        build("y ~ x", table(), "gaussian", missing="ignore")


def test_infinite_value() -> None:
    message = refused("y ~ x", put("x", 5, np.inf))
    assert message == (
        "Column 'x', row 5: the value inf is infinite. Correct the value or drop the row."
    )


def test_rows_are_named_by_place_and_label() -> None:
    data = put("x", 5, -np.inf).set_index(pd.Index([f"r{i}" for i in range(N)]))
    assert "row 5 (label 'r5'): the value -inf" in refused("y ~ x", data)


def test_places_count_the_dropped_rows() -> None:
    data = put("x", 2, np.nan)
    data.loc[6, "w"] = np.inf
    assert "Column 'w', row 6" in refused("y ~ x + w", data, missing="drop")


def test_transform_without_a_value() -> None:
    message = refused("y ~ log(k)", put("k", 0, 0, k=3 + table().g))
    assert message.startswith("The formula's 'log(k)', row 0: the value -inf is not finite.")
    assert "'log(k)', row 0: the value -inf" in refused("log(k) ~ x", put("k", 0, 0, k=3))
    assert "'log(k)', row 0: the value -inf" in refused("y ~ offset(log(k))", put("k", 0, 0, k=3))


def test_too_large() -> None:
    assert "row 1: the value 1e+200 is too large to be squared" in refused(
        "y ~ x", put("x", 1, 1e200)
    )


# ---------------------------------------------------------------- columns and their kinds
@pytest.mark.parametrize(
    ("formula", "name", "hint", "at"),
    [
        ("y ~ wx + (1|g)", "wx", "did you mean 'x' or 'w'?", 4),
        ("y ~ x + (1|G)", "G", "did you mean 'g'?", 11),
        ("y ~ x + (W|g)", "W", "did you mean 'w'?", 9),
        ("Y ~ x", "Y", "did you mean 'y'?", 0),
        (
            "y ~ x + offset(log(exposure))",
            "exposure",
            "there are 'y', 'x', 'w', 'c', 'g', 'k', 'b'.",
            19,
        ),
        ("prop(b, trials) ~ x", "trials", "there are", 8),
    ],
)
def test_unknown_column(formula: str, name: str, hint: str, at: int) -> None:
    family = "binomial" if "prop" in formula else "gaussian"
    with pytest.raises(InvalidData) as found:
        build(formula, table(), family)
    first, shown, caret = str(found.value).split("\n")
    assert first.startswith(f"The data have no column '{name}'; {hint}")
    assert shown == "    " + formula
    assert caret.index("^") - 4 == at
    assert found.value.column == name


def test_unknown_function() -> None:
    with pytest.raises(InvalidModel) as found:
        build("y ~ x + (1|g) + lgo(w)", table(), "gaussian")
    first, _, caret = str(found.value).split("\n")
    assert "The function 'lgo' is not known in a formula; did you mean 'log'" in first
    assert caret.index("^") - 4 == 16


@pytest.mark.parametrize(
    ("formula", "sentence", "at"),
    [
        ("y ~ (1|g) + x w", "Missing operator", 12),
        ("y ~ x + 3", "Numeric literals", 8),
        ("y ~ (.|g)", "'.' stands for no columns", 5),
        ("y ~ x + {w +}", "invalid syntax", 4),
    ],
)
def test_fixed_part_that_cannot_be_read(formula: str, sentence: str, at: int) -> None:
    with pytest.raises(InvalidModel) as found:
        build(formula, table(), "gaussian")
    assert sentence in str(found.value).split("\n")[0]
    assert str(found.value).split("\n")[2].index("^") - 4 == at


def test_duplicate_columns() -> None:
    data = table()
    twice = pd.concat([data, data[["x"]]], axis=1)
    message = "The data have more than one column 'x'; rename or drop all but one."
    assert refused("y ~ x", twice) == message
    build("y ~ w", twice, "gaussian")


def test_text_where_numbers_are_needed() -> None:
    message = refused("y ~ x + log(c)", table())
    assert message == (
        "The formula's 'log(c)' needs numbers, but column 'c' holds text, such as 'a' in row 0. "
        "Convert the column to numbers."
    )
    assert "The formula's 'c + 1' needs numbers, but column 'c'" in refused(
        "y ~ offset(c + 1)", table()
    )
    assert "the value 'a' is text, but the response must be a number" in refused("c ~ x", table())


def test_numbers_stored_as_text() -> None:
    message = refused("y ~ x", table(x=[str(i / 7) for i in range(N)]))
    assert message.startswith(
        "Column 'x' holds 40 different labels, such as '0.0' in row 0, in 40 rows"
    )
    assert "If numbers are meant, convert the column; if groups are meant, write (1|x)." in message


def test_dates_and_complex_numbers() -> None:
    days = pd.date_range("2020-01-01", periods=N)
    assert "Column 'x' holds dates; make a number of them" in refused("y ~ x", table(x=days))
    dates = [datetime.date(2020, 1, 1 + i % 20) for i in range(N)]
    assert "Column 'x' holds dates" in refused("y ~ x", table(x=dates))
    build("y ~ 1 + (1|x)", table(x=dates), "gaussian")
    assert "Column 'x' holds complex numbers" in refused("y ~ x", table(x=1j))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (3, "The data are a int; give a pandas or polars DataFrame"),
        (pl.DataFrame({"y": [1.0]}).lazy(), "call .collect() on it first"),
        ({"y": [1.0, 2.0], "x": [1.0]}, "Column 'x' has 1 rows but 'y' has 2"),
        (
            {"y": [1.0, 2.0], "x": np.ones((2, 2))},
            "Column 'x' has shape (2, 2); give one value per row",
        ),
        (pd.DataFrame({"y": [], "x": []}), "The data have no rows"),
        (pl.DataFrame({"y": [], "x": []}), "The data have no rows"),
        ({"y": [1.0], "x": [2.0]}, "The data have one row; a mixed model needs at least two"),
    ],
)
def test_no_table(data: object, sentence: str) -> None:
    assert sentence in refused("y ~ x", data)


# ---------------------------------------------------------------- groups
def test_one_level() -> None:
    message = refused("y ~ x + (1|g)", table(g="north"))
    assert message == (
        "The group 'g' has the single level 'north', so that the standard deviation between levels is "
        "not identified; leave its term out or group by another column."
    )


def test_empty_categories_are_no_levels() -> None:
    g = pd.Categorical(["only"] * N, categories=["only", "empty"])
    assert "the single level 'only'" in refused("y ~ x + (1|g)", table(g=g))


def test_real_numbers_as_a_group() -> None:
    message = refused("y ~ x + (1|w)", table())
    assert message.startswith("Column 'w' holds 40 different real numbers, one for each row")


def test_labels_that_cannot_be_sorted() -> None:
    mixed = put("c", 0, datetime.date(2020, 1, 1))
    mixed.loc[1, "c"] = 7
    assert "labels of different kinds that cannot be sorted" in refused("y ~ (1|c)", mixed)


@pytest.mark.parametrize(
    ("formula", "sentence", "at"),
    [
        ("y ~ (1|g) + (1|g)", "'1' varies by 'g' in two terms", 12),
        ("y ~ (1|g) + (x|g)", "'1' varies by 'g' in two terms", 12),
        ("y ~ (1|g:c) + (0 + x|c:g) + (x||c:g)", "'1' varies by 'g:c' in two terms", 28),
        ("y ~ (1|g/c) + (1|g)", "'1' varies by 'g' in two terms", 14),
        ("y ~ (1|g) + (1|h)", "'g' and 'h' group the rows in the same way", 12),
        ("y ~ (0|g)", "'0' has no columns", 4),
    ],
)
def test_terms_that_cannot_be_told_apart(formula: str, sentence: str, at: int) -> None:
    data = table(h=lambda d: -3 * d.g)
    with pytest.raises(InvalidModel) as found:
        build(formula, data, "gaussian")
    assert sentence in str(found.value)
    assert str(found.value).split("\n")[2].index("^") - 4 == at


def test_a_row_effect_beside_the_residual() -> None:
    with pytest.raises(
        InvalidModel, match="cannot be told from the residual's; leave its term out"
    ):
        build("y ~ x + (1|row)", table(row=np.arange(N)), "gaussian")


# ---------------------------------------------------------------- fixed effects
def test_collinear_columns_are_named() -> None:
    data = table(sum=lambda d: 2 * d.x - d.w + 3, twice=lambda d: 2 * d.x)
    message = refused("y ~ x + w + sum", data)
    for name in ("x", "w", "sum", "Intercept"):
        assert f"'{name}'" in message
    assert "is an exact combination of" in message
    assert "leave one of them out." in message
    message = refused("y ~ x + w + twice", data)
    assert "'x'" in message
    assert "'twice'" in message
    assert "'w'" not in message
    assert "'Intercept'" not in message
    build("y ~ x + w", data, "gaussian")


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_nearly_collinear_columns_are_fine(scale: float, shift: float) -> None:
    """Far from zero, in odd units, or correlated to 1 − 1e-10: still of full rank."""
    data = table(x=lambda d: scale * (d.x + shift), w=lambda d: d.x + 1e-5 * scale * d.w)
    build("y ~ x + w", data, "gaussian")


def test_more_effects_than_rows() -> None:
    assert "is an exact combination of" in refused("y ~ x + w + c", table().iloc[:3])


def test_constant_and_zero_columns() -> None:
    assert "'x' is the same in every row and cannot be told from the intercept" in refused(
        "y ~ x", table(x=0.1)
    )
    assert "'x' is zero in every row" in refused("y ~ 0 + x", table(x=0.0))
    build("y ~ 0 + x", table(x=0.1), "gaussian")
    empty = table(d=lambda d: np.where(d.c == "a", "u", np.where(d.g < 4, "u", "v")))
    assert "'c[b]:d[v]' is zero in every row" in refused(
        "y ~ c*d", empty.assign(d=empty.d[::-1].to_numpy())
    )


def test_unseen_category() -> None:
    design = build("y ~ c*x + (1|g)", table(), "gaussian")
    new = {"c": ["a", "z"], "x": [0.0, 1.0], "g": [0, 0]}
    with pytest.raises(InvalidData) as found:
        design.apply(new)
    assert str(found.value) == (
        "Column 'c', row 1: the value 'z' is a category that was not in the data of the fit, so that "
        "its effect is unknown. Use one of 'a', 'b'."
    )
    with pytest.raises(InvalidData, match="Column 'k', row 0: the value 99 is a category"):
        build("y ~ C(k)", table(), "gaussian").apply({"k": [99]})
    with pytest.raises(InvalidData, match="Column 'c', row 0: the value 'z' is a category"):
        build("y ~ x + (c|g)", table(), "gaussian").apply({"c": ["z"], "x": [1.0], "g": [0]})


def test_new_rows_are_checked() -> None:
    design = build("y ~ x + (1|g)", table(), "gaussian")
    with pytest.raises(InvalidData, match="The data have no column 'g'"):
        design.apply({"x": [1.0]})
    with pytest.raises(InvalidData, match="column 'x', row 1"):
        design.apply({"x": [1.0, np.nan], "g": [0, 1]})


# ---------------------------------------------------------------- responses
@pytest.mark.parametrize(
    "family", ["Poisson", "possion", "nbinom", "negbin", "nb", "zip", "Gamma", "normal", 3, None]
)
def test_unknown_family(family: object) -> None:
    """The families there are, and no guess: the nearest name may be another distribution."""
    listed = ", ".join(f"'{name}'" for name in likelihoods.FAMILIES)
    with pytest.raises(InvalidModel, match=re.escape(f"is not known; there are {listed}")) as error:
        build("k ~ x", table(), family)
    assert str(error.value).startswith(f"family={family!r}")
    assert "did you mean" not in str(error.value)


def test_a_class_is_not_a_family() -> None:
    with pytest.raises(InvalidModel, match=r"family=Poisson is a class; give an object of it"):
        build("k ~ x", table(), likelihoods.Poisson)


def test_a_dispersion_that_is_not_fitted() -> None:
    class Noisy(likelihoods.Poisson):
        dispersions = likelihoods.GAUSSIAN.dispersions

    with pytest.raises(InvalidModel, match="has the parameter 'residual', which is integrated"):
        MixedModel("k ~ x + (1|g)", Noisy(), factorization="mean_field")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (-1, "-1.0 is negative"),
        (1.5, "1.5 is not a whole number"),
        (1e17, "is too large to be an exact"),
    ],
)
def test_counts_that_are_none(value: float, problem: str) -> None:
    message = refused("k ~ x", put("k", 6, value), "poisson")
    assert message.startswith("Column 'k', row 6: the value ")
    assert problem in message
    assert "but counts must be whole numbers from 0" in message or value > 1e16


def test_binary_response() -> None:
    message = refused("b ~ x", put("b", 2, 2), "bernoulli")
    assert message.startswith(
        "Column 'b', row 2: the value 2.0 is neither 0 nor 1. Recode the column"
    )
    message = refused("c ~ x", table(), "bernoulli")
    assert message == (
        "Column 'c', row 0: the value 'a' is text, but the response must be a number. Make it 0 and "
        "1, with a column such as data['c'] == 'b'."
    )
    assert "or write the response as prop(successes, trials)" in refused(
        "k ~ x", table(), "binomial"
    )


def test_binomial_response() -> None:
    trials = table(n=3, b=1)
    message = refused("prop(b, n) ~ x", trials.assign(b=put("b", 9, 4, b=1).b), "binomial")
    assert message.startswith("Column 'b', row 9: the value 4.0 is more than the 3 trials in 'n'")
    fractional = refused("prop(b, n) ~ x", put("n", 1, 2.5, n=3, b=1), "binomial")
    assert (
        "Column 'n', row 1: the value 2.5 is not a whole number, but trials must be" in fractional
    )
    assert "the value 0.0 is no number of trials" in refused(
        "prop(b, n) ~ x", put("n", 1, 0, n=3, b=0), "binomial"
    )
    assert "Column 'b', row 3: the value -1.0 is negative, but successes" in refused(
        "prop(b, n) ~ x", put("b", 3, -1, n=3, b=1), "binomial"
    )
    with pytest.raises(InvalidModel, match=r"prop\(b, n\) is for family='binomial'"):
        build("prop(b, n) ~ x", trials, "poisson")


def test_constant_response() -> None:
    assert "The response 'y' is 2 in every row, so that nothing is left to explain" in refused(
        "y ~ x", table(y=2.0)
    )


# ---------------------------------------------------------------- effects without a finite estimate
def unbounded(formula: str, data: pd.DataFrame, family: str, priors: dict | None = None) -> str:
    design = build(formula, data, family)
    with pytest.raises(InvalidData) as found:
        resolve(priors, design, of_precisions=True)
    return str(found.value)


def test_all_zero_counts() -> None:
    message = unbounded("k ~ x + (1|g)", table(k=0), "poisson")
    assert message == (
        "Every count in 'k' is zero, so that the data set no lower limit to 'Intercept'; state how "
        'large it can be, for example priors={"Intercept": lrvb.prior.Normal(0, 2)}, or leave it out.'
    )
    held = {"Intercept": prior.Normal(0, 2)}
    resolve(held, build("k ~ x + (1|g)", table(k=0), "poisson"), of_precisions=True)
    positive = table(k=0, x=lambda d: d.x.abs())  # now x alone can lower every rate
    assert "no lower limit to 'x'" in unbounded("k ~ x", positive, "poisson", held)


def test_all_zero_counts_of_a_category() -> None:
    data = table(k=lambda d: d.k * (d.c == "a"))
    message = unbounded("k ~ c + x", data, "poisson")
    assert message.startswith("All counts in 'k' are zero wherever 'c[b]' would lower them")
    resolve({"c[b]": prior.Normal(0, 2)}, build("k ~ c + x", data, "poisson"), of_precisions=True)


def test_one_outcome_only() -> None:
    message = unbounded("b ~ x", table(b=1), "bernoulli")
    assert message.startswith(
        "Every row of 'b' has the same outcome 1, so that the data set no limit to"
    )
    assert "same outcome 0" in unbounded("b ~ x", table(b=0), "bernoulli")
    assert "'b' has the same outcome" in unbounded("prop(b, 3) ~ x", table(b=3), "binomial")


def test_separation() -> None:
    data = table(b=lambda d: (d.x > 0.3).astype(int))
    message = unbounded("b ~ x + w + (1|g)", data, "bernoulli")
    assert message.startswith(
        "The response 'b' is separated perfectly by 'Intercept', 'x': on one side"
    )
    assert 'priors={"x": lrvb.prior.Normal(0, ' in message
    flat = unbounded("b ~ x + w + (1|g)", data, "bernoulli", {"x": prior.Normal(0, np.inf)})
    assert flat == message
    held = {"x": prior.Normal(0, 2)}
    resolve(held, build("b ~ x + w + (1|g)", data, "bernoulli"), of_precisions=True)


def test_separation_by_a_combination() -> None:
    """Neither column separates alone; their sum does."""
    data = table(b=lambda d: (d.x + d.w > 0.1).astype(int))
    assert "by 'Intercept', 'x', 'w'" in unbounded("b ~ x + w + c", data, "bernoulli")
    resolve(None, build("b ~ x + c", data, "bernoulli"), of_precisions=True)


def test_separation_in_one_category_of_many_trials() -> None:
    data = table(b=lambda d: np.where(d.c == "b", 3, d.b))
    assert "separated perfectly by 'c[b]'" in unbounded("prop(b, 3) ~ x + c", data, "binomial")
    resolve(None, build("prop(b, 4) ~ x + c", data, "binomial"), of_precisions=True)


def test_overlapping_data_are_not_separated() -> None:
    resolve(None, build("b ~ x + w + c", table(), "bernoulli"), of_precisions=True)
    almost = table(b=lambda d: (d.x > 0.3).astype(int))
    highest, lowest = almost.x.idxmax(), almost.x.idxmin()
    almost.loc[highest, "b"] = 0
    almost.loc[lowest, "b"] = 1
    resolve(None, build("b ~ x", almost, "bernoulli"), of_precisions=True)


def test_only_an_effect_of_each_row():
    counts = {"y": [1, 2, 0, 4], "obs": [1, 2, 3, 4]}
    with pytest.raises(
        InvalidModel, match="has nothing but an effect of each row; add an intercept"
    ):
        MixedModel("y ~ 0 + (1|obs)", "poisson").fit(counts)
