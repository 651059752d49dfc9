"""The posterior of a mixed model is one like any other: files, rows of levels, ArviZ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from mixed_fits import fitted, frame


@pytest.mark.parametrize("name", ["slopes", "rows"])
def test_saved_and_loaded(name, tmp_path):
    """Summary, draws and every level's effect come back as they were."""
    posterior = fitted(name).posterior_
    again = lrvb.load(posterior.save(tmp_path / "posterior.npz"))
    pd.testing.assert_frame_equal(again.summary(), posterior.summary())
    for term in fitted(name).ranef().index.unique("term"):
        assert again.local(term).equals(posterior.local(term))
    for block, values in posterior.draws(50, seed=1).items():
        assert_allclose(again.draws(50, seed=1)[block], values)
    slim = lrvb.load(posterior.save(tmp_path / "slim.npz", local=False))
    with pytest.raises(lrvb.InvalidModel):
        slim.local("1|g")


def test_arviz_knows_the_names():
    """Draws of the coefficients carry the names of the fixed effects; the response is there."""
    model = fitted("slopes")
    tree = model.posterior_.to_arviz(n=200, seed=3)
    drawn = tree["posterior"]["beta"]
    names = [str(name) for name in drawn["beta_dim_0"].values]
    assert names == model.design_.names
    x = drawn.sel(beta_dim_0="x").values
    assert abs(x.mean() - model.summary().loc["x", "mean"]) < 5 * x.std() / np.sqrt(200)
    assert_allclose(tree["observed_data"]["y"], frame().y)


def test_effects_and_their_covariances():
    """`local` has the levels as coordinates, and the covariance with every named quantity."""
    model = fitted("slopes")
    dataset = model.posterior_.local("x|g")
    assert list(dataset["g"].values) == sorted(frame().g.unique())
    assert list(dataset["quantity"].values) == model.posterior_.names
    assert_allclose(dataset["sd"], model.ranef("x|g")["sd"])
