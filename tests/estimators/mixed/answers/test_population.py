"""Predictions without some or all random effects, and on the link's scale."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from mixed_fits import fitted, frame

WAYS = [
    ("slopes", "blocked"),
    ("yes", "blocked"),
    ("slopes", "variational"),
    ("counts", "variational"),
]


@pytest.mark.parametrize(("name", "factorization"), WAYS)
def test_the_population_has_fixed_effects_only(name, factorization):
    """On the link's scale the mean is x'E β + offset, and the variance x'Cov(β)x."""
    model = fitted(name, factorization)
    design, posterior = model.design_, model.posterior_
    found = model.predict(groups="none", scale="link", interval=0.9)
    beta, cov = posterior.mean(design.names), posterior.cov(design.names)
    offset = 0.0 if design.offset is None else design.offset
    assert_allclose(found["mean"], design.X @ beta.to_numpy() + offset, rtol=1e-6, atol=1e-6)
    variance = np.einsum("ni,ij,nj->n", design.X, cov.to_numpy(), design.X)
    # Integrated answers are made from a part of the draws, whose sds are theirs to a few per cent; a
    # variational table of counts is averaged over the precisions, and a prediction is made at their mean.
    rtol = 1e-5 if (name, factorization) == ("slopes", "variational") else 0.03
    assert_allclose(found["sd"], np.sqrt(variance), rtol=rtol)
    assert (found["lower"] < found["mean"]).all()
    assert (found["mean"] < found["upper"]).all()


@pytest.mark.parametrize(("name", "factorization"), WAYS)
def test_all_groups_are_the_default(name, factorization):
    """Every effect kept by name is every effect; new levels are not asked about where they are left out."""
    model, new = fitted(name, factorization), frame().head(5)
    every = list(model.ranef().index.unique("term"))
    assert_allclose(model.predict(new, groups=every), model.predict(new), rtol=1e-12)
    link = model.predict(new, scale="link")["mean"]
    none = model.predict(new, groups="none", scale="link")["mean"]
    effects = model.ranef()["mean"]
    moved = sum(
        effects[effect].loc[new["g"]].to_numpy()
        * (1 if effect.startswith("1") else new["x"].to_numpy())
        for effect in every
    )
    assert_allclose(link - none, moved, atol=1e-6 + 0.02 * (factorization == "blocked"))
    model.predict(new.assign(g="unheard of"), groups="none")  # a warning would be an error here


@pytest.mark.parametrize(("name", "factorization"), WAYS)
def test_columns_of_effects_that_are_left_out_may_be_missing(name, factorization):
    """As with lme4's re.form = NA: no group, or one that is not known, in the rows of a population."""
    model, new = fitted(name, factorization), frame().head(5)
    expected = model.predict(new, groups="none", interval=0.9)
    for rows in (new.drop(columns="g"), new.assign(g=None)):
        assert_allclose(model.predict(rows, groups="none", interval=0.9), expected, rtol=1e-12)
        by = model.predictions(rows, by=True, groups="none", n=50)
        assert_allclose(by["mean"], model.predictions(new, by=True, groups="none", n=50)["mean"])
    drawn = model.posterior_predictive(new.drop(columns="g"), n=20, groups="none")
    assert drawn.shape == (20, 5)
    with pytest.raises(lrvb.InvalidData, match="no column 'g'"):
        model.predict(new.drop(columns="g"))


def test_refused():
    model = fitted("yes", "blocked")
    with pytest.raises(lrvb.InvalidModel, match=r"must be 'all', 'none', or some of .* 1\|g"):
        model.predict(groups=["1|h"])
    with pytest.raises(lrvb.InvalidModel, match="must be 'response' or 'link'"):
        model.predict(scale="logit")
    with pytest.raises(lrvb.InvalidModel, match="no scale but its own"):
        model.predict(scale="link", kind="response")
