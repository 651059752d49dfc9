"""Replicated responses and residuals: their laws under the model that made the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

import lrvb
from lrvb.errors import InvalidModel

N, DRAWS = 160, 1000


def frame():
    rng = np.random.default_rng(11)
    g, x = rng.integers(0, 8, N), rng.normal(size=N)
    eta = 0.4 + 0.5 * x + rng.normal(0, 0.8, 8)[g]
    trials = rng.integers(1, 9, N)
    return pd.DataFrame(
        {
            "x": x,
            "g": [f"g{k}" for k in g],
            "z": eta + rng.normal(0, 0.5, N),
            "count": rng.poisson(np.exp(eta)),
            "successes": rng.binomial(trials, 1 / (1 + np.exp(-eta))),
            "trials": trials,
        }
    )


DATA = frame()
FITS = {
    "gaussian": ("z ~ x + (1|g)", "gaussian"),
    "poisson": ("count ~ x + (1|g)", "poisson"),
    "binomial": ("prop(successes, trials) ~ x + (1|g)", "binomial"),
}


@pytest.fixture(scope="module", params=FITS)
def model(request):
    return lrvb.MixedModel(*FITS[request.param]).fit(DATA)


def test_replicates_have_the_mean_and_sd_of_a_new_observation(model):
    """`predict(kind="response")` has them from sums; five standard errors of the draws."""
    drawn = model.posterior_predictive(n=DRAWS, seed=1)
    exact = model.predict(kind="response")
    assert drawn.dims == ("draw", "row")
    error = exact["sd"].to_numpy() / np.sqrt(DRAWS)
    assert np.all(np.abs(drawn.values.mean(0) - exact["mean"].to_numpy()) < 5 * error)
    assert np.all(np.abs(drawn.values.std(0) / exact["sd"].to_numpy() - 1) < 10 / np.sqrt(DRAWS))


def test_quantile_residuals_of_the_model_are_standard_normal(model):
    """The rows were made by the model, or by one within it."""
    r = model.residuals("quantile", seed=2)
    assert kstest(r, "norm").pvalue > 1e-3
    assert r.index.equals(DATA.index)


def test_pearson_residuals_are_responses_in_sds(model):
    """The square of that sd is the mean of Var(y | η) over the same draws of η."""
    response, pearson = model.residuals("response"), model.residuals("pearson")
    draws = model.draws()
    eta = (draws["Intercept"] + draws["x"] * DATA["x"].to_xarray()).to_numpy()
    eta += draws["1|g"].sel(g=DATA["g"].to_list()).to_numpy()
    p = 1 / (1 + np.exp(-eta))
    variance = {
        "gaussian": lambda: draws["sd[residual]"].to_numpy()[:, None] ** 2 + 0 * eta,
        "poisson": lambda: np.exp(eta),
        "binomial": lambda: DATA["trials"].to_numpy() * p * (1 - p),
    }[model.family]()
    np.testing.assert_allclose(response / pearson, np.sqrt(variance.mean(axis=0)), rtol=1e-9)
    assert abs(pearson.std() - 1) < 0.25
    assert abs(response.mean()) < 5 * response.std() / np.sqrt(N)


def test_replicates_with_new_levels_vary_more(model):
    """Means of one group's rows: the spread of a new level beside that of a known one."""
    known, new = (model.simulate(400, seed=3, new_levels=new) for new in (False, True))
    here = (DATA["g"] == "g3").to_numpy()
    assert known.shape == (N, 400)
    assert new[here].mean().std() > 1.5 * known[here].mean().std()


def test_the_same_seed_gives_the_same_replicates(model):
    assert model.simulate(2, seed=5).equals(model.simulate(2, seed=5))
    assert not model.simulate(1, seed=5).equals(model.simulate(1, seed=6))


def test_bad_requests_are_refused(model):
    with pytest.raises(InvalidModel, match="kind='deviance'"):
        model.residuals("deviance")
    with pytest.raises(InvalidModel, match="n=0"):
        model.simulate(0)
    if model.design_.formula.trials:
        with pytest.raises(InvalidModel, match="trials"):
            model.posterior_predictive(DATA[["x", "g"]])
