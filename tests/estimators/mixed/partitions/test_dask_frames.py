"""A Dask DataFrame gives the answer of its rows in memory, and they stay in their partitions."""

from __future__ import annotations

import os
from pathlib import Path

import dask
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.bridges.dask import memory_left
from lrvb.estimators.mixed.partitions import survey
from lrvb.integrated.importance import resampled
from lrvb.integrated.scattered import Scattered
from lrvb.integrated.scattered_fixed import ScatteredFixed
from lrvb.integrated.scattered_levels import ScatteredLevels
from lrvb.integrated.scattered_slopes import ScatteredSlopes

N = 900
pytestmark = pytest.mark.filterwarnings("error::lrvb.RowsGathered")
NUMBERS = ["mean", "sd", "mfvb_sd", "lower", "upper"]
FORMULAS = [
    "y ~ x + c + (1|g)",
    "log(w) ~ x*c + offset(o) + (1 + x|g)",
    "y ~ factor(k) + (1|g) + (1|h)",
    "w ~ x + (1|g)",
]


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    g, h = rng.integers(0, 25, n), rng.integers(0, 8, n)
    x, o = 100 + 3 * rng.normal(size=n), rng.normal(size=n)
    c, k = rng.choice(["a", "b", "c"], n), rng.integers(1, 4, n)
    y = 5 + 0.3 * x + (c == "b") + rng.normal(size=25)[g] + 0.5 * rng.normal(size=8)[h]
    y = y + rng.normal(size=n)
    columns = {"y": y, "w": np.exp((y + o) / 9), "x": x, "o": o, "c": c, "k": k, "g": g, "h": h}
    data = pd.DataFrame(columns)
    data.loc[[5, 700], "x"] = np.nan
    return data.assign(g=pd.Categorical(data.g.astype(str)))


@pytest.fixture(scope="module")
def data():
    return table()


@pytest.fixture(scope="module", params=FORMULAS)
def pair(request, data):
    """The same model of rows in memory and of rows in seven partitions, one of them without rows."""
    family = "lognormal" if request.param.startswith("w") else "gaussian"
    here = lrvb.MixedModel(request.param, family, missing="drop").fit(data)
    parts = dd.from_delayed(
        [dask.delayed(data.iloc[a:b]) for a, b in ((0, 100), (100, 100), (100, 600), (600, N))],
        meta=data.iloc[:0],
    )
    return here, lrvb.MixedModel(request.param, family, missing="drop").fit(parts)


def test_the_answer_is_that_of_rows_in_memory(pair):
    """Sums in another order: rounding alone, some 1e-12 of them, sets the answers apart."""
    here, there = pair
    A, B = here.summary(), there.summary()
    assert_allclose(B[NUMBERS].div(A.sd, axis=0), A[NUMBERS].div(A.sd, axis=0), rtol=0, atol=1e-8)
    assert list(A.verdict) == list(B.verdict)
    assert_allclose(there.log_evidence_, here.log_evidence_, atol=1e-8)
    assert (there.n_rows_, there.dropped_) == (here.n_rows_, here.dropped_)
    assert here.priors_.table().index.equals(there.priors_.table().index)
    levels, expected = there.ranef(), here.ranef()
    for name in ("mean", "sd", "lower", "upper"):
        assert_allclose(levels[name], expected[name], rtol=0, atol=1e-7)


def test_predictions_are_those_of_rows_in_memory(pair, data):
    here, there = pair
    rows = data.dropna().head(12)
    assert_allclose(
        there.predict(rows, interval=0.9), here.predict(rows, interval=0.9), rtol=0, atol=1e-7
    )
    ours, theirs = (model.predictions(rows, by=True, n=100) for model in (here, there))
    assert_allclose(theirs, ours, rtol=0, atol=1e-7)


def test_the_rows_were_not_brought_together(pair):
    """No more rows than columns for each cell; asking for those of the fit is refused."""
    _, there = pair
    for ask in (there.predict, there.predictions, there.residuals):
        with pytest.raises(lrvb.InvalidData, match=r"for part in ddf\.partitions"):
            ask()
    with pytest.raises(lrvb.InvalidModel, match=r"model\.posterior_\.save"):
        there.save("fit.npz")
    if len(there.design_.factors) == 1:
        most = 25 * (2 + len(there.design_.names) + len(there.design_.terms[0].coefficients))
        assert len(there.design_.reduced.y) <= most < N


