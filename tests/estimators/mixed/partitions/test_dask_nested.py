"""Counts, zeros and ones in two factors on Dask: as in memory, and the rows stay where they are."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path

import dask
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.bridges.dask import DaskPartitions
from lrvb.integrated.importance import resampled
from lrvb.integrated.scattered_crossed import ScatteredCrossed
from lrvb.integrated.scattered_nested import ScatteredNested

pytestmark = pytest.mark.filterwarnings("error::lrvb.RowsGathered")
NUMBERS = ["mean", "sd", "mfvb_sd", "lower", "upper"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """As of many rows: they stay in partitions, and those in memory are treated alike."""
    monkeypatch.setattr("lrvb.estimators.mixed.partitions.reading.FEW", 100)
    monkeypatch.setattr("lrvb.integrated.nested_sums.APART", 100)
    monkeypatch.setattr("lrvb.integrated.integration.APART", 100)


@pytest.fixture
def tables(monkeypatch):
    """Of many rows a table of the outer levels stands for them."""
    monkeypatch.setattr("lrvb.integrated.few._NESTED", 0.0)


@pytest.fixture
def no_tables(monkeypatch):
    monkeypatch.setattr("lrvb.integrated.few._NESTED", np.inf)


def classes(n=2400, schools=30, each=6, seed=1):
    """Classes are numbered within schools, `unique` over all of them."""
    rng = np.random.default_rng(seed)
    school, own = rng.integers(schools, size=n), rng.integers(each, size=n)
    unique = school * each + own
    x, trials, o = 2 + rng.normal(size=n), rng.integers(2, 6, n), 0.3 * rng.normal(size=n)
    eta = 0.3 * x - 0.5 + 0.6 * rng.normal(size=schools)[school]
    eta = eta + 0.5 * rng.normal(size=schools * each)[unique]
    return pd.DataFrame(
        {
            "n": rng.poisson(np.exp(eta + o)),
            "m": rng.poisson(np.exp(eta + 0.5 * rng.normal(size=n))),
            "k": rng.binomial(trials, 1 / (1 + np.exp(-eta))),
            "nb": rng.poisson(np.exp(eta) * rng.gamma(2.0, size=n) / 2),
            "w": np.exp(eta) * rng.gamma(3.0, size=n),
            "z": rng.poisson(np.exp(eta)) * (rng.random(n) < 0.8),
            "trials": trials,
            "x": x,
            "o": o,
            "school": [f"school {i}" for i in school],
            "own": pd.Categorical(own.astype(str)),
            "unique": unique,
            "pupil": np.arange(n),
        }
    )


def scattered(data):
    """Rows in another order, in four partitions of which one has none."""
    mixed = data.sample(frac=1.0, random_state=0)
    ends = 0, 400, 400, 1500, len(mixed)
    pieces = [mixed.iloc[a:b] for a, b in pairwise(ends)]
    return dd.from_delayed([dask.delayed(piece) for piece in pieces], meta=mixed.iloc[:0])


def agree(here, there, atol=1e-8):
    A, B = here.summary(), there.summary()
    assert_allclose(B[NUMBERS].div(A.sd, axis=0), A[NUMBERS].div(A.sd, axis=0), rtol=0, atol=atol)
    assert list(A.verdict) == list(B.verdict)
    assert_allclose(there.log_evidence_, here.log_evidence_, rtol=1e-4 * atol)
    ours, theirs = here.ranef(), there.ranef()
    assert ours.index.equals(theirs.index)
    for name in NUMBERS:
        assert_allclose(theirs[name], ours[name], rtol=0, atol=atol)


def both(formula, family, data, kind=ScatteredNested):
    """The fit in memory, and that in partitions, which does not gather: a warning would be an error."""
    with dask.config.set(scheduler="synchronous"):
        there = lrvb.MixedModel(formula, family).fit(scattered(data))
    assert isinstance(there._integrated.statement.inside, kind)
    return lrvb.MixedModel(formula, family).fit(data), there


@pytest.mark.usefixtures("tables")
def test_nested_levels_are_summed_where_their_rows_are():
    data = classes()
    here, there = both("n ~ x + offset(o) + (1|school/own)", "poisson", data)
    assert there._integrated.integral.near is None
    agree(here, there)
    new = data.iloc[:6].assign(
        school=["school 1", "school 1", "school 2", "new", "school 4", "new"]
    )
    with pytest.warns(lrvb.errors.NewLevels):
        ours, theirs = (model.predict(new, interval=0.9) for model in (here, there))
    assert_allclose(theirs, ours, rtol=1e-8)
    for ask in (there.predict, there.residuals, there.posterior_predictive):
        with pytest.raises(lrvb.InvalidData, match="in Dask's partitions"):
            ask()
    fit = there._integrated
    theta = fit.theta[resampled(fit.weights, 400)]
    drawn = fit.statement.inside.sample(theta, np.random.default_rng(0)).effects
    for t, effects in zip(fit.statement.order, drawn, strict=True):
        mean, sd = fit.effects[t].mean, fit.effects[t].sd
        # five standard errors, of 200 levels at once
        assert np.all(np.abs(effects.mean(0) - mean) < 5 * sd / np.sqrt(400))
        assert_allclose(effects.std(0), sd, rtol=0.25)


@pytest.mark.usefixtures("no_tables")
def test_levels_without_a_table_too():
    """Levels that are numbered over all schools, of which an inner one may be asked for in another."""
    data = classes(n=900, schools=20)
    here, there = both("prop(k, trials) ~ x + (1|unique) + (1|school)", "binomial", data)
    agree(here, there)
    new = data.iloc[:3].assign(school=data.school.iloc[10])
    assert_allclose(there.predict(new), here.predict(new), rtol=1e-8)


@pytest.mark.usefixtures("tables")
def test_an_effect_of_every_row():
    data = classes(n=1500)
    here, there = both("m ~ x + (1|school) + (1|pupil)", "poisson", data)
    agree(here, there)
    new = data.iloc[:4].drop(columns="pupil")
    assert_allclose(there.predict(new, interval=0.9), here.predict(new, interval=0.9), rtol=1e-8)


@pytest.mark.parametrize("gain", [0.0, np.inf], ids=["cells", "rows"])
def test_crossed_counts_with_few_levels_of_a_factor(gain, monkeypatch):
    """Levels of the larger factor are summed, the smaller one's drawn; cells stand for rows, or none do."""
    monkeypatch.setattr("lrvb.integrated.few._LEAST", 0.0)
    monkeypatch.setattr("lrvb.integrated.few._GAIN", gain)
    data = classes(n=1600, each=4).assign(unique=lambda d: d.unique % 41)
    here, there = both("n ~ x + (1|own) + (1|unique)", "poisson", data, ScatteredCrossed)
    agree(here, there)
    new = data.iloc[:3].assign(own=["1", "new", "2"], unique=[7, 8, 999])
    with pytest.warns(lrvb.errors.NewLevels):
        ours, theirs = (model.predict(new, interval=0.9) for model in (here, there))
    assert_allclose(theirs, ours, rtol=1e-8)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("prop(k, trials) ~ x + offset(o) + (1|own) + (1|unique)", "binomial"),
        ("nb ~ x + offset(o) + (1|own) + (1|unique)", "negbinomial"),
        ("w ~ x + (1|own) + (1|unique)", "gamma"),
        ("z ~ x + (1|own) + (1|unique)", "zero_inflated_poisson"),
        ("log(w) ~ x + (1|own) + (1|unique)", "student(df=4)"),
        ("n ~ x + (0 + x|own) + (0 + x|unique)", "poisson"),
    ],
)
def test_crossed_levels_of_other_responses(formula, family):
    """One mode a level or several, or a slope alone: modes and ends are found where rows are."""
    data = classes(n=600, each=4, seed=3).assign(unique=lambda d: d.unique % 41)
    here, there = both(formula, family, data, ScatteredCrossed)
    agree(here, there)
    new = data.iloc[:3].assign(own=["1", "new", "2"], unique=[7, 8, 999])
    with pytest.warns(lrvb.errors.NewLevels):
        ours, theirs = (model.predict(new, interval=0.9) for model in (here, there))
    assert_allclose(theirs, ours, rtol=1e-8)


