"""The mixture's Gibbs sampler against NUTS with the labels summed out, same proper priors."""

import numpy as np
import pytest

from lrvb.studies.reference import mixture_gibbs, simulate

pytest.importorskip("numpyro")


def test_gibbs_and_nuts_agree():
    """Means and sds of all fourteen quantities within four Monte Carlo standard errors."""
    from lrvb.studies.reference import nuts_mixture

    rng = np.random.default_rng(5)
    data = simulate.scaled_mixture(rng, 200, K=2, P=2)
    X = data["X"] * [1.0, 1.5] + data["z"][:, None]
    priors = {
        "mean_prior": np.array([0.5, 1.0]),
        "mean_precision_prior": 0.2,
        "wishart_dof_prior": 6.0,
        "wishart_scale_prior": np.array([[0.5, 0.1], [0.1, 0.3]]),
        "weight_concentration_prior": 3.0,
    }
    gibbs = mixture_gibbs.sample(rng, X, data["z"], draws=8000, **priors).summary()
    chain, divergences = nuts_mixture.sample(X, data["z"], seed=6, warmup=300, draws=1500, **priors)
    assert divergences == 0
    nuts = chain.summary()
    assert gibbs["ess"].min() > 2000
    assert nuts["ess"].min() > 500
    for column in ("mean", "sd"):
        error = np.hypot(gibbs[f"{column}_error"], nuts[f"{column}_error"])
        score = (gibbs[column] - nuts[column]) / error
        assert score.abs().max() < 4, score.round(2).to_string()
        assert np.sqrt((score**2).mean()) < 2
