"""How means follow how often a row counts, of every likelihood: against draws weighted by the new density."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.estimators.mixed.integral.left_out import sample
from lrvb.integrated.chain import Chain
from lrvb.integrated.choice import choose
from lrvb.integrated.crossed import Crossed
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.nested import Nested

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


NODES = (
    61  # of a level's sum, in ends found at every point: its derivative is the integral's to 1e-8
)
STEP = 0.2  # of nested sums, in conditional sds: trapezoids err by exp(−2π²/STEP²)
H = 1e-3  # of central differences, which err by its square


def summed(statement, weights):
    """The same sums with rows that count so often, and nodes in plenty."""
    rows = statement.rows.weighted(weights)
    if isinstance(statement.inside, Gaussian):
        return Gaussian(rows, list(statement.terms), statement.inside.residual)
    inside = choose(rows, statement.terms).inside
    assert type(inside) is type(statement.inside)
    if isinstance(inside, Nested | Chain):
        inside.step = STEP
    else:
        (inside.levels if isinstance(inside, Crossed) else inside).nodes = NODES
    return inside


def check_slopes(model, rows):
    """∂E[q]/∂w_i as answered, against central differences: the same draws where row i counts 1 ± h times.

    Those have weights p(y, θ | w)/p(y, θ), and where β is summed out, E[β | θ] moves as well.
    """
    ours = model.posterior_._what_if()
    found, statement = ours.found, ours.found.statement
    slopes = -ours.scores(np.arange(len(ours.estimate.m))) / ours.sd
    drawn = sample(found, np.arange(N), N)
    T = found.weighted.values[drawn.at]
    ones = summed(statement, np.ones(N))
    base = ones.log_density(drawn.theta)
    for row in rows:
        ends = []
        for h in (H, -H):
            inside = summed(statement, 1 + h * (np.arange(N) == row))
            w = drawn.weights * np.exp(inside.log_density(drawn.theta) - base)
            values = T.copy()
            if isinstance(inside, Gaussian):
                moved = inside.beta(drawn.theta)[0] - ones.beta(drawn.theta)[0]
                values[:, : statement.p] += moved @ found.standard.T.T
            ends.append(w @ values / w.sum())
        slope = (ends[0] - ends[1]) / (2 * H) / ours.sd
        assert_allclose(slopes[row], slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


@pytest.fixture
def few_draws(monkeypatch):
    """256 of the draws, as of many rows; nodes so fine, and as many, that none of them is off by more."""
    monkeypatch.setattr("lrvb.integrated.factor_nodes.EACH", 1e-6)
    monkeypatch.setattr("lrvb.integrated.factor_nodes._OUTWARDS", 4.0)
    monkeypatch.setattr("lrvb.integrated.nested_sums._MOST", 30_000)
    monkeypatch.setattr("lrvb.estimators.mixed.integral.left_out.SMOOTHED", 1.0)


@pytest.mark.parametrize("family", RESPONSES)
def test_means_follow_how_often_a_row_counts(family, few_draws):
    """Every likelihood: −∂E[q]/∂w_i is the covariance of q with the row's log density, to 1e-5."""
    data = pd.DataFrame({"y": RESPONSES[family], "x": X, "g": CODES, "n": TRIALS})
    y = "prop(y, n)" if family == "binomial" else "y"
    check_slopes(lrvb.MixedModel(f"{y} ~ x + (1|g)", family).fit(data), (0, 14, 17))


@pytest.mark.parametrize(
    "others", ["(1|half)", "(1|half) + (1|row)", "(1|time)"], ids=["nested", "chain", "crossed"]
)
def test_so_they_do_with_several_factors(others, few_draws):
    """Counts in groups within groups, with an effect of each row, and in crossed groups."""
    data = pd.DataFrame({"y": COUNTS, "x": X, "g": CODES, "row": np.arange(N)})
    data = data.assign(half=CODES * 2 + (data["row"] % PER > 1), time=data["row"] % PER)
    model = lrvb.MixedModel(f"y ~ x + (1|g) + {others}", "poisson").fit(data)
    check_slopes(model, (0, 17))


def test_sums_beyond_their_time_are_those_of_the_fit(monkeypatch):
    """Of many rows more draws are worth more than more nodes: slopes are then to some 1 %."""
    data = pd.DataFrame({"y": COUNTS, "x": X, "g": CODES})
    what_if = lrvb.MixedModel("y ~ x + (1|g)", "poisson").fit(data).posterior_._what_if()
    at = np.arange(2)
    dense = what_if.scores(at)
    draws = len(what_if.found.weights)
    work = draws * (2 * what_if.found.statement.inside.work + N)
    monkeypatch.setattr("lrvb.estimators.mixed.integral.left_out.WORK", work)
    few = what_if.scores(at)
    assert 0 < np.abs(few - dense).max() < 0.02 * np.abs(dense).max()