def test_crossed_levels_in_any_partitions():
    """One, or eleven, with rows in another order."""
    data = classes(n=700, each=4, seed=5).assign(
        unique=lambda d: d.unique % 41, one=lambda d: (d.k > 1).astype(int)
    )
    model = lrvb.MixedModel("one ~ x + (1|own) + (1|unique)", "bernoulli")
    here = model.fit(data).summary()
    for number in (1, 11):
        mixed = data.sample(frac=1.0, random_state=number)
        with dask.config.set(scheduler="synchronous"):
            there = model.fit(dd.from_pandas(mixed, npartitions=number, sort=False)).summary()
        off = (there[NUMBERS] - here[NUMBERS]).div(here.sd, axis=0)
        assert_allclose(off, 0, atol=1e-8)


@pytest.mark.usefixtures("tables")
def test_no_rows_come_back(monkeypatch):
    """What parts answer is as long as the levels are, in a batch: rows are sixty times as many.

    Of so many some rows of every level find the mode first, and are the same in any order.
    """
    answers, map_of = [], DaskPartitions.map

    def spy(self, function, *own):
        found = map_of(self, function, *own)
        answers.extend(part for part in found if part is not None)
        return found

    monkeypatch.setattr(DaskPartitions, "map", spy)
    here, there = both("n ~ x + (1|school/own)", "poisson", classes(n=12_000))
    agree(here, there)
    values = [value for part in answers for value in (part if isinstance(part, tuple) else [part])]
    lengths = [max(value.shape, default=0) for value in values if isinstance(value, np.ndarray)]
    assert lengths
    assert max(lengths) <= 30 * 6 + 30


