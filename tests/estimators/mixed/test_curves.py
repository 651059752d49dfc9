"""Fitted smooths: against dense algebra and quadrature, and what is asked of them."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

import lrvb


def waves(n=120, seed=1):
    """A wave in x, levels, and one response a family."""
    rng = np.random.default_rng(seed)
    x, k = rng.uniform(0, 6, n), rng.integers(0, 8, n)
    f = np.sin(1.5 * x)
    z = rng.normal(size=8) * 0.4
    return pd.DataFrame(
        {
            "x": x,
            "g": [f"g{j}" for j in k],
            "c": np.where(rng.random(n) < 0.5, "a", "b"),
            "y": f + z[k] + 0.5 * rng.normal(size=n),
            "count": rng.poisson(np.exp(1.0 + f + z[k])),
            "f": f,
        }
    )


@functools.cache
def fitted(formula, family):
    return lrvb.MixedModel(formula, family).fit(waves())


def test_a_gaussian_smooth_agrees_with_quadrature():
    """Over log sd and log σ on a grid, coefficients by ridge regression at each point."""
    model = fitted("y ~ s(x, k=7)", "gaussian")
    design, priors = model.design_, model.priors_
    X, y = design.X, design.y
    bent, proper = design.bent, ~design.bent
    at = np.linspace(0.5, 5.5, 4)
    C = np.column_stack([np.zeros(4), design.smooths[0].at(at)])
    smooth, residual = priors.smooths[0][1], priors.residual
    weights, means, squares = [], [], []
    for a in np.linspace(-2.0, 3.0, 41):
        for s in np.linspace(-1.2, -0.2, 31):
            P = np.zeros(X.shape[1])
            P[proper], P[bent] = priors.sd[proper] ** -2.0, np.exp(-2 * a)
            S = X.T @ X / np.exp(2 * s) + np.diag(P)
            V = np.linalg.inv(S)
            b = V @ (X.T @ y / np.exp(2 * s) + P * priors.mean)
            log = -len(y) * s - ((y - X @ b) ** 2).sum() / np.exp(2 * s) / 2
            log += -((b - priors.mean) ** 2 * P).sum() / 2 + np.log(P).sum() / 2
            log += -np.linalg.slogdet(S)[1] / 2 + a + s
            log += smooth.log_density(np.exp(a)) + residual.log_density(np.exp(s))
            weights.append(log)
            means.append(np.r_[C @ b, np.exp(a)])
            squares.append(np.r_[np.diag(C @ V @ C.T), 0.0] + means[-1] ** 2)
    w = np.exp(np.array(weights) - max(weights))
    w /= w.sum()
    mean = w @ np.array(means)
    sd = np.sqrt(w @ np.array(squares) - mean**2)
    curve = model.smooth("s(x)", at=at)
    np.testing.assert_allclose(curve["mean"], mean[:4], atol=0.03 * sd[:4].min())
    np.testing.assert_allclose(curve["sd"], sd[:4], rtol=0.03)
    own = model.summary().loc["sd[s(x)]"]
    assert abs(own["mean"] - mean[4]) < 0.05 * sd[4]
    assert abs(own["sd"] / sd[4] - 1) < 0.1


@pytest.mark.parametrize(
    ("formula", "family"), [("y ~ s(x) + (1|g)", "gaussian"), ("count ~ s(x) + (1|g)", "poisson")]
)
def test_the_wave_is_found(formula, family):
    """The band holds the curve that rows were drawn from, but for its mean, nearly everywhere."""
    model = fitted(formula, family)
    data = waves()
    assert (model.summary()["verdict"] == "trust").all()
    curve = model.smooth("s(x)", prob=0.99)
    f = np.sin(1.5 * curve["x"]) - data["f"].mean()
    assert ((curve["lower"] < f) & (f < curve["upper"])).mean() > 0.9
    assert curve["sd"].max() < 0.5


def test_a_curve_is_what_predictions_have_of_x():
    """The mean of η at x without groups, less the intercept."""
    model = fitted("count ~ s(x) + (1|g)", "poisson")
    at = np.array([1.0, 2.0, 4.0])
    rows = model.predict(pd.DataFrame({"x": at, "g": "g1"}), groups="none", scale="link")
    curve = model.smooth("s(x)", at=at)
    intercept = model.posterior_.mean()["Intercept"]
    np.testing.assert_allclose(curve["mean"] + intercept, rows["mean"], rtol=1e-2)
    draws = model.draws(50, 0)
    assert np.isfinite(draws["sd[s(x)]"]).all()


def test_one_curve_for_every_level():
    """`by` adds a column, and one sd for each."""
    model = fitted("y ~ c + s(x, by=c, k=5)", "gaussian")
    table = model.smooth("s(x, by=c)", at=[1.0, 2.0])
    assert list(table["c"]) == ["a", "a", "b", "b"]
    one = model.smooth("s(x, by=c)[b]", at=[1.0, 2.0])
    pd.testing.assert_frame_equal(one, table.iloc[2:].reset_index(drop=True))
    assert {"sd[s(x, by=c)[a]]", "sd[s(x, by=c)[b]]"} <= set(model.summary().index)


def test_a_prior_by_name():
    """`sd[s(x)]` or `s(x)`; a small one flattens the curve."""
    tight = {"s(x)": lrvb.prior.HalfNormal(0.01)}
    model = lrvb.MixedModel("y ~ s(x, k=5)", priors=tight).fit(waves())
    assert model.summary().loc["sd[s(x)]", "mean"] < 0.03
    assert model.priors_.table().loc["s(x)", "prior"] == "HalfNormal(scale=0.01)"
    bends = np.diff(model.smooth("s(x)", at=[1.0, 2.0, 3.0])["mean"], 2)
    assert abs(bends[0]) < 0.05
    with pytest.raises(lrvb.LrvbError, match=r"valid keys: .*'s\(x\)'"):
        lrvb.MixedModel("y ~ s(x)", priors={"nothing": tight["s(x)"]}).fit(waves())


def test_a_figure_of_a_smooth():
    plt = pytest.importorskip("matplotlib.pyplot")
    model = fitted("y ~ c + s(x, by=c, k=5)", "gaussian")
    ax = lrvb.plot.smooth(model, "s(x, by=c)")
    assert ax.get_xlabel() == "x"
    assert len(ax.get_legend().get_texts()) == 2
    plt.close(ax.figure)


def test_what_has_no_smooth():
    model = fitted("y ~ c + s(x, by=c, k=5)", "gaussian")
    with pytest.raises(lrvb.LrvbError, match=r"no smooth 's\(z\)'; there are: s\(x, by=c\)"):
        model.smooth("s(z)")
    with pytest.raises(lrvb.LrvbError, match=r"at=.* must be finite numbers"):
        model.smooth("s(x, by=c)", at=[np.nan])
    with pytest.raises(lrvb.LrvbError, match="has no variational fit"):
        lrvb.MixedModel("y ~ s(x) + (1|g)", factorization="mean_field").fit(waves())
    with pytest.raises(lrvb.LrvbError, match="structures of 58 coefficients cannot be drawn"):
        lrvb.MixedModel("count ~ s(x, k=60)", "poisson").fit(waves())
