"""ArviZ's tree of a mixed model: its groups, and ArviZ's own questions of them."""

from __future__ import annotations

import arviz
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, poisson

import lrvb

N, DRAWS = 80, 400


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    g, x = rng.integers(0, 8, N), rng.normal(size=N)
    y = rng.poisson(np.exp(0.5 + 0.4 * x + rng.normal(0, 0.6, 8)[g]))
    data = pd.DataFrame({"x": x, "g": [f"g{k}" for k in g], "y": y})
    return lrvb.MixedModel("y ~ x + (1|g)", "poisson").fit(data)


@pytest.fixture(scope="module")
def tree(model):
    return model.to_arviz(n=DRAWS, seed=1)


def test_groups(model, tree):
    """Draws of everything, and rows' densities given the levels that were drawn with them."""
    posterior = tree["posterior"]
    assert posterior["1|g"].shape == (1, DRAWS, 8)
    design = model.design_
    codes = design.factors[0].codes
    eta = (
        posterior["Intercept"].values[0][:, None]
        + posterior["x"].values[0][:, None] * design.X[:, 1]
        + posterior["1|g"].values[0][:, codes]
    )
    found = tree["log_likelihood"]["y"].values[0]
    assert_allclose(found, poisson.logpmf(design.y, np.exp(eta)), rtol=1e-9, atol=1e-9)
    assert tree["posterior_predictive"]["y"].shape == (1, DRAWS, N)
    assert_allclose(tree["observed_data"]["y"].values, design.y)


def test_log_priors_are_those_of_the_table(model, tree):
    priors = model.priors_
    b = tree["posterior"]["x"].values[0]
    assert_allclose(tree["log_prior"]["x"].values[0], norm.logpdf(b, priors.mean[1], priors.sd[1]))
    sd = tree["posterior"]["sd[1|g]"].values[0]
    expected = priors.terms[0].sds[0].log_density(sd)
    assert_allclose(tree["log_prior"]["1|g"].values[0], expected)


def test_arviz_leaves_one_out(model, tree):
    """ArviZ's PSIS of our draws and our own: the same elpd within a few standard errors of either."""
    if hasattr(arviz, "loo"):
        found = arviz.loo(tree, var_name="y")
        own = model.loo(levels="given")
        elpd = getattr(found, "elpd_loo", None) or found.elpd
        assert abs(elpd - own["elpd"].sum()) < 2.0
    else:
        pytest.skip("this ArviZ has no loo")


def test_arviz_plots_the_predictive_check(tree):
    """plot_ppc, which ArviZ 1 calls plot_ppc_dist."""
    pytest.importorskip("matplotlib").use("Agg")
    if hasattr(arviz, "plot_ppc"):
        drawn = arviz.plot_ppc(tree, kind="cumulative", num_pp_samples=5, mean=False)
    else:
        drawn = arviz.plot_ppc_dist(tree, kind="ecdf", num_samples=5, backend="matplotlib")
    assert drawn is not None


def test_the_other_era_takes_the_tree(model, monkeypatch):
    """As a DataTree for arviz-stats, the engine of ArviZ 1."""
    stats = pytest.importorskip("arviz_stats")
    import sys

    monkeypatch.setitem(sys.modules, "arviz", None)
    tree = model.to_arviz(n=DRAWS)
    found = stats.loo(tree, var_name="y")
    assert np.isfinite(found.elpd)
