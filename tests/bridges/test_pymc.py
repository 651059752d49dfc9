"""PyMC and Bambi models through `lrvb.from_pymc`, on PyMC itself."""

from __future__ import annotations

import os

import jax
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import lrvb

pm = pytest.importorskip("pymc")

X = np.random.default_rng(0).normal(size=(40, 2)) @ np.array([[1.0, 0.95], [0.0, 0.3]])
Y = X @ [1.0, -0.5] + 0.5 * np.random.default_rng(1).normal(size=40)


@pytest.fixture(scope="module")
def regression() -> lrvb.Posterior:
    with pm.Model(coords={"predictor": ["age", "dose"]}) as model:
        beta = pm.Normal("beta", 0.0, 1.0, dims="predictor")
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Deterministic("ratio", beta[0] / sigma)
        pm.Normal("y", pm.math.dot(X, beta), sigma, observed=Y)
    return lrvb.from_pymc(model).infer()


def test_a_regression(regression):
    """Given σ the coefficients are normal; σ is integrated on a grid."""
    sigma = np.linspace(0.2, 1.2, 2001)
    log_p, means, squares = [], [], []
    for s in sigma:
        P = X.T @ X / s**2 + np.eye(2)
        mean = np.linalg.solve(P, X.T @ Y / s**2)
        fit = -0.5 * (Y @ Y / s**2 - mean @ P @ mean) - 0.5 * np.linalg.slogdet(P)[1]
        log_p.append(fit - len(Y) * np.log(s) - 0.5 * s**2)
        means.append(mean)
        squares.append(np.linalg.inv(P).diagonal() + mean**2)
    w = np.exp(np.array(log_p) - max(log_p))
    w /= w.sum()
    mean = np.append(w @ means, w @ sigma)
    sd = np.sqrt(np.append(w @ squares, w @ sigma**2) - mean**2)
    found = regression.summary().loc[["beta[0]", "beta[1]", "sigma"]]
    assert (np.abs(found["mean"] - mean) / sd < 0.02).all()
    assert (np.abs(np.log(found["sd"] / sd)) < 0.03).all()
    assert (regression.summary()["verdict"] == "trust").all()
    assert regression.names == ["beta[0]", "beta[1]", "sigma", "ratio"]


def test_arviz_has_dims_and_coords(regression, tmp_path):
    """As the model states them, also from a file."""
    for posterior in (regression, lrvb.load(regression.save(tmp_path / "posterior.npz"))):
        beta = posterior.to_arviz(n=20).posterior["beta"]
        assert beta.dims == ("chain", "draw", "predictor")
        assert beta["predictor"].values.tolist() == ["age", "dose"]
    np.testing.assert_allclose(regression.to_arviz(n=20).observed_data["y"], Y)


def test_missing_data_are_imputed():
    """PyMC makes them variables; what was observed is a constant, and as sure as the rest."""
    y = np.array([0.4, np.nan, 1.3656351, -0.7, 2.1])
    with pm.Model(coords={"day": list("abcde")}) as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu, 1.0, observed=y, dims="day")
    posterior = lrvb.from_pymc(model).infer()
    found = posterior.summary()
    mean = np.nansum(y) / 5  # of μ, and of what is missing; exact, as log p is quadratic
    np.testing.assert_allclose(found.loc[["mu", "y[1]"], "mean"], mean, atol=1e-8)
    np.testing.assert_allclose(found.loc[["mu", "y[1]"], "sd"], np.sqrt([0.2, 1.2]), rtol=1e-6)
    np.testing.assert_array_equal(found.loc[["y[0]", "y[2]"], "sd"], 0.0)
    assert (found["verdict"] == "trust").all()


@pytest.mark.parametrize("contained", [False, True])
def test_observed_data_have_dims(contained):
    """Those that the model states, of an array and of a pm.Data."""
    with pm.Model(coords={"day": list("abcde")}) as model:
        y = pm.Data("given", np.arange(5.0)) if contained else np.arange(5.0)
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0), 1.0, observed=y, dims="day")
    observed = lrvb.from_pymc(model).infer().to_arviz(n=5).observed_data
    assert observed["y"].dims == ("day",)
    np.testing.assert_array_equal(observed["y"], np.arange(5.0))
    assert observed["day"].values.tolist() == list("abcde")


