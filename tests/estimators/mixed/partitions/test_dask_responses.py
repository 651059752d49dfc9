"""Shares, heavy tails and ordered categories on Dask: starts and checks ask all rows where those are."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from typing import Any

import dask
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, gammaincc

import lrvb
from lrvb.bridges.dask import DaskPartitions
from lrvb.data.standardise import measure, merge
from lrvb.estimators.mixed.partitions.design import PartitionedDesign
from lrvb.estimators.mixed.partitions.rows import Arrays
from lrvb.estimators.mixed.partitions.values import ValuesInParts
from lrvb.likelihoods import LOG, Cumulative, Likelihood, Student
from lrvb.likelihoods.values import AtHand

pytestmark = pytest.mark.filterwarnings("error::lrvb.RowsGathered")
NUMBERS = ["mean", "sd", "mfvb_sd", "lower", "upper"]
LABELS = ["bad", "fair", "good", "best"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """As of many rows: they stay in partitions, and those in memory are treated alike."""
    monkeypatch.setattr("lrvb.estimators.mixed.partitions.reading.FEW", 100)
    for module in ("nested_sums", "integration", "many"):
        monkeypatch.setattr(f"lrvb.integrated.{module}.APART", 100)
    monkeypatch.setattr("lrvb.integrated.integration.is_long", lambda *_: True)


def responses(n=1000, schools=25, each=4, seed=1):
    """Rows in the order of their category: partitions lack some, and most levels of `own`."""
    rng = np.random.default_rng(seed)
    school, own = rng.integers(schools, size=n), rng.integers(each, size=n)
    unique = school * each + own
    x = 2 + rng.normal(size=n)
    eta = 0.3 * x - 0.5 + 0.6 * rng.normal(size=schools)[school]
    eta = eta + 0.5 * rng.normal(size=schools * each)[unique]
    eta = eta + 0.4 * (x - 2) * rng.normal(size=schools * each)[unique]
    mean = expit(eta)
    category = 1 + sum((eta + rng.logistic(size=n) > t).astype(int) for t in (-1.0, 0.5, 1.5))
    data = pd.DataFrame(
        {
            "share": rng.beta(8 * mean, 8 * (1 - mean)),
            "score": 50 + 3 * (eta + 0.5 * rng.standard_t(4, size=n)),
            "rating": category,
            "text": np.array(LABELS)[category - 1],
            "n": rng.poisson(np.exp(eta)),
            "x": x,
            "school": [f"school {i}" for i in school],
            "own": own.astype(str),
            "unique": unique,
            "many": rng.integers(41, size=n),
        }
    )
    return data.sort_values("rating", ignore_index=True)


def scattered(data):
    """In four partitions, of which one has no rows."""
    ends = 0, 200, 200, 500, len(data)
    pieces = [data.iloc[a:b] for a, b in pairwise(ends)]
    return dd.from_delayed([dask.delayed(piece) for piece in pieces], meta=data.iloc[:0])


def both(formula, family, data):
    """The fit in memory, and that in partitions, which does not gather: a warning would be an error."""
    with dask.config.set(scheduler="synchronous"):
        there = lrvb.MixedModel(formula, family).fit(scattered(data))
    assert isinstance(there.design_, PartitionedDesign)
    return lrvb.MixedModel(formula, family).fit(data), there


def agree(here, there, data):
    """Summary, evidence, levels, and predictions of each partition's rows: to 1e-8 sds."""
    A, B = here.summary(), there.summary()
    assert_allclose(B[NUMBERS].sub(A[NUMBERS]).div(A.sd, axis=0), 0, atol=1e-8)
    assert list(A.verdict) == list(B.verdict)
    assert_allclose(there.log_evidence_, here.log_evidence_, rtol=1e-12, atol=1e-8)
    ours, theirs = here.ranef(), there.ranef()
    assert ours.index.equals(theirs.index)
    assert_allclose(theirs[NUMBERS].sub(ours[NUMBERS]).div(ours.sd, axis=0), 0, atol=1e-8)
    for number in (0, 3):
        with dask.config.set(scheduler="synchronous"):
            part = scattered(data).partitions[number].compute()[:2]
        ours, theirs = (model.predict(part, interval=0.9) for model in (here, there))
        assert_allclose(theirs, ours, rtol=1e-8)


