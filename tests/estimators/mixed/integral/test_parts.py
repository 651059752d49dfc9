"""Quantiles of mixtures: against distributions that are known, and against joint draws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import gamma, lognorm, norm

import lrvb
from lrvb.estimators.mixed.integral.parts import GRID, Parts, weighted_quantiles

PROB = np.array([0.03, 0.25, 0.5, 0.97])


def cumulated(parts, at):
    """Σ_s w_s P(part s ≤ at) by brute force, of the first mixture."""
    return sum(w * part.cdf(at) for w, part in parts)


def test_normal_parts_are_a_mixture_of_normals():
    rng = np.random.default_rng(0)
    w, mean, sd = rng.dirichlet(np.ones(40)), rng.normal(size=40), rng.uniform(0.5, 2, size=40)
    found = Parts(w, mean[:, None], sd[:, None] ** 2).quantiles(PROB)[0]
    exact = [(a, norm(m, s)) for a, m, s in zip(w, mean, sd, strict=True)]
    # Normal scores are joined by lines over steps h, off by h²/8 of their bend, which over their slope is
    # at most that of the narrowest part alone, 1/sd; and a density is at most 0.4/sd.
    h = np.sqrt(w @ (mean**2 + sd**2) - (w @ mean) ** 2) * (GRID[1] - GRID[0])
    assert_allclose([cumulated(exact, q) for q in found], PROB, atol=h**2 / 8 * 0.4 / 0.5**2)


@pytest.mark.parametrize("side", [1, -1])
def test_a_log_normal_part_is_what_it_is(side):
    """Three moments determine it, and its quantiles and points follow."""
    one = lognorm(0.5, loc=2, scale=1.5)
    mean, variance, skewness = (float(part) for part in one.stats("mvs"))
    parts = Parts(
        np.ones(1),
        np.array([[side * mean]]),
        np.array([[variance]]),
        np.array([[side * skewness * variance**1.5]]),
    )
    exact = side * one.ppf(PROB if side == 1 else 1 - PROB)
    step = np.sqrt(variance) * (GRID[1] - GRID[0])
    assert_allclose(parts.quantiles(PROB)[0], exact, atol=step**2 / 8)
    two = np.array([0.05, 0.95])  # by secants, which end in rounding
    assert_allclose(
        parts.quantiles(two)[0], side * one.ppf(two if side == 1 else 1 - two), rtol=1e-4
    )
    values, weights, _ = parts.points()
    assert_allclose(weighted_quantiles(values, weights, PROB)[0], exact, atol=1e-3)


@pytest.mark.parametrize("counts", [0.5, 1.0, 3.0])
def test_a_logarithm_of_a_gamma_variable_is_nearly_log_normal(counts):
    """What few counts leave of a log rate: its ends to 0.04 sds, where a normal's are off by up to 0.4."""
    log_rate = np.log(gamma(counts).rvs(size=400_000, random_state=1))
    exact = np.log(gamma(counts).ppf([0.05, 0.95]))
    sd = log_rate.std()
    third = ((log_rate - log_rate.mean()) ** 3).mean()
    parts = Parts(np.ones(1), np.full((1, 1), log_rate.mean()), np.full((1, 1), sd**2))
    ends = np.array([0.05, 0.95])
    skew = parts._replace(third=np.full((1, 1), third)).quantiles(ends)[0]
    assert np.abs(skew - exact).max() < 0.04 * sd
    assert np.abs(parts.quantiles(ends)[0] - exact).max() > 2 * np.abs(skew - exact).max()


@pytest.mark.parametrize("family", ["bernoulli", "poisson", "hurdle_poisson", "cumulative"])
def test_an_interval_of_a_mean_holds_its_share_of_joint_draws(family):
    """Of groups with a row or two, and of a new one: skewed, and behind a hurdle through a curve."""
    rng = np.random.default_rng(11)
    g, x = rng.integers(25, size=70), rng.normal(size=70)
    eta = 0.5 * x - 0.5 + 1.2 * rng.normal(size=25)[g]
    y = {
        "bernoulli": (rng.uniform(size=70) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": rng.poisson(np.exp(eta)),
        "hurdle_poisson": rng.poisson(np.exp(eta)),
        "cumulative": 1 + (eta + rng.logistic(size=70) > 0) + (eta + rng.logistic(size=70) > 2),
    }[family]
    model = lrvb.MixedModel("y ~ x + (1|g)", family).fit(
        {"y": y, "x": x, "g": [f"k{k}" for k in g]}
    )
    rows = pd.DataFrame({"x": np.append(x[:20], 0.3), "g": [*(f"k{k}" for k in g[:20]), "another"]})
    with pytest.warns(lrvb.NewLevels):
        table = model.predict(rows, interval=0.9)
    n = 8000
    drawn = model.draws(n, seed=3)
    at = drawn["x"].values[:, None] * rows["x"].to_numpy()
    effect = drawn["1|g"].sel(g=list(rows["g"][:20])).values
    new = drawn["sd[1|g]"].values * np.random.default_rng(4).normal(size=n)
    at = at + np.column_stack([effect, new])
    if family != "cumulative":
        at = at + drawn["Intercept"].values[:, None]
    means = {
        "bernoulli": lambda: 1 / (1 + np.exp(-at)),
        "poisson": lambda: np.exp(at),
        "hurdle_poisson": lambda: (
            (1 - drawn["hurdle"].values[:, None])
            * np.where(at < -30, 1.0, np.exp(at) / -np.expm1(-np.exp(at)))
        ),
        "cumulative": lambda: (
            1 + sum(1 / (1 + np.exp(drawn[f"threshold[{k}]"].values[:, None] - at)) for k in (1, 2))
        ),
    }[family]()
    below, above = (means < table["lower"].to_numpy()), (means > table["upper"].to_numpy())
    # five standard errors of draws, and 1 % for what three moments leave
    assert_allclose(below.mean(0), 0.05, atol=5 * np.sqrt(0.05 * 0.95 / n) + 0.01)
    assert_allclose(above.mean(0), 0.05, atol=5 * np.sqrt(0.05 * 0.95 / n) + 0.01)