def load(data: pd.DataFrame, number: int, folder: str) -> pd.DataFrame:
    """A partition; one of them ends the worker that reads it for the second time."""
    before = len(list(Path(folder).glob(f"{number}-*")))
    Path(folder, f"{number}-{before}").touch()
    if (number, before) == (2, 1):
        os._exit(1)
    return data


def test_a_lost_worker_changes_nothing(data, tmp_path):
    data = data.assign(g=data.g.astype(str)).dropna()
    here = lrvb.MixedModel("y ~ x + (1|g)").fit(data).summary()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        pieces = [data.iloc[i::3] for i in range(3)]
        lazy = [dask.delayed(load)(piece, i, str(tmp_path)) for i, piece in enumerate(pieces)]
        there = lrvb.MixedModel("y ~ x + (1|g)").fit(dd.from_delayed(lazy, meta=data.iloc[:0]))
        there = there.summary()
    assert "2-2" in {path.name for path in tmp_path.iterdir()}  # it was read again elsewhere
    assert_allclose(there[NUMBERS], here[NUMBERS], rtol=1e-8, atol=1e-8)


def frame(data):
    return dd.from_pandas(data, npartitions=3)


def test_missing_values_are_counted(data):
    with pytest.raises(lrvb.InvalidData, match=r"2 of 900 rows have missing.*'x', 2 values"):
        lrvb.MixedModel("y ~ x + (1|g)").fit(frame(data))
    with pytest.raises(lrvb.InvalidData, match="Every one of the 900 rows"):
        lrvb.MixedModel("y ~ x + (1|g)", missing="drop").fit(frame(data.assign(x=np.nan)))


@pytest.mark.parametrize(
    ("formula", "change", "match"),
    [
        ("y ~ scale(x) + (1|g)", {}, r"scale\(…\).*ddf\.assign"),
        (
            "y ~ x + z + (1|g)",
            {"z": lambda d: 2 * d.x + 1},
            "is an exact combination of 'Intercept'",
        ),
        ("y ~ z + (1|g)", {"z": 3.0}, "'z' is the same in every row"),
        ("y ~ 1 + (1|g) + (1|z)", {"z": lambda d: "_" + d.g.astype(str)}, "in the same way"),
        ("y ~ 1 + (1|z)", {"z": np.arange(N)}, "one row for each level"),
        ("y ~ 1 + (1|z)", {"z": "one"}, "single level 'one'"),
        ("y ~ z + (1|g)", {"z": [f"row {i}" for i in range(N)]}, "900 different labels.*900 rows"),
        ("y ~ q + (1|g)", {}, "no column 'q'"),
        ("y ~ h + (1|g)", {"h": np.inf}, "infinite"),
        ("y ~ x + (1|g)", {"y": 3.0}, "'y' is 3 in every row"),
    ],
)
def test_what_cannot_be_fitted_is_said(data, formula, change, match):
    with pytest.raises(lrvb.LrvbError, match=match):
        lrvb.MixedModel(formula).fit(frame(data.fillna({"x": 0.0}).assign(**change)))


def test_a_partition_may_have_one_response():
    """Rows in the order of a response of many zeros: what all of them show is all that is asked."""
    data = table().dropna().assign(y=lambda d: np.maximum(d.y - 35.0, 0.0)).sort_values("y")
    assert (data.y == 0).mean() > 1 / 3
    here = lrvb.MixedModel("y ~ x + (1|g)").fit(data).summary()
    there = lrvb.MixedModel("y ~ x + (1|g)").fit(frame(data)).summary()
    assert_allclose(there[NUMBERS], here[NUMBERS], rtol=1e-8, atol=1e-8)


@pytest.fixture
def at_once(monkeypatch):
    """As of many rows: levels stay in partitions, and rows in memory are treated alike."""
    monkeypatch.setattr("lrvb.estimators.mixed.partitions.reading.FEW", 100)
    monkeypatch.setattr("lrvb.integrated.integration.is_long", lambda *_: True)


@pytest.fixture
def apart(monkeypatch):
    """Rows in memory are treated as if they were elsewhere: no last digit of a sum moves a draw."""
    for module in ("integration", "many"):
        monkeypatch.setattr(f"lrvb.integrated.{module}.APART", 100)


