"""Changed formulas: a dot stands for what was there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.errors import InvalidData, InvalidModel
from lrvb.estimators.mixed.text.updated import update_formula

OLD = "y ~ x + c + (1 | g)"


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (". ~ . + w", "y ~ x + c + (1 | g) + w"),
        ("~ . + w", "y ~ x + c + (1 | g) + w"),
        (". ~ . - x", "y ~ c + (1 | g)"),
        (". ~ . - (1|g) + (x|g)", "y ~ x + c + (x|g)"),
        ("log(y) ~ .", "log(y) ~ x + c + (1 | g)"),
        (". ~ . - 1", "y ~ x + c + (1 | g) - 1"),
        (". ~ . + x", "y ~ x + c + (1 | g)"),
        (". ~ w", "y ~ w"),
        ("z ~ w + (1|h)", "z ~ w + (1|h)"),
        (". ~ . - x - c - (1|g)", "y ~ 1"),
    ],
)
def test_dots_are_the_old_sides(new, expected):
    assert update_formula(new, OLD) == expected


@pytest.mark.parametrize("new", ["", 3, "x", ". ~ . - (1|h)", ". ~ - ."])
def test_what_is_no_change_is_refused(new):
    with pytest.raises(InvalidModel):
        update_formula(new, OLD)


def test_an_updated_model_is_fitted_to_the_same_rows():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(60, 3)), columns=["x", "w", "y"])
    data["g"] = rng.integers(0, 6, 60)
    model = lrvb.MixedModel("y ~ x + (1|g)").fit(data)
    wider = model.update(". ~ . + w", priors={"w": lrvb.prior.Normal(0, 1)})
    assert wider.formula == "y ~ x + (1|g) + w"
    assert wider.design_.names == ["Intercept", "x", "w"]
    assert model.design_.names == ["Intercept", "x"]
    del data
    assert model.update(". ~ . - x").design_.names == ["Intercept"]  # of the formula's own columns
    with pytest.raises(InvalidData, match="give the table"):
        model.update(". ~ . + w")
    with pytest.raises(InvalidModel, match="did you mean 'priors'"):
        model.update(prior=None)
