"""Odd inputs: every public function gives a finite answer, or one sentence of ours.

Frames, arrays and options are drawn by hypothesis, the same ones every time; the search is longer
with `--odd-inputs-seconds`, which also draws others.
"""

from __future__ import annotations

import datetime
import time
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lrvb

N = 6  # rows: few shapes, so that little is compiled
RNG = np.random.default_rng(1)
GOOD = {
    "x": RNG.normal(size=24),
    "y": RNG.poisson(2.0, 24),
    "g": np.repeat(np.arange(6), 4),
    "c": np.tile(["a", "b"], 12),
}
FAILED: list[Exception] = []
SHARES = 6  # tests, among which the time is divided


@pytest.fixture(scope="module")
def deadline(pytestconfig: pytest.Config) -> float:
    return pytestconfig.getoption("--odd-inputs-seconds") / SHARES


@pytest.fixture
def clock(deadline: float) -> Callable[[], bool]:
    """Whether there is time left for this test; what fails is always tried again."""
    start = time.monotonic()
    FAILED.clear()
    return lambda: bool(FAILED) or time.monotonic() - start < deadline


def search(most: int) -> Any:
    return settings(
        max_examples=most,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


# ---- what is thrown ------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(),
    st.integers(-(10**3), 10**3),
    st.sampled_from([0, 1, -1, 2**63, 10**30, 1e-320, 1e308, -0.0, True, 0.5, 3.0]),
)
THINGS = st.one_of(
    NUMBERS,
    st.none(),
    st.text(max_size=3),
    st.sampled_from(
        [
            *(b"x", 1j, object, Decimal("1.5"), datetime.date(2020, 1, 1), pd.NA, pd.NaT, (), []),
            *({}, np.float32(2), np.datetime64("2020-01-01"), "mu", "x", "1|g", ["x"], ["x", "x"]),
        ]
    ),
)


def column(n: int) -> st.SearchStrategy[Any]:
    plain = st.lists(st.floats(-3, 3), min_size=n, max_size=n)
    counts = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    return st.one_of(
        plain.map(np.array),
        counts.map(np.array),
        counts,
        st.lists(NUMBERS, min_size=n, max_size=n).map(lambda v: np.array(v, dtype=object)),
        st.lists(THINGS, min_size=n, max_size=n),
        st.lists(st.sampled_from(["a", "b", "", "1", "=1"]), min_size=n, max_size=n),
        plain.map(lambda v: np.ma.MaskedArray(v, mask=[i == 1 for i in range(n)])),
        plain.map(lambda v: np.array(v) + 1j),
        plain.map(lambda v: np.array(v, dtype=np.float16)),
        plain.map(lambda v: np.array(v)[:, None]),
        plain.map(lambda v: pd.Series(v, dtype="Float64")),
        counts.map(lambda v: pd.Categorical(v)),
        counts.map(lambda v: pd.Series(v).astype("category")),
        counts.map(lambda v: np.array(v, dtype="datetime64[D]")),
        counts.map(lambda v: np.array(v, dtype=np.uint64) + np.uint64(2**63)),
        plain.map(lambda v: np.array([*v, 0.0])),
        THINGS,
    )


def table(*names: str) -> st.SearchStrategy[Any]:
    """A mapping or a frame with mostly these columns, or something else altogether."""
    columns = st.fixed_dictionaries({name: column(N) for name in names})

    def framed(data: dict[str, Any]) -> Any:
        try:
            return pd.DataFrame(data)
        except (ValueError, TypeError):
            return data

    return st.one_of(
        columns,
        columns.map(framed),
        columns.map(lambda data: dict(list(data.items())[1:])),
        columns.map(lambda data: {i: value for i, value in enumerate(data.values())}),
        THINGS,
    )


MATRICES = st.one_of(
    st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=N, max_size=N),
    st.lists(st.lists(st.floats(-3, 3), min_size=2, max_size=2), min_size=N, max_size=N).map(
        np.array
    ),
    column(N),
    table("x", "y"),
)