def counts(n=3000, levels=300):
    rng = np.random.default_rng(4)
    g, x = rng.integers(levels, size=n), 2 + rng.normal(size=n)
    o, trials = 0.3 * rng.normal(size=n), rng.integers(1, 5, n)
    eta = -0.5 + 0.3 * x + 0.7 * rng.normal(size=levels)[g]
    return pd.DataFrame(
        {
            "n": rng.poisson(np.exp(eta)),
            "k": rng.binomial(trials, 1 / (1 + np.exp(-eta))),
            "w": np.exp(eta) * rng.gamma(3.0, size=n),
            "z": rng.poisson(np.exp(eta)) * (rng.random(n) < 0.8),
            "trials": trials,
            "x": x,
            "o": o,
            "c": rng.choice(["a", "b"], n),
            "g": [f"level {i}" for i in g],
        }
    )


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("n ~ x + c + offset(o) + (1|g)", "poisson"),
        ("prop(k, trials) ~ x + offset(o) + (1|g)", "binomial"),
        ("w ~ x + c + offset(o) + (1|g)", "gamma"),
        ("z ~ x + c + (1|g)", "hurdle_poisson"),
        ("z ~ x + offset(o) + (1|g)", "zero_inflated_poisson"),
    ],
)
@pytest.mark.usefixtures("at_once")
def test_levels_are_summed_where_their_rows_are(formula, family):
    """Rounding alone, as of any other sums: the same points, each a sum over parts."""
    data = counts()
    here = lrvb.MixedModel(formula, family).fit(data)
    there = lrvb.MixedModel(formula, family).fit(frame(data))  # a warning would be an error
    assert_allclose(there.summary()[NUMBERS], here.summary()[NUMBERS], rtol=1e-8, atol=1e-8)
    assert list(there.summary().verdict) == ["trust"] * len(here.summary())
    new = data.iloc[:5].assign(g=["level 3", "level 4", "level 3", "level 7", "never seen"])
    with pytest.warns(lrvb.errors.NewLevels):
        ours, theirs = (model.predict(new, interval=0.9) for model in (here, there))
    assert_allclose(ours, theirs, rtol=1e-8)
    assert_allclose(
        here.ranef().select_dtypes("number"),
        there.ranef().select_dtypes("number"),
        rtol=1e-8,
        atol=1e-8,
    )
    with pytest.raises(lrvb.InvalidData, match="in Dask's partitions"):
        there.predict()
    fit = there._integrated
    theta = fit.theta[resampled(fit.weights, 400)]
    drawn = fit.statement.inside.sample(theta, np.random.default_rng(0)).effects[0]
    effects = fit.effects[0]
    # five standard errors, of 300 levels at once
    assert np.all(np.abs(drawn.mean(0) - effects.mean) < 5 * effects.sd / np.sqrt(400))
    assert_allclose(drawn.std(0), effects.sd, rtol=0.25)


def slopes(n, levels, center=0.0):
    data, rng = counts(n, levels), np.random.default_rng(1)
    g = data.g.str[6:].astype(int)
    level, slope = 0.5 * rng.normal(size=levels)[g], 0.3 * rng.normal(size=levels)[g]
    return data.assign(n=rng.poisson(np.exp(0.3 + level + slope * (data.x - center))))


@pytest.mark.usefixtures("at_once")
def test_two_effects_a_level(monkeypatch):
    """Some of the levels, brought together, are rows as many as in memory: of all, not of themselves."""
    monkeypatch.setattr("lrvb.integrated.slopes.MANY", 2000)
    data, model = slopes(n=6000, levels=400), lrvb.MixedModel("n ~ x + (x|g)", "poisson")
    here, levels = model.fit(data).summary(), model.ranef()
    there = model.fit(frame(data.sample(frac=1.0, random_state=0))).summary()
    assert isinstance(model._integrated.statement.inside, Scattered)
    assert_allclose(
        there[NUMBERS].div(here.sd, axis=0), here[NUMBERS].div(here.sd, axis=0), rtol=0, atol=1e-8
    )
    assert_allclose(model.ranef()[NUMBERS], levels[NUMBERS], rtol=0, atol=1e-8)


@pytest.mark.parametrize("effect", ["1", "0 + x"])
@pytest.mark.usefixtures("at_once")
def test_where_nodes_that_stay_do_not_serve_rows_are_asked(effect, monkeypatch):
    """Of one effect a level, by nodes that follow θ, wherever the rows are."""
    monkeypatch.setattr("lrvb.integrated.many.has_shelf", lambda *_: True)
    data, model = counts(n=1500), lrvb.MixedModel(f"n ~ x + ({effect}|g)", "poisson")
    here, levels = model.fit(data).summary(), model.ranef()
    there = model.fit(frame(data.sample(frac=1.0, random_state=0))).summary()
    assert isinstance(model._integrated.statement.inside, ScatteredLevels)
    off = (there[NUMBERS] - here[NUMBERS]).div(here.sd, axis=0)
    assert_allclose(off, 0, atol=1e-8)
    assert_allclose(model.ranef()[NUMBERS], levels[NUMBERS], rtol=0, atol=1e-8)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("effects", ["(x|g)", "(x||g)"])