@pytest.mark.parametrize("groups", ["(1|unique)", "(1|school)", "(x|unique)", "(1|school/own)"])
@pytest.mark.parametrize(
    ("response", "family"),
    [("share", "beta"), ("score", "student"), ("rating", "cumulative")],
)
def test_rows_stay_in_any_layout(response, family, groups):
    """Many levels and few, slopes, and nested factors."""
    rows, schools = (3000, 25) if "x|" in groups else (600, 12) if "own" in groups else (1000, 25)
    data = responses(rows, schools)
    agree(*both(f"{response} ~ x + {groups}", family, data), data)


def test_degrees_of_freedom_that_are_known():
    """Sigma's start is from the quartiles of all rows."""
    data = responses()
    agree(*both("score ~ x + (1|unique)", Student(df=4), data), data)


def test_counts_of_several_modes_in_few_levels():
    """No cubic follows six levels' sd, and no table stands for rows of two modes: draws ask the rows."""
    data = responses().assign(n=lambda d: d.n * (np.arange(len(d)) % 5 > 0))
    agree(*both("n ~ x + (1|own)", "zero_inflated_poisson", data), data)


class Counts(Likelihood):
    """y ~ Poisson(exp η), by its density alone."""

    name, link, discrete = "counts", LOG, True

    def log_p(self, y: Any, eta: Any, given: Any, xp: Any) -> Any:
        """yη − exp η − log y!."""
        return y * eta - xp.exp(eta) - xp.gammaln(y + 1.0)

    def variance(self, eta: np.ndarray, given: Any) -> np.ndarray:
        """The mean."""
        return np.exp(eta)

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Any) -> np.ndarray:
        """The incomplete gamma function."""
        return gammaincc(np.floor(y) + 1, np.exp(eta))


@pytest.mark.parametrize("groups", ["(1|unique)", "(1|own) + (1|many)"])
def test_families_without_derivatives(groups):
    """What differences of the density leave to rounding is as little as of derivatives."""
    data = responses(n=600)
    agree(*both(f"n ~ x + {groups}", Counts(), data), data)


def test_labels_have_the_order_of_all_partitions():
    """A text with its order given, and categories, some of which no row of a partition has, and one none."""
    data = responses(n=800)
    numbers = lrvb.MixedModel("rating ~ x + (1|unique)", "cumulative").fit(data)
    declared = pd.Categorical(data.text, ["none", *LABELS], ordered=True)
    for family, column in ((Cumulative(order=LABELS), data.text), ("cumulative", declared)):
        labelled = data.assign(rating=column)
        with dask.config.set(scheduler="synchronous"):
            there = lrvb.MixedModel("rating ~ x + (1|unique)", family).fit(scattered(labelled))
        off = there.summary()[NUMBERS].sub(numbers.summary()[NUMBERS])
        assert_allclose(off.div(numbers.summary().sd, axis=0), 0, atol=1e-8)
        shares = there.predict(data[:5], kind="probability")
        assert list(shares) == LABELS
        assert_allclose(shares, numbers.predict(data[:5], kind="probability"), rtol=1e-8)


def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(monkeypatch):
    """Sorted values, sums of levels, and frozen ones are made again."""
    data, formula = responses(n=800), "score ~ x + (1|unique)"
    here = lrvb.MixedModel(formula, "student").fit(data)
    asked, map_of = [], DaskPartitions.map

    def killing(self, function, *own):
        asked.append(function)
        if len(asked) in (4, 20):  # while quartiles are looked for, and later
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        return map_of(self, function, *own)

    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        monkeypatch.setattr(DaskPartitions, "map", killing)
        there = lrvb.MixedModel(formula, "student").fit(dd.from_pandas(data, npartitions=3))
        assert len(asked) > 25
        assert isinstance(there.design_, PartitionedDesign)
        agree(here, there, data)


