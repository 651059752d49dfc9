"""Overdispersed counts: their shape is integrated beside the sds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

import lrvb


def counts(n: int = 120, groups: int = 10, shape: float = 1.5, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    g, x = rng.integers(0, groups, n), rng.normal(size=n)
    rate = np.exp(0.8 + 0.5 * x + 0.6 * rng.normal(size=groups)[g])
    y = rng.poisson(rate * rng.gamma(shape, 1 / shape, n))
    return pd.DataFrame({"y": y, "x": x, "g": g})


@pytest.fixture(scope="module")
def model() -> lrvb.MixedModel:
    return lrvb.MixedModel("y ~ x + (1|g)", "negbinomial").fit(counts())


def test_against_sums_on_a_grid():
    """Intercept, sd and shape on a grid, each level summed: three dimensions and no draws."""
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(6), 8)
    y = rng.poisson(np.exp(1 + 0.5 * rng.normal(size=6)[g]) * rng.gamma(2.0, 0.5, 48))
    priors = {
        "Intercept": lrvb.prior.Normal(0, 2),
        "1|g": lrvb.prior.HalfNormal(1.0),
        "shape": lrvb.prior.Exponential(0.3),
    }
    model = lrvb.MixedModel("y ~ 1 + (1|g)", "negbinomial", priors).fit({"y": y, "g": g})
    beta = np.linspace(-0.8, 2.8, 25)
    sd, shape = np.exp(np.linspace(-4, 1.2, 23)), np.exp(np.linspace(-1.4, 3.6, 23))
    z, w = np.polynomial.hermite_e.hermegauss(25)
    B, S, K = np.meshgrid(beta, sd, shape, indexing="ij")
    log_p = (
        stats.norm.logpdf(B, 0, 2) + stats.halfnorm.logpdf(S) + stats.expon.logpdf(K, 0, 1 / 0.3)
    )
    log_p += np.log(S) + np.log(K)  # the grid is even in their logarithms
    for k in range(6):
        mean = np.exp(B[..., None] + S[..., None] * z)
        rows = sum(
            stats.nbinom.logpmf(v, K[..., None], K[..., None] / (K[..., None] + mean))
            for v in y[g == k]
        )
        log_p += logsumexp(rows + np.log(w / w.sum()), axis=-1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    for name, value in (("Intercept", B), ("sd[1|g]", S), ("shape", K)):
        exact = float((p * value).sum())
        spread = float(np.sqrt((p * value**2).sum() - exact**2))
        # 2048 draws or more: 5 Monte Carlo errors of a mean, and of an sd
        assert abs(model.posterior_.mean(name)[name] - exact) < 0.1 * spread
        assert abs(model.posterior_.sd(name)[name] / spread - 1) < 0.1


def test_the_shape_has_a_place_of_its_own(model):
    table = model.summary()
    assert table.loc["shape", "lower"] < 1.5 < table.loc["shape", "upper"]
    assert "Parameters of the response" in repr(table)
    assert model.priors_.table().loc["shape", "of"] == "dispersion"
    assert "shape.scale" in set(model.posterior_.prior_sensitivity()["hyperparameter"])
    assert model.posterior_.draws(10)["shape"].shape == (10,)


def test_new_counts_are_as_spread_as_they_were(model):
    """Nine tenths of as many new rows, drawn by the same rule, are inside."""
    new = counts(seed=0)
    rng = np.random.default_rng(9)
    table = model.predict(new, interval=0.9, kind="response")
    mean = model.predict(new)["mean"].to_numpy()
    again = rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, len(new)))
    inside = (again >= table["lower"]) & (again <= table["upper"])
    assert 0.85 < inside.mean() <= 1
    assert (table["upper"] == np.floor(table["upper"])).all()


def test_many_equal_counts_are_poisson_ones():
    """Without overdispersion the shape is large, and coefficients are those of Poisson's."""
    rng = np.random.default_rng(1)
    g = rng.integers(0, 8, 400)
    y = rng.poisson(np.exp(1 + 0.3 * rng.normal(size=8)[g]))
    data = {"y": y, "g": g}
    ours, poisson = (
        lrvb.MixedModel("y ~ 1 + (1|g)", family).fit(data) for family in ("negbinomial", "poisson")
    )
    assert ours.posterior_.mean("shape")["shape"] > 10
    sd = poisson.posterior_.sd("Intercept")["Intercept"]
    gap = (ours.posterior_.mean("Intercept") - poisson.posterior_.mean("Intercept"))["Intercept"]
    assert abs(gap) < 0.1 * sd
    assert_allclose(ours.posterior_.sd("Intercept"), sd, rtol=0.1)
    assert poisson.log_evidence_ > ours.log_evidence_


def test_refused():
    with pytest.raises(lrvb.InvalidModel, match="no variational fit"):
        lrvb.MixedModel("y ~ x + (1|g)", "negbinomial", factorization="variational")
    gamma = {"shape": lrvb.prior.Gamma(1, 1)}
    with pytest.raises(lrvb.InvalidModel, match="a parameter of the response, which takes"):
        lrvb.MixedModel("y ~ x + (1|g)", "negbinomial", gamma).fit(counts())
    with pytest.raises(lrvb.InvalidData, match="is not a whole number"):
        lrvb.MixedModel("y ~ x + (1|g)", "negbinomial").fit(counts().assign(y=0.5))