@pytest.mark.parametrize(
    ("response", "family", "levels"),
    [("n", "poisson", 60), ("b", "bernoulli", 40), ("prop(k, trials)", "binomial", 20)],
)
@pytest.mark.usefixtures("at_once", "apart")
def test_slopes_of_few_levels_stay(response, family, levels, effects, partitions):
    """No cubic follows their sds: sums at nodes that stay are made once, where the rows are."""
    data = slopes(1500, levels, 2.0)
    eta = 0.4 * (data.n > 1) - 0.2
    rng = np.random.default_rng(2)
    data["k"] = rng.binomial(data.trials, 1 / (1 + np.exp(-eta)))
    data["b"] = rng.binomial(1, 1 / (1 + np.exp(-eta)))
    model = lrvb.MixedModel(f"{response} ~ x + {effects}", family)
    here, levels = model.fit(data).summary(), model.ranef()
    new = data.iloc[:3].assign(g=[*data.g[:2], "never seen"])
    with pytest.warns(lrvb.errors.NewLevels):
        ours = model.predict(new, interval=0.9)
    shuffled = data.sample(frac=1.0, random_state=0, ignore_index=True)
    there = model.fit(dd.from_pandas(shuffled, npartitions=partitions)).summary()
    assert isinstance(model._integrated.statement.inside, ScatteredSlopes)
    off = (there[NUMBERS] - here[NUMBERS]).div(here.sd, axis=0)
    assert_allclose(off, 0, atol=1e-8)
    assert list(there.verdict) == list(here.verdict)
    assert_allclose(model.ranef()[NUMBERS], levels[NUMBERS], rtol=0, atol=1e-8)
    with pytest.warns(lrvb.errors.NewLevels):
        assert_allclose(model.predict(new, interval=0.9), ours, rtol=1e-8)


@pytest.mark.usefixtures("at_once", "apart")
def test_slopes_that_no_nodes_hold_stay(monkeypatch):
    """w differs within levels, and the posterior has another part: draws ask the rows where they are."""
    monkeypatch.setattr("lrvb.integrated.many.has_shelf", lambda *_: True)
    rng = np.random.default_rng(5)
    data = slopes(500, 50).assign(w=rng.normal(size=500))
    model = lrvb.MixedModel("n ~ x + w + (x|g)", "poisson")
    here, there = model.fit(data).summary(), model.fit(frame(data)).summary()
    assert isinstance(model._integrated.statement.inside, ScatteredSlopes)
    assert_allclose((there[NUMBERS] - here[NUMBERS]).div(here.sd, axis=0), 0, atol=1e-8)


@pytest.mark.parametrize(
    ("formula", "how", "match"),
    [
        ("n ~ scale(x) + (1|g)", "blocked", r"'scale\(…\)', which looks at all rows.*ddf\.assign"),
        ("n ~ x + (1|g)", "variational", "A variational fit needs all 300 rows.*'blocked' rows of"),
    ],
)
@pytest.mark.usefixtures("at_once")
def test_why_rows_are_gathered_is_said(formula, how, match):
    with pytest.warns(lrvb.RowsGathered, match=match):
        lrvb.MixedModel(formula, "poisson", factorization=how).fit(frame(counts(300, 20)))


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("x ~ w + c", "gaussian"),
        ("n ~ x + c + offset(o)", "poisson"),
        ("prop(k, trials) ~ c", "binomial"),
        ("w ~ x + c", "gamma"),
        ("z ~ c", "zero_inflated_poisson"),
    ],
)
@pytest.mark.usefixtures("at_once")
def test_rows_without_groups(formula, family, monkeypatch):
    """Sums over rows wherever they are; those that are alike are one, whatever partitions they are in."""
    monkeypatch.setattr("lrvb.integrated.integration.APART", 20)
    data = counts(n=600).assign(c=lambda d: d.c + d.trials.astype(str))
    here = lrvb.MixedModel(formula, family).fit(data)
    there = lrvb.MixedModel(formula, family).fit(frame(data.sample(frac=1.0, random_state=0)))
    A, B = here.summary(), there.summary()
    assert_allclose(B[NUMBERS].sub(A[NUMBERS]).div(A.sd, axis=0), 0, atol=1e-8)
    assert list(A.verdict) == list(B.verdict)
    ours, theirs = (model.predict(data[:5], interval=0.9) for model in (here, there))
    assert_allclose(theirs, ours, rtol=1e-8)
    if family != "gaussian":
        near, far = (model._integrated.statement.inside for model in (here, there))
        assert isinstance(far, ScatteredFixed)
        assert far.N == near.N
        theta = here._integrated.theta[0]
        for ours, theirs in zip(near.derivatives(theta), far.derivatives(theta), strict=True):
            assert_allclose(theirs, ours, rtol=1e-6, atol=1e-6)
    with pytest.raises(lrvb.InvalidData, match="in Dask's partitions"):
        there.predict()