def test_the_users_precision_is_left_alone(regression):
    """PyTensor's JAX backend changes JAX's setting when it is imported; it is set back."""
    assert not jax.config.read("jax_enable_x64")
    assert "device_count" not in os.environ.get("XLA_FLAGS", "")
    assert jax.device_count() == 1


def test_censored_data():
    """A mean of values known up to ±1 by quadrature; PyTensor's own JAX has no erfcx for their tails."""
    seen = np.clip(2 * Y, -1.0, 1.0)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        pm.Censored("y", pm.Normal.dist(mu, 2.0), lower=-1.0, upper=1.0, observed=seen)
    found = lrvb.from_pymc(model).infer(check=False)
    grid = np.linspace(-6, 6, 4001)
    log_p = norm.logpdf(grid, 0, 5)
    for y in seen:
        low, high = norm.logcdf(-1, grid, 2), norm.logsf(1, grid, 2)
        log_p += low if y == -1 else high if y == 1 else norm.logpdf(y, grid, 2)
    p = np.exp(log_p - log_p.max())
    mean = p @ grid / p.sum()
    sd = np.sqrt(p @ (grid - mean) ** 2 / p.sum())
    assert found.mean()["mu"] == pytest.approx(mean, abs=0.01 * sd)
    assert found.sd()["mu"] == pytest.approx(sd, rel=0.01)


def test_sentences():
    with pm.Model() as model:
        pm.Bernoulli("z", 0.5)
    with pytest.raises(lrvb.InvalidModel, match="'z' is discrete"):
        lrvb.from_pymc(model)
    with pm.Model() as model:
        few = pm.Minibatch(Y, batch_size=10)
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0), 1.0, observed=few, total_size=len(Y))
    with pytest.raises(lrvb.InvalidModel, match=r"draws random numbers, as with pm\.Minibatch"):
        lrvb.from_pymc(model)
    with pytest.raises(lrvb.InvalidModel, match="no free variables"):
        lrvb.from_pymc(pm.Model())
    with pytest.raises(lrvb.InvalidModel, match=r"must be a pymc\.Model"):
        lrvb.from_pymc(3)


def test_bambi():
    """A Bambi model is a PyMC model: y ~ x + (1|g), against our own mixed model's kind of answer."""
    bambi = pytest.importorskip("bambi")
    rng = np.random.default_rng(0)
    g = rng.integers(6, size=90)
    x = rng.normal(size=90)
    y = 1 + 0.5 * x + 0.7 * rng.normal(size=6)[g] + 0.5 * rng.normal(size=90)
    model = bambi.Model("y ~ x + (1|g)", pd.DataFrame({"x": x, "g": g.astype(str), "y": y}))
    model.build()
    posterior = lrvb.from_pymc(model.backend.model).infer()
    summary = posterior.summary()
    assert abs(summary.loc["x", "mean"] - 0.5) < 4 * summary.loc["x", "sd"]
    assert summary.loc["x", "sd"] == pytest.approx(0.5 / np.sqrt(90), rel=0.25)
    assert summary.loc["x", "verdict"] == "trust"
    assert posterior.to_arviz(n=10).posterior["1|g"].dims[2:] == ("g__factor_dim",)
    with pytest.raises(lrvb.InvalidModel, match=r"model\.backend\.model"):
        lrvb.from_pymc(model)


def test_powers_of_the_prior_by_variables(regression):
    """β shrinks as its prior's power grows; σ's prior is a site of its own."""
    table = regression.prior_sensitivity("beta").set_index(["hyperparameter", "quantity"])
    assert {"log2 power of beta's prior", "log2 power of sigma's prior"} < set(
        table.index.get_level_values(0)
    )
    for name, mean in regression.mean("beta").items():
        assert table.loc[("log2 power of beta's prior", name), "d_mean"] * mean < 0
