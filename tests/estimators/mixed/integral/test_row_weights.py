"""How means follow how often a row counts, of every likelihood: against draws weighted by the new density."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.estimators.mixed.integral.left_out import sample
from lrvb.integrated.choice import choose
from lrvb.integrated.gaussian import Gaussian

G, PER = 8, 5
N = G * PER
RNG = np.random.default_rng(5)
CODES = np.repeat(np.arange(G), PER)
X = RNG.standard_normal(N)
ETA = 0.5 + 0.3 * X + 0.5 * RNG.standard_normal(G)[CODES]
P = 1 / (1 + np.exp(-ETA))
TRIALS = np.tile([3, 5, 7, 9, 11], G)
COUNTS = RNG.poisson(np.exp(ETA))
BURSTS = RNG.poisson(np.exp(ETA) * RNG.gamma(2, 0.5, N))
KEPT = RNG.uniform(size=N) < 0.8
RESPONSES = {
    "gaussian": ETA + 0.5 * RNG.standard_normal(N),
    "poisson": COUNTS,
    "bernoulli": (RNG.uniform(size=N) < P).astype(int),
    "binomial": RNG.binomial(TRIALS, P),
    "negbinomial": BURSTS,
    "zero_inflated_poisson": COUNTS * KEPT,
    "zero_inflated_negbinomial": BURSTS * KEPT,
    "hurdle_poisson": COUNTS * KEPT,
    "hurdle_negbinomial": BURSTS * KEPT,
    "student": ETA + 0.5 * RNG.standard_t(4, N),
    "gamma": RNG.gamma(3, np.exp(ETA) / 3),
    "lognormal": np.exp(ETA + 0.5 * RNG.standard_normal(N)),
    "beta": RNG.beta(6 * P, 6 * (1 - P)),
    "cumulative": 1 + np.digitize(ETA + RNG.logistic(size=N), [-0.5, 1.0]),
}


def test_every_likelihood_is_here():
    """None is left out of the law below."""
    assert set(RESPONSES) == {name.partition("(")[0] for name in lrvb.likelihoods.FAMILIES}


NODES = 61  # of a level's sum: the derivative of a sum over nodes is that of the integral to 1e-9


def summed(statement, weights):
    """The same sums with rows that count so often, and nodes in plenty."""
    rows = statement.rows.weighted(weights)
    if isinstance(statement.inside, Gaussian):
        return Gaussian(rows, list(statement.terms), statement.inside.residual)
    inside = choose(rows, statement.terms).inside
    inside.nodes = NODES
    return inside


@pytest.mark.parametrize("family", RESPONSES)
def test_means_follow_how_often_a_row_counts(family, monkeypatch):
    """∂E[q]/∂w_i by central differences: the same draws under the density in which row i counts 1 ± h times.

    A difference with h = 1e-3 errs by its square. Where β is summed out, E[β | θ] moves as well. Of the draws
    256 are taken, as of many rows.
    """
    monkeypatch.setattr("lrvb.estimators.mixed.integral.left_out.WORK", 1.0)
    data = pd.DataFrame({"y": RESPONSES[family], "x": X, "g": CODES, "n": TRIALS})
    y = "prop(y, n)" if family == "binomial" else "y"
    ours = lrvb.MixedModel(f"{y} ~ x + (1|g)", family).fit(data).posterior_._what_if()
    found, statement = ours.found, ours.found.statement
    at = np.arange(len(ours.estimate.m))
    ones = statement._replace(inside=summed(statement, np.ones(N)))
    slopes = -replace(ours, found=replace(found, statement=ones)).scores(at) / ours.sd
    drawn = sample(found, N)
    T = found.weighted.values[drawn.at]
    base = ones.inside.log_density(drawn.theta)
    for row in (0, 17):
        ends = []
        for h in (1e-3, -1e-3):
            inside = summed(statement, 1 + h * (np.arange(N) == row))
            w = drawn.weights * np.exp(inside.log_density(drawn.theta) - base)
            values = T.copy()
            if isinstance(inside, Gaussian):
                moved = inside.beta(drawn.theta)[0] - ones.inside.beta(drawn.theta)[0]
                values[:, : statement.p] += moved @ found.standard.T.T
            ends.append(w @ values / w.sum())
        slope = (ends[0] - ends[1]) / 2e-3 / ours.sd
        assert_allclose(slopes[row], slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())