def at(row, name, value):
    def changed(data):
        data[name] = data[name].astype(float if isinstance(value, float) else object)
        data.loc[row, name] = value
        return data

    return changed


@pytest.mark.parametrize(
    ("response", "family", "change", "match"),
    [
        (
            "share",
            "beta",
            at(501, "share", 1.0),
            r"Partition 3: Column 'share', row 1 .*1\.0 is not",
        ),
        ("share", "beta", at(900, "share", 0.0), r"Partition 3: Column 'share', row 400 "),
        ("rating", "cumulative", at(250, "rating", 2.5), "Partition 2: .*row 50 .*no category"),
        ("text", Cumulative(order=LABELS), at(5, "text", "odd"), "Partition 0: .*'odd', which is"),
        ("score", "student", at(900, "x", np.inf), "Partition 3: Column 'x', row 400 .*infinite"),
        ("rating", "cumulative", at(900, "rating", 9.0), "category 5 of 9, .*number those"),
        ("text", Cumulative([*LABELS, "top"]), lambda d: d, "category 'top' of 5.*order="),
        ("rating", "cumulative", lambda d: d.assign(rating=1), "is in one category"),
        ("score", "student", lambda d: d.assign(score=3.0), "'score' is 3 in every row"),
        ("score", "student", lambda d: d.assign(score=2 * d.x), "explain the response exactly"),
    ],
)
def test_what_no_response_may_be_is_said(response, family, change, match):
    """Of the partition that the user has, wherever its rows have been brought since."""
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(lrvb.InvalidData, match=match),
    ):
        lrvb.MixedModel(f"{response} ~ x + (1|unique)", family).fit(scattered(change(responses())))


def test_partitions_with_other_categories_are_refused():
    """Each numbers those that it has."""
    data = responses(n=800)
    pieces = [
        piece.assign(text=pd.Categorical(piece.text, ordered=True))
        for piece in (data[:400], data[400:])
    ]
    table = dd.from_delayed(
        [dask.delayed(piece) for piece in pieces], meta=pieces[0][:0], verify_meta=False
    )
    with pytest.raises(lrvb.InvalidData, match=r"'text' has other categories.*CategoricalDtype"):
        lrvb.MixedModel("text ~ x + (1|unique)", "cumulative").fit(table)


@pytest.mark.parametrize(
    "y",
    [
        np.random.default_rng(0).standard_cauchy(2000),
        np.random.default_rng(1).integers(-2, 3, 500) * 1.0,
        np.array([-1e300, -0.0, 0.0, 5e-324, 1e-5, 2e300]),
        np.array([7.0, 7.0]),
    ],
    ids=["cauchy", "ties", "extremes", "one value"],
)
def test_values_in_parts_are_those_at_hand(y):
    """Moments to rounding; quantiles and counts are of the same values."""
    cuts = 1, 1, len(y) - len(y) // 3
    none = np.zeros((0, 0))
    parts = [Arrays(part, None, None, none, [], none) for part in np.split(y, cuts)]
    measures = measure(parts[0].y[:, None])
    for part in parts[1:]:
        if len(part.y):
            measures = merge(measures, measure(part.y[:, None]))
    there = ValuesInParts(measures, DaskPartitions([dask.delayed(part) for part in parts]))
    here, probs = AtHand(y), (0.0, 0.1, 0.25, 0.5, 0.75, 0.999, 1.0)
    with np.errstate(over="ignore"):
        assert_allclose(there.quantiles(*probs), here.quantiles(*probs), rtol=1e-15, atol=5e-324)
    for ours, theirs in zip(here.counts(), there.counts(), strict=True):
        assert_array_equal(theirs, ours)
    if np.abs(y).max() < 1e100:
        assert_allclose((there.mean, there.sd), (here.mean, here.sd), rtol=1e-12)
    assert (there.low, there.high) == (here.low, here.high)
