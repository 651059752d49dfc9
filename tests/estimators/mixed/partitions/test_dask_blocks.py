"""Gaussian blocks and chains of nested factors on Dask: as in memory, and the rows stay where they are."""

from __future__ import annotations

import os
import signal
from itertools import pairwise

import dask
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.bridges.dask import DaskPartitions
from lrvb.integrated.block.scattered import ScatteredLayout
from lrvb.integrated.importance import resampled
from lrvb.integrated.scattered_chain import ScatteredChain

pytestmark = pytest.mark.filterwarnings("error::lrvb.RowsGathered")
NUMBERS = ["mean", "sd", "mfvb_sd", "lower", "upper"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """As of many rows."""
    monkeypatch.setattr("lrvb.estimators.mixed.partitions.reading.FEW", 100)


def table(n=1500, first=70, second=55, third=9, seed=0):
    """Two crossed factors of many levels, one of few, and classes within a group within a school."""
    rng = np.random.default_rng(seed)
    g, h, k = (rng.integers(levels, size=n) for levels in (first, second, third))
    x, w, o = rng.normal(size=n), rng.normal(size=n), 0.3 * rng.normal(size=n)
    level, slope = 0.6 * rng.normal(size=first), 0.3 * rng.normal(size=first)
    eta = 0.2 + 0.4 * x + level[g] + slope[g] * x + 0.4 * rng.normal(size=second)[h]
    eta = eta + 0.3 * rng.normal(size=third)[k]
    trials = rng.integers(1, 4, n)
    return pd.DataFrame(
        {
            "n": rng.poisson(np.exp(eta)),
            "m": rng.binomial(trials, 1 / (1 + np.exp(-eta))),
            "one": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
            "nb": rng.poisson(np.exp(eta) * rng.gamma(2.0, size=n) / 2),
            "z": rng.poisson(np.exp(eta)) * (rng.random(n) < 0.8),
            "real": 3 + 2 * eta + rng.standard_t(4, size=n),
            "grade": 1 + np.digitize(eta + rng.logistic(size=n), [-1.0, 0.5, 1.5]),
            "trials": trials,
            "x": x,
            "w": w,
            "o": o,
            "g": [f"level {i}" for i in g],
            "h": h,
            "k": pd.Categorical(k.astype(str)),
            "area": g // 10,
            "class": g * second + h,
        }
    )


def scattered(data):
    """Rows in another order, in four partitions of which one has none."""
    mixed = data.sample(frac=1.0, random_state=0)
    ends = 0, 100, 100, 350, len(mixed)
    pieces = [mixed.iloc[a:b] for a, b in pairwise(ends)]
    return dd.from_delayed([dask.delayed(piece) for piece in pieces], meta=mixed.iloc[:0])


def agree(here, there, atol=1e-8):
    A, B = here.summary(), there.summary()
    assert_allclose(B[NUMBERS].div(A.sd, axis=0), A[NUMBERS].div(A.sd, axis=0), rtol=0, atol=atol)
    assert list(A.verdict) == list(B.verdict)
    # draws that lie so far apart, in sds
    assert_allclose(there.log_evidence_, here.log_evidence_, rtol=0, atol=atol)
    ours, theirs = here.ranef(), there.ranef()
    assert ours.index.equals(theirs.index)
    for name in NUMBERS:
        assert_allclose(theirs[name], ours[name], rtol=0, atol=atol)


def both(formula, family, data):
    """The fit in memory, and that in partitions, which does not gather: a warning would be an error."""
    with dask.config.set(scheduler="synchronous"):
        there = lrvb.MixedModel(formula, family).fit(scattered(data))
    return lrvb.MixedModel(formula, family).fit(data), there


def rows_stay(model):
    return isinstance(model._integrated.statement.inside.layout, ScatteredLayout)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("n ~ x + (1|g) + (1|h)", "poisson"),
        ("prop(m, trials) ~ x + offset(o) + (1|g) + (1|h) + (1|k)", "binomial"),
        ("nb ~ x + (x|g) + (1|h)", "negbinomial"),
    ],
    ids=["crossed", "three", "slopes"],
)
def test_a_block_is_that_of_rows_in_memory(formula, family):
    data = table(n=800)
    here, there = both(formula, family, data)
    assert rows_stay(there)
    agree(here, there)
    new = data.iloc[:3].assign(g=["level 1", "new", "level 2"], h=[7, 8, 999])
    with pytest.warns(lrvb.errors.NewLevels):
        ours, theirs = (model.predict(new, interval=0.9) for model in (here, there))
    assert_allclose(theirs, ours, rtol=1e-8)
    with pytest.raises(lrvb.InvalidData, match="in Dask's partitions"):
        there.predict()


@pytest.mark.parametrize(
    ("response", "family"),
    [("z", "zero_inflated_poisson"), ("real", "student"), ("grade", "cumulative")],
)
def test_a_block_of_other_responses(response, family):
    here, there = both(f"{response} ~ x + (1|g) + (1|h)", family, table(n=800, seed=4))
    assert rows_stay(there)
    agree(here, there)


def test_three_effects_a_level():
    here, there = both("n ~ x + w + (x + w|k)", "poisson", table(n=200, third=10))
    assert rows_stay(there)
    agree(here, there)


