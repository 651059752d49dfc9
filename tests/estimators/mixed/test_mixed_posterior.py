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


def test_levels_that_are_not_there():
    """A fresh model speaks of its random effects, a loaded one of its file."""
    posterior = fitted("slopes").posterior_
    with pytest.raises(lrvb.InvalidModel, match=r"no random effect 'q'; there are: 1\|g, x\|g\.$"):
        posterior.local("q")
    with pytest.raises(lrvb.InvalidData, match="Row 99 does not exist"):
        posterior.local("1|g", rows=[99])
    whole = posterior.local("1|g")
    assert posterior.local("1|g", rows=[2, 0]).identical(whole.isel(g=[2, 0]))


def test_the_fit_is_that_of_the_precisions(tmp_path):
    """The engine saw the precisions alone; their response is a block of the whole one."""
    posterior = fitted("slopes").posterior_
    inner, p = posterior.response, len(fitted("slopes").design_.names)
    assert posterior.fit is inner.fit
    a = len(inner.m)
    assert (
        list(inner.alpha.blocks) == list(posterior.estimate.blocks)[1 : 1 + len(inner.alpha.blocks)]
    )
    assert_allclose(posterior.estimate.Sigma[p : p + a, p : p + a], inner.Sigma, rtol=1e-12)
    assert_allclose(posterior.estimate.V[p : p + a, p : p + a], inner.V, rtol=1e-12)
    assert list(posterior.refined().index[:p]) == fitted("slopes").design_.names
    again = lrvb.load(posterior.save(tmp_path / "posterior", local=False))
    with pytest.raises(lrvb.InvalidModel, match="read from a file, which holds no fit;"):
        _ = again.fit
    weights = np.arange(1.0, p + 1)
    expected = weights @ posterior.cov("beta").to_numpy() @ weights
    assert_allclose(again.of(lambda m: weights @ m.beta.x), expected, rtol=1e-12)