def load(data: pd.DataFrame, number: int, folder: str) -> pd.DataFrame:
    """A partition; one of them ends the worker that reads it for the third time."""
    before = len(list(Path(folder).glob(f"{number}-*")))
    Path(folder, f"{number}-{before}").touch()
    if (number, before) == (2, 2):
        os._exit(1)
    return data


@pytest.mark.usefixtures("tables")
def test_a_lost_worker_changes_nothing(tmp_path):
    data = classes()
    formula = "n ~ x + (1|school) + (1|unique)"
    here = lrvb.MixedModel(formula, "poisson").fit(data)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        pieces = [data.iloc[i::3] for i in range(3)]
        lazy = [dask.delayed(load)(piece, i, str(tmp_path)) for i, piece in enumerate(pieces)]
        there = lrvb.MixedModel(formula, "poisson")
        there.fit(dd.from_delayed(lazy, meta=data.iloc[:0]))
        agree(here, there)
    assert "2-3" in {path.name for path in tmp_path.iterdir()}  # it was read again elsewhere


def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(monkeypatch):
    """What it kept is made again: rows, their sums, and the nodes of these."""
    data = classes(n=800, each=4).assign(
        unique=lambda d: d.unique % 41, one=lambda d: (d.k > 1).astype(int)
    )
    formula = "one ~ x + (1|own) + (1|unique)"
    here = lrvb.MixedModel(formula, "bernoulli").fit(data)
    asked, map_of = [], DaskPartitions.map

    def killing(self, function, *own):
        asked.append(function)
        if len(asked) == 60:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        return map_of(self, function, *own)

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        monkeypatch.setattr(DaskPartitions, "map", killing)
        there = lrvb.MixedModel(formula, "bernoulli").fit(dd.from_pandas(data, npartitions=3))
        monkeypatch.undo()
        assert len(asked) > 100
        agree(here, there)


@pytest.mark.parametrize("x", ["x", "two"], ids=["rows that differ", "rows with counts"])
def test_zeros_and_ones_with_an_effect_of_each(x):
    """Another order of rows moves them by some 1e-8 sds in memory too."""
    data = classes(n=1500, seed=2).assign(
        k=lambda d: (d.k > 1).astype(int), two=lambda d: (d.x > 2).astype(int)
    )
    here, there = both(f"k ~ {x} + (1|school) + (1|pupil)", "bernoulli", data)
    agree(here, there, 1e-7)
    new = data.iloc[:4].drop(columns="pupil")
    assert_allclose(there.predict(new, interval=0.9), here.predict(new, interval=0.9), rtol=1e-7)


def test_a_variational_fit_is_gathered_or_refused(monkeypatch):
    """Before any work."""
    monkeypatch.setattr("lrvb.estimators.mixed.partitions.reading.GATHERED", 100)
    monkeypatch.setattr("lrvb.estimators.mixed.partitions.reading.memory_left", lambda: 1e6)
    monkeypatch.setattr("lrvb.estimators.mixed.partitions.reading.shuffled_parts", None)
    data = classes(n=400).assign(unique=lambda d: d.unique % 41)
    with pytest.raises(
        lrvb.InvalidModel, match=r"all 400 rows together.*0\.0 GB are free.*compute"
    ):
        lrvb.MixedModel("n ~ x + (1|own) + (1|unique)", "poisson", factorization="variational").fit(
            scattered(data)
        )


def test_factors_that_are_one_are_refused():
    data = classes(n=400).assign(same=lambda d: "of " + d.school)
    with pytest.raises(lrvb.InvalidModel, match="in the same way"):
        lrvb.MixedModel("n ~ x + (1|school) + (1|same)", "poisson").fit(scattered(data))