@pytest.mark.parametrize("matrix_free", [False, True])
def test_levels_that_stand_for_all_are_the_same_levels(matrix_free, monkeypatch):
    """Of many rows some levels have sums of their own; of many levels fixed signs stand for an inverse."""
    monkeypatch.setattr("lrvb.integrated.block.layout.MANY", 300)
    monkeypatch.setattr("lrvb.integrated.block.layout.FEWEST", 24)
    if matrix_free:
        monkeypatch.setattr("lrvb.integrated.block.precision.LARGEST", 0)
        monkeypatch.setattr("lrvb.integrated.block.precision.PAIRS", 0.0)
    here, there = both("one ~ x + (1|g) + (1|h) + (1|k)", "bernoulli", table(seed=1))
    assert not there._integrated.statement.inside.layout.complete
    agree(here, there)
    fit = there._integrated
    theta = fit.theta[resampled(fit.weights, 400)]
    drawn = fit.statement.inside.sample(theta, np.random.default_rng(0)).effects
    for effects, known in zip(drawn, fit.effects, strict=True):
        # five standard errors, of 70 levels at once
        assert np.all(np.abs(effects.mean(0) - known.mean) < 5 * known.sd / np.sqrt(400))
        assert_allclose(effects.std(0), known.sd, rtol=0.25)


@pytest.mark.parametrize(
    "formula",
    ["one ~ x + (1|k) + (1|h)", "one ~ x + (1|area) + (1|g)", "one ~ x + (1|area/g/class)"],
    ids=["crossed", "nested", "chain"],
)
def test_a_block_stands_for_sums_that_take_too_long(formula, monkeypatch):
    """In memory and elsewhere, with the same sentence."""
    for name in ("effort.WORK", "effort.LONG"):
        monkeypatch.setattr(f"lrvb.integrated.{name}", 1e5)
    for name in ("effort.EASY", "integration.EASY", "integration.FROZEN"):
        monkeypatch.setattr(f"lrvb.integrated.{name}", 1e4)
    here, there = both(formula, "bernoulli", table(seed=2))
    assert rows_stay(there)
    agree(here, there)
    ours, theirs = (model._integrated.statement.inside.why for model in (here, there))
    assert "exact sums would take" in ours
    assert theirs == ours


def test_chains_of_nested_factors():
    data = table(n=900, first=60, second=4, seed=3)
    here, there = both("n ~ x + (1|area) + (1|g) + (1|class)", "poisson", data)
    inside = there._integrated.statement.inside
    assert isinstance(inside, ScatteredChain)
    agree(here, there)
    fit = there._integrated
    theta = fit.theta[resampled(fit.weights, 200)]
    drawn = inside.sample(theta, np.random.default_rng(0)).effects
    for t, effects in zip(fit.statement.order, drawn, strict=True):
        mean, sd = fit.effects[t].mean, fit.effects[t].sd
        assert np.all(np.abs(effects.mean(0) - mean) < 5 * sd / np.sqrt(200))
        assert_allclose(effects.std(0), sd, rtol=0.3)
    # known levels, new ones, and a known one where it is not
    codes = [np.array(own) for own in ([0, -1, 2], [1, 3, -1], [5, 7, 11])]
    X, one = np.column_stack([np.ones(3), [0.5, -1.0, 0.0]])[:, : inside.p], [np.ones((3, 1))] * 3
    ours, theirs = (
        list(model._integrated.statement.inside.lines(theta[:3], X, codes, one))
        for model in (here, there)
    )
    for a, b in zip(ours, theirs, strict=True):
        assert_allclose((b.P * b.eta).sum(2), (a.P * a.eta).sum(2), rtol=1e-7)
        assert_allclose((b.P * b.eta**2).sum(2), (a.P * a.eta**2).sum(2), rtol=1e-7)
        assert_allclose(b.extra, a.extra, rtol=1e-7)


def test_no_rows_come_back(monkeypatch):
    """Answers are as long as pairs of levels that occur are many, however many rows there are."""
    answers, map_of = [], DaskPartitions.map

    def spy(self, function, *own):
        found = map_of(self, function, *own)
        answers.extend(part for part in found if part is not None)
        return found

    def lengths(value):
        if isinstance(value, np.ndarray):
            yield max(value.shape, default=0)
        elif isinstance(value, list | tuple):
            for part in value:
                yield from lengths(part)
        elif hasattr(value, "__dict__"):
            yield from lengths(list(vars(value).values()))

    monkeypatch.setattr(DaskPartitions, "map", spy)
    data = table(n=9000, second=51, first=60).assign(class_=lambda d: d["class"] % 97)
    lrvb.MixedModel("n ~ x + (1|g) + (x|class_)", "poisson").fit(scattered(data))
    monkeypatch.undo()
    longest = max(length for answer in answers for length in lengths(answer))
    assert 97 <= longest <= 60 * 97 < len(data)


def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(monkeypatch):
    """What it kept of the rows on their way to the optimum is made again."""
    data = table(n=800)
    formula = "n ~ x + (1|g) + (1|h)"
    here = lrvb.MixedModel(formula, "poisson").fit(data)
    asked, map_of = [], DaskPartitions.map

    def killing(self, function, *own):
        asked.append(function)
        if len(asked) == 40:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        return map_of(self, function, *own)

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        monkeypatch.setattr(DaskPartitions, "map", killing)
        there = lrvb.MixedModel(formula, "poisson").fit(dd.from_pandas(data, npartitions=3))
        monkeypatch.undo()
        assert len(asked) > 80
        agree(here, there)


def test_factors_that_are_one_are_refused_among_three():
    data = table(n=400).assign(same=lambda d: "of " + d.g)
    with pytest.raises(lrvb.InvalidModel, match="in the same way"):
        lrvb.MixedModel("n ~ x + (1|g) + (1|h) + (1|same)", "poisson").fit(scattered(data))