@pytest.fixture
def tables(monkeypatch):
    """As of many rows in few levels, for which a table stands."""
    monkeypatch.setattr("lrvb.integrated.few._LEAST", 0.0)
    monkeypatch.setattr("lrvb.integrated.few._GAIN", 0.0)


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("n ~ x + c + offset(o) + (1|g)", "poisson"),
        ("prop(k, trials) ~ x + offset(o) + (1|g)", "binomial"),
    ],
)
@pytest.mark.usefixtures("at_once", "tables")
def test_few_levels_stay_too(formula, family):
    """Some of their rows find the mode, and those do not hang on the order of rows."""
    data = counts(n=5000, levels=12)
    here = lrvb.MixedModel(formula, family).fit(data)
    there = lrvb.MixedModel(formula, family).fit(frame(data.sample(frac=1.0, random_state=0)))
    assert isinstance(there._integrated.statement.inside, ScatteredLevels)
    A, B = here.summary(), there.summary()
    assert_allclose(B[NUMBERS].div(A.sd, axis=0), A[NUMBERS].div(A.sd, axis=0), rtol=0, atol=1e-8)
    assert list(A.verdict) == list(B.verdict)
    ours, theirs = (model.ranef()[NUMBERS] for model in (here, there))
    assert_allclose(theirs, ours, rtol=0, atol=1e-8)
    new = data.iloc[:3].assign(g=["level 3", "level 4", "never seen"])
    with pytest.warns(lrvb.errors.NewLevels):
        ours, theirs = (model.predict(new, interval=0.9) for model in (here, there))
    assert_allclose(theirs, ours, rtol=1e-8)


@pytest.mark.usefixtures("at_once")
def test_a_lost_worker_changes_no_levels(tmp_path):
    data = counts()
    here = lrvb.MixedModel("n ~ x + (1|g)", "poisson").fit(data).summary()
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        pieces = [data.iloc[i::3] for i in range(3)]
        lazy = [dask.delayed(load)(piece, i, str(tmp_path)) for i, piece in enumerate(pieces)]
        model = lrvb.MixedModel("n ~ x + (1|g)", "poisson")
        there = model.fit(dd.from_delayed(lazy, meta=data.iloc[:0])).summary()
    assert "2-2" in {path.name for path in tmp_path.iterdir()}  # it was read again elsewhere
    assert_allclose(there[NUMBERS], here[NUMBERS], rtol=1e-8, atol=1e-8)


def test_memory_is_asked_for_categories_and_not_for_groups():
    """c has two labels, which make two columns at most; 300 levels make none."""
    named, units = ["n", "c", "g"], [("g",)]
    found = survey.survey_part(named, units, frozenset(), {}, counts(n=3000, levels=300))
    assert len(found.labels[("g",)]) == 300
    assert survey.width(found, named, units) == 4


def test_other_responses_are_gathered_while_they_are_few(data, monkeypatch):
    counts = data.dropna().assign(n=lambda d: np.rint(np.abs(d.o)))
    model = lrvb.MixedModel("n ~ 1 + (1|h)", family="poisson")
    with pytest.warns(lrvb.RowsGathered, match="898 rows, which are few, were brought"):
        there = model.fit(frame(counts)).summary()
    assert_allclose(there[NUMBERS], model.fit(counts).summary()[NUMBERS])
    reading = "lrvb.estimators.mixed.partitions.reading"
    monkeypatch.setattr(f"{reading}.GATHERED", 100)
    monkeypatch.setattr(f"{reading}.memory_left", lambda: 0.0)
    with pytest.raises(lrvb.InvalidModel, match=r"all 898 rows.*nobody tells.*compute"):
        model.fit(frame(counts))
    monkeypatch.undo()
    assert 1e7 < memory_left() < 1e14
    monkeypatch.setattr(f"{reading}.GATHERED", 100)
    with pytest.warns(
        lrvb.RowsGathered, match=r"898 rows.*up to 0\.0 of .* GB of memory that are free"
    ):
        model.fit(frame(counts))
