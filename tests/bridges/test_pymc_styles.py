"""PyMC models as people write them: one normal mean, stated in many ways, has one posterior."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nbinom, norm

import lrvb

pm = pytest.importorskip("pymc")

Y = np.random.default_rng(0).normal(size=12)


def with_data():
    """Data containers, dims and coordinates, of a table's column."""
    with pm.Model(coords={"row": range(100, 112)}) as model:
        x = pm.Data("x", np.ones(12), dims="row")
        mean = pm.Deterministic("mean", pm.Normal("mu", 0.0, 2.0) * x, dims="row")
        pm.Normal("y", mean, 1.0, observed=pd.DataFrame({"y": Y})["y"], dims="row")
    return model


def with_a_potential():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        pm.Potential("likelihood", -0.5 * ((Y - mu) ** 2).sum())
    return model


def with_flat_priors():
    with pm.Model() as model:
        mu = pm.Flat("mu")
        pm.Normal("prior", mu, 2.0, observed=0.0)
        pm.Normal("y", mu, 1.0, observed=Y)
    return model


def custom():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        pm.CustomDist("y", mu, logp=lambda value, mu: -0.5 * (value - mu) ** 2, observed=Y)
    return model


def observed_afterwards():
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0)
        pm.Normal("y", pm.Normal("mu", a, 2.0), 1.0, shape=12)
    return pm.observe(pm.do(model, {"a": 0.0}), {"y": Y})


@pytest.mark.parametrize(
    "model", [with_data, with_a_potential, with_flat_priors, custom, observed_afterwards]
)
def test_one_posterior_in_many_words(model):
    """N(Σy/P, 1/P) with P = n + 1/4: log p is quadratic, so that linear response is exact."""
    found = lrvb.from_pymc(model()).infer(check=False)
    assert found.mean()["mu"] == pytest.approx(Y.sum() / 12.25, abs=1e-6)
    assert found.sd()["mu"] == pytest.approx(12.25**-0.5, rel=1e-5)
    if model is with_data:
        row = found.to_arviz(n=4).posterior["mean"]["row"]
        assert row.values.tolist() == list(range(100, 112))


def test_a_marginalised_mixture_in_order():
    """Shares of two far components: Beta(1 + 7, 1 + 5), and means in their order, normal."""
    x = np.concatenate([Y[:7] - 40, Y[7:] + 40])
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        ordered = pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0.0, 50.0, shape=2, transform=ordered, initval=[-1.0, 1.0])
        pm.NormalMixture("x", w=w, mu=mu, sigma=1.0, observed=x)
    found = lrvb.from_pymc(model).infer().summary()
    P = np.array([7, 5]) + 1 / 2500
    np.testing.assert_allclose(found.loc["mu[0]":"mu[1]", "sd"], P**-0.5, rtol=0.05)
    exact = np.array([x[:7].sum(), x[7:].sum()]) / P
    np.testing.assert_allclose(found.loc["mu[0]":"mu[1]", "mean"], exact, atol=0.05 * P[1] ** -0.5)
    sd = np.sqrt(8 * 6 / (14**2 * 15))
    assert found.loc["w[0]", "mean"] == pytest.approx(8 / 14, abs=0.05 * sd)
    assert found.loc["w[0]", "sd"] == pytest.approx(sd, rel=0.05)


def test_hurdle_counts():
    """Their normaliser is 1 − P(0) by an incomplete beta function of the dispersion: moments by a grid of it.

    Given counts above zero p(α | y) ∝ p(α) Π NB(y; μ, α) / (1 − NB(0; μ, α)), with μ = 4 known.
    """
    counts = np.array([0, 0, 1, 2, 2, 3, 5, 9, 14, 1, 4, 6])
    with pm.Model() as model:
        alpha = pm.LogNormal("alpha", 0.0, 1.0)
        psi = pm.Beta("psi", 1.0, 1.0)
        pm.HurdleNegativeBinomial("y", psi=psi, mu=4.0, alpha=alpha, observed=counts)
    found = lrvb.from_pymc(model).infer().summary()
    log_alpha = np.linspace(-6, 6, 4001)
    a, y = np.exp(log_alpha)[:, None], counts[counts > 0]
    log_p = (nbinom.logpmf(y, a, a / (a + 4)) - np.log1p(-nbinom.pmf(0, a, a / (a + 4)))).sum(
        axis=1
    )
    log_p += norm.logpdf(log_alpha)
    weights = np.exp(log_p - log_p.max())
    mean = np.average(a[:, 0], weights=weights)
    sd = np.sqrt(np.average((a[:, 0] - mean) ** 2, weights=weights))
    assert found.loc["alpha", "mean"] == pytest.approx(mean, abs=0.1 * sd)
    assert found.loc["alpha", "sd"] == pytest.approx(sd, rel=0.1)
    assert found.loc["psi", "mean"] == pytest.approx(11 / 14, abs=0.005)
    assert found.loc["psi", "verdict"] == "trust"


def missing_counts():
    with pm.Model() as model:
        rate = pm.math.exp(pm.Normal("mu", 0.0, 1.0))
        pm.Poisson("y", rate, observed=np.ma.masked_invalid([1.0, np.nan, 4.0]))
    return model


def missing_predictor():
    with pm.Model() as model:
        x = np.where(np.arange(12) == 2, np.nan, 1.0)
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0) * x, 1.0, observed=Y)
    return model


def foreign():
    with pm.Model() as model:
        grid = np.linspace(-4, 4, 200)
        pm.Interpolated("mu", grid, np.exp(-(grid**2) / 2))
    return model


@pytest.mark.filterwarnings("ignore:Data in y contains missing values")  # PyMC's word to the user
@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (missing_counts, "'y' has missing values, which are discrete.*leave these rows out"),
        (missing_predictor, r"It is so of 'y\[2\]'.*depends on is missing"),
        (foreign, "No JAX conversion.*State that part with functions of pytensor"),
    ],
)
def test_what_cannot_be_is_told(model, sentence):
    """By variable or place, with the remedy."""
    with pytest.raises(lrvb.InvalidModel, match=sentence):
        lrvb.from_pymc(model()).infer()