def options(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """At most one odd option."""
    return st.dictionaries(st.sampled_from(names), THINGS, max_size=1)


def is_huge(thing: Any) -> bool:
    """Whether so many draws would only fill the memory."""
    return isinstance(thing, int | float) and thing > 10**4


# ---- what must come back -------------------------------------------------------------------


def finite(answer: Any) -> bool:
    """Whether every number of an answer is finite."""
    if isinstance(answer, pd.DataFrame | pd.Series):
        parts = (
            [answer]
            if isinstance(answer, pd.Series)
            else [answer.iloc[:, j] for j in range(answer.shape[1])]
        )
        return all(
            np.isfinite(p.to_numpy(dtype=float)).all()
            for p in parts
            if pd.api.types.is_numeric_dtype(p.dtype)
        )
    if isinstance(answer, dict):
        return all(finite(value) for value in answer.values())
    if isinstance(answer, np.ndarray):
        return answer.dtype.kind not in "fc" or bool(np.isfinite(answer).all())
    return True


def answers(action: Callable[[], Any], *others: type[Exception]) -> None:
    """A finite answer, or an error of ours, or one that another library's conventions ask for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = action()
        except (lrvb.LrvbError, *others):
            return
        except Exception as error:
            FAILED.append(error)
            raise
    if not finite(answer):
        FAILED.append(ValueError("not finite"))
        raise AssertionError(answer)


@given(
    data=table("x", "y"),
    options=st.dictionaries(
        st.sampled_from(["tol", "max_iter", "chunk_size", "init"]), THINGS, max_size=1
    ),
)
@search(120)
def test_infer(clock: Any, data: Any, options: dict[str, Any]) -> None:
    if clock():
        model = lrvb.models.NormalPoisson(local="gaussian")
        answers(lambda: lrvb.infer(model, data, **options).summary())


@given(
    X=MATRICES,
    options=st.dictionaries(
        st.sampled_from(["n_components", "tol", "init", "n_init", "max_iter", "random_state"]),
        THINGS,
        max_size=1,
    ),
)
@search(120)
def test_a_mixture(clock: Any, X: Any, options: dict[str, Any]) -> None:
    """scikit-learn's own checks raise ValueError and TypeError."""
    if clock():
        mixture = lrvb.GaussianMixture(**{"n_components": 2, "random_state": 0} | options)
        answers(lambda: mixture.fit(X).posterior_.summary(), ValueError, TypeError)


@pytest.fixture(scope="module")
def mixture() -> lrvb.GaussianMixture:
    return lrvb.GaussianMixture(2, random_state=0).fit(np.stack([GOOD["x"], GOOD["y"]], axis=1))


@given(
    X=MATRICES,
    which=st.sampled_from(["predict", "predict_proba", "score", "score_samples"]),
    thing=THINGS,
)
@search(200)
def test_using_a_mixture(clock: Any, mixture: Any, X: Any, which: str, thing: Any) -> None:
    if clock():
        answers(lambda: getattr(mixture, which)(X), ValueError, TypeError)
        if not is_huge(thing):
            answers(lambda: mixture.sample(thing)[0], ValueError)


FORMULAS = st.one_of(
    st.sampled_from(
        [
            *("y ~ x + (1|g)", "y ~ x + (x|g)", "y ~ c + (1|g)", "y ~ (1|g)"),
            *("prop(y, x) ~ 1 + (1|g)", "y ~ log(x) + (1|g)", "y ~ offset(x) + (1|c)"),
            *("y ~ x*c + (1|g/c)", "y ~ poly(x, 9) + (1|g)"),
        ]
    ),
    st.text(alphabet="yxg~|()+-*:/{}[]`'\".,0 np=", max_size=14),
    THINGS,
)


@given(
    formula=FORMULAS,
    family=st.sampled_from(["gaussian", "poisson", "bernoulli", "binomial", "odd", None, 3]),
    data=table("y", "x", "g", "c"),
)
@search(300)
def test_a_mixed_model(clock: Any, formula: Any, family: Any, data: Any) -> None:
    if clock():
        answers(lambda: lrvb.MixedModel(formula, family).fit(data).summary())


@pytest.fixture(scope="module")
def model() -> lrvb.MixedModel:
    return lrvb.MixedModel("y ~ x + c + (x|g)").fit(pd.DataFrame(GOOD))


@given(data=table("x", "g", "c"), thing=THINGS, other=THINGS)
@search(200)
def test_using_a_mixed_model(clock: Any, model: Any, data: Any, thing: Any, other: Any) -> None:
    if not clock():
        return
    answers(lambda: model.predict(data) if data is not None else None)
    answers(lambda: model.predict(interval=thing, kind=other))
    answers(lambda: model.ranef(thing, 0.9))
    answers(lambda: model.ranef(prob=thing))
    answers(lambda: model.contrast(thing))
    answers(lambda: model.summary(thing))


@given(thing=THINGS, other=THINGS)
@search(300)
def test_a_posterior(clock: Any, model: Any, tmp_path_factory: Any, thing: Any, other: Any) -> None:
    if not clock():
        return
    posterior = model.posterior_
    for name in ("mean", "sd", "cov", "corr"):
        ask = getattr(posterior, name)
        answers(lambda ask=ask: ask(thing))
    answers(lambda: posterior.sd(method=thing))
    answers(lambda: posterior.summary(prob=thing))
    answers(lambda: posterior.local(thing))
    answers(lambda: posterior.local("1|g", rows=thing))
    if not is_huge(thing):
        answers(lambda: posterior.draws(thing, seed=other))
    answers(lambda: posterior.draws(2, seed=other))
    folder = tmp_path_factory.getbasetemp()
    path = (
        folder / thing.replace("/", "") if isinstance(thing, str) and thing.strip("./") else thing
    )
    answers(lambda: posterior.save(path))
    answers(lambda: lrvb.load(folder))
    answers(lambda: lrvb.load(thing))
