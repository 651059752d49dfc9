"""Fixed effects and their standard errors under flat priors, against statsmodels' REML."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.studies.reference import random_slope

smf = pytest.importorskip("statsmodels.formula.api")

WEAK = 0.01  # shape of the Gamma priors, and rate in units of the response's variance
FLAT = 1e6  # sd of the fixed effects' prior


def reml(formula, data, group, bars="1"):
    """statsmodels' estimates and standard errors of the fixed effects."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on how its optimiser ended; it is checked below
        fitted = smf.mixedlm(formula, data, groups=data[group], re_formula=bars).fit(reml=True)
    assert fitted.converged
    return fitted.fe_params, fitted.bse_fe


def weak_gamma(y):
    """A precision that may be anything on the scale of the response."""
    return lrvb.prior.Gamma(WEAK, WEAK * np.var(y))


def ours(formula, data, priors):
    """Posterior means and sds of the fixed effects."""
    fixed = {"fixed": lrvb.prior.Normal(0, FLAT)}
    posterior = lrvb.MixedModel(formula, priors=fixed | priors).fit(data).posterior_
    return posterior.mean(), posterior.sd()


@pytest.fixture(scope="module")
def grunfeld():
    """Investment of 11 firms over 20 years."""
    from statsmodels.datasets import grunfeld

    return grunfeld.load_pandas().data


def test_grunfeld(grunfeld):
    """The posterior mean is the GLS estimate averaged over the ratio of the two precisions.

    REML takes that estimate at one ratio. Under these priors the exact posterior (by quadrature)
    is within 0.004 sds of it, and the sds of the two covariates, which vary within firms, within 1 %.
    The intercept's sd hangs on the variance between 11 firms. REML has one value for it; the exact
    posterior, which averages over the precisions, is 11 % wider, and so is ours, whose average over a
    precision known to 45 % leaves an error of second order.
    """
    names = ["Intercept", "value", "capital"]
    estimate, error = reml("invest ~ value + capital", grunfeld, "firm")
    weak = weak_gamma(grunfeld["invest"])
    mean, sd = ours(
        "invest ~ value + capital + (1 | firm)", grunfeld, {"1|firm": weak, "residual": weak}
    )
    assert_allclose((mean[names] - estimate[names]) / error[names], 0, atol=0.01)
    assert_allclose(sd[names[1:]] / error[names[1:]], 1, atol=0.02)
    exact_mean, exact_sd = exact(grunfeld, "invest", names[1:], "firm")
    assert_allclose((mean[names] - exact_mean) / exact_sd, 0, atol=0.01)
    assert_allclose(sd[names] / exact_sd, 1, atol=0.02)
    assert exact_sd[0] > 1.08 * error["Intercept"]


def exact(data, response, covariates, group):
    """The same posterior by quadrature, in units of each column's sd: means and sds, (1 + p,)."""
    scale = np.r_[1.0, data[covariates].std(ddof=0)]
    unit = data[response].std(ddof=0)
    X = np.column_stack([np.ones(len(data)), data[covariates]]) / scale
    prior = {f"{name}_{part}": WEAK for name in ("tau", "nu") for part in ("shape", "rate")}
    posterior = random_slope.exact(
        X, np.ones(len(X)), data[response] / unit, data[group].to_numpy(), beta_var=1e6, **prior
    )
    q = len(scale)
    return posterior.mean.to_numpy()[:q] * unit / scale, posterior.sd.to_numpy()[:q] * unit / scale


def simulated(seed, groups=300, per_group=10):
    """Rows with a correlated intercept and slope in each group, and a covariate of the group."""
    rng = np.random.default_rng(seed)
    g = np.repeat(np.arange(groups), per_group)
    x, w = rng.normal(size=len(g)), rng.normal(size=groups)[g]
    z = rng.multivariate_normal(np.zeros(2), [[0.6, 0.1], [0.1, 0.3]], size=groups)[g]
    y = 2 + x - 0.5 * w + z[:, 0] + 0.8 * rng.normal(size=len(g))
    return pd.DataFrame({"y": y, "sloped": y + z[:, 1] * x, "x": x, "w": w, "g": g})


@pytest.mark.parametrize("seed", [0, 1])
def test_intercepts(seed):
    """300 groups: what the precisions' uncertainty adds to an sd is of order 1/300.

    (By quadrature the exact sds are 0.3 % above REML's, the means within 1e-4 sds.)
    """
    data = simulated(seed)
    estimate, error = reml("y ~ x + w", data, "g")
    weak = weak_gamma(data["y"])
    mean, sd = ours("y ~ x + w + (1 | g)", data, {"1|g": weak, "residual": weak})
    names = list(estimate.index)
    assert_allclose((mean[names] - estimate) / error, 0, atol=0.01)
    assert_allclose(sd[names] / error, 1, atol=0.01)


def test_correlated_slopes():
    """The same for Λ ~ Wishart(3, 10 I), whose density hardly varies where the posterior is."""
    data = simulated(0)
    estimate, error = reml("sloped ~ x + w", data, "g", bars="~x")
    priors = {"g": lrvb.prior.Wishart(3, 10 * np.eye(2)), "residual": weak_gamma(data["sloped"])}
    mean, sd = ours("sloped ~ x + w + (1 + x | g)", data, priors)
    names = list(estimate.index)
    assert_allclose((mean[names] - estimate) / error, 0, atol=0.02)
    assert_allclose(sd[names] / error, 1, atol=0.02)
