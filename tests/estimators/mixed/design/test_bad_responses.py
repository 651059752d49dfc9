"""Responses that a family cannot have, and effects to which data set no limit."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from bad_rows import put, refused, table

from lrvb import MixedModel, likelihoods, prior
from lrvb.errors import InvalidData, InvalidModel
from lrvb.estimators.mixed.design.design import build
from lrvb.estimators.mixed.priors.stated import resolve


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
