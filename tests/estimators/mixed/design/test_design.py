"""The arrays of a formula against columns written by hand; the same arrays for new rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lrvb.estimators.mixed.design.design import Design, build
from lrvb.estimators.mixed.design.rank import triangle
from lrvb.estimators.mixed.design.separation import separating_direction

N = 60


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "y": rng.normal(size=N),
            "x": rng.normal(5, 2, size=N),
            "w": rng.normal(size=N),
            "c": rng.permutation(np.repeat(["a", "b", "d"], N // 3)),
            "k": pd.Categorical(rng.choice(["hi", "lo"], N), categories=["lo", "mid", "hi"]),
            "flag": rng.random(N) < 0.5,
            "g": rng.integers(10, 16, N),
            "h": rng.choice(["u", "v", "z"], N),
            "count": rng.poisson(3, N),
            "size": rng.integers(5, 9, N),
            "row": np.arange(N),
            "time": rng.uniform(1, 2, N),
        }
    )


@pytest.fixture
def data() -> pd.DataFrame:
    return table()


def by_hand(data: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """Formulas and their columns."""
    x, w = data.x.to_numpy(), data.w.to_numpy()
    one = np.ones(N)
    a, b, d = (np.asarray(data.c == level, dtype=float) for level in "abd")
    hi = np.asarray(data.k == "hi", dtype=float)
    flag = data.flag.to_numpy().astype(float)
    g = data.g.to_numpy()
    return {
        "1": {"Intercept": one},
        "0": {},
        "x": {"Intercept": one, "x": x},
        "0 + x + w": {"x": x, "w": w},
        "x - 1": {"x": x},
        "c": {"Intercept": one, "c[b]": b, "c[d]": d},
        "0 + c": {"c[a]": a, "c[b]": b, "c[d]": d},
        "k": {"Intercept": one, "k[hi]": hi},
        "flag": {"Intercept": one, "flag": flag},
        "x:w": {"Intercept": one, "x:w": x * w},
        "x*c": {
            **{"Intercept": one, "x": x, "c[b]": b, "c[d]": d},
            **{"x:c[b]": x * b, "x:c[d]": x * d},
        },
        "x:c": {"Intercept": one, "x:c[a]": x * a, "x:c[b]": x * b, "x:c[d]": x * d},
        "c*k": {
            **{"Intercept": one, "c[b]": b, "c[d]": d, "k[hi]": hi},
            **{"c[b]:k[hi]": b * hi, "c[d]:k[hi]": d * hi},
        },
        "I(x**2) + {x + w}": {"Intercept": one, "I(x ** 2)": x**2, "x + w": x + w},
        "np.log(time) + sqrt(time)": {
            "Intercept": one,
            "np.log(time)": np.log(data.time),
            "sqrt(time)": np.sqrt(data.time),
        },
        "center(x)": {"Intercept": one, "center(x)": x - x.mean()},
        "scale(x)": {"Intercept": one, "scale(x)": (x - x.mean()) / x.std(ddof=1)},
        "C(g)": {"Intercept": one, **{f"C(g)[{j}]": (g == j).astype(float) for j in range(11, 16)}},
        "(x + w)**2": {"Intercept": one, "x": x, "w": w, "x:w": x * w},
    }


@pytest.mark.parametrize("text", list(by_hand(table())))
def test_fixed_columns_by_hand(text: str, data: pd.DataFrame) -> None:
    design = build(f"y ~ {text} + (1|g)", data, "gaussian")
    expected = by_hand(data)[text]
    assert design.names == list(expected)
    assert design.X.shape == (N, len(expected))
    assert design.X.dtype == np.float64
    for name, column in zip(design.names, design.X.T, strict=True):
        np.testing.assert_allclose(column, expected[name], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(design.y, data.y)


def terms_by_hand(design: Design, data: pd.DataFrame) -> np.ndarray:
    """Every term's dense N × Gq indicator matrix, by looping over rows."""
    wide = []
    for term in design.terms:
        factor = design.factors[term.factor]
        Z = np.zeros((N, len(factor.levels), len(term.coefficients)))
        for n in range(N):
            labels = [str(data[column].iloc[n]) for column in term.group.split(":")]
            level = [str(label) for label in factor.levels].index(":".join(labels))
            for j, name in enumerate(term.coefficients):
                Z[n, level, j] = {
                    "1": 1.0,
                    "x": data.x.iloc[n],
                    "w": data.w.iloc[n],
                    "c[a]": float(data.c.iloc[n] == "a"),
                    "c[b]": float(data.c.iloc[n] == "b"),
                    "c[d]": float(data.c.iloc[n] == "d"),
                }[name]
        wide.append(Z.reshape(N, -1))
    return np.hstack(wide)


@pytest.mark.parametrize(
    ("bars", "expected"),
    {
        "(1|g)": [("1|g", "g", ("1",))],
        "(x|g)": [("g", "g", ("1", "x"))],
        "(0 + x|g)": [("x|g", "g", ("x",))],
        "(x||g)": [("1|g", "g", ("1",)), ("x|g", "g", ("x",))],
        "(1|g) + (0 + x|g)": [("1|g", "g", ("1",)), ("x|g", "g", ("x",))],
        "(c|h)": [("h", "h", ("1", "c[b]", "c[d]"))],
        "(0 + c||h)": [
            ("c[a]|h", "h", ("c[a]",)),
            ("c[b]|h", "h", ("c[b]",)),
            ("c[d]|h", "h", ("c[d]",)),
        ],
        "(1|g/h)": [("1|g", "g", ("1",)), ("1|g:h", "g:h", ("1",))],
        "(1|g) + (1|h) + (x|h:g)": [
            ("1|g", "g", ("1",)),
            ("1|h", "h", ("1",)),
            ("h:g", "h:g", ("1", "x")),
        ],
        "(x|g) + (0 + w + c|g)": [
            ("1 + x|g", "g", ("1", "x")),
            ("w + c[a] + c[b] + c[d]|g", "g", ("w", "c[a]", "c[b]", "c[d]")),
        ],
    }.items(),
)
def test_terms_by_hand(bars: str, expected: list, data: pd.DataFrame) -> None:
    design = build(f"y ~ 1 + {bars}", data, "gaussian")
    assert [(term.name, term.group, term.coefficients) for term in design.terms] == expected
    assert len({factor.name for factor in design.factors}) == len(design.factors)
    wide = []
    for term in design.terms:
        factor = design.factors[term.factor]
        assert factor.name == term.group
        assert factor.codes.dtype == np.int32
        indicator = np.eye(len(factor.levels))[factor.codes]
        wide.append((indicator[:, :, None] * term.R[:, None, :]).reshape(N, -1))
    np.testing.assert_array_equal(np.hstack(wide), terms_by_hand(design, data))


def test_levels_are_sorted_and_occur(data: pd.DataFrame) -> None:
    design = build("y ~ (1|g) + (1|k) + (1|h:g)", data, "gaussian")
    g, k, hg = design.factors
    assert g.levels.tolist() == sorted(data.g.unique())
    assert k.levels.tolist() == ["lo", "hi"]  # a categorical's own order, empty categories left out
    assert all(":" in level for level in hg.levels)
    for factor in design.factors:
        assert sorted(set(factor.codes)) == list(range(len(factor.levels)))


def test_whole_floats_are_labels(data: pd.DataFrame) -> None:
    """A group read from a file with gaps is stored as floats; its labels are whole all the same."""
    as_floats = build("y ~ (1|g)", data.assign(g=data.g.astype(float)), "gaussian")
    assert as_floats.factors[0].levels.tolist() == sorted(data.g.unique())
    halves = build("y ~ (1|g)", data.assign(g=data.g / 2), "gaussian")
    np.testing.assert_array_equal(halves.factors[0].codes, as_floats.factors[0].codes)


def test_offsets_add_up(data: pd.DataFrame) -> None:
    design = build("count ~ x + offset(log(time)) + offset(w)", data, "poisson")
    np.testing.assert_allclose(design.offset, np.log(data.time) + data.w, rtol=1e-14)
    assert build("count ~ x", data, "poisson").offset is None


def test_responses(data: pd.DataFrame) -> None:
    design = build("prop(count, count + size) ~ x", data, "binomial")
    np.testing.assert_array_equal(design.y, data["count"])
    np.testing.assert_array_equal(design.trials, data["count"] + data["size"])
    np.testing.assert_array_equal(
        build("prop(flag, 3) ~ x", data, "binomial").trials, np.full(N, 3)
    )
    np.testing.assert_array_equal(build("flag ~ x", data, "binomial").trials, np.ones(N))
    bernoulli = build("flag ~ x", data, "bernoulli")
    np.testing.assert_array_equal(bernoulli.y, data.flag.astype(float))
    assert bernoulli.trials is None
    logged = build("log(time) + w ~ x", data, "gaussian")
    np.testing.assert_allclose(logged.y, np.log(data.time) + data.w, rtol=1e-14)


def test_observation_level_effect(data: pd.DataFrame) -> None:
    design = build("count ~ x + (1|g) + (1|row)", data, "poisson")
    assert design.observation == 1
    assert design.factors[1].name == "row"
    assert build("count ~ x + (1|g)", data, "poisson").observation is None
    assert build("count ~ (0 + x|row)", data, "poisson").observation is None


def same(one: Design, other: Design) -> None:
    assert one.names == other.names
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(one.offset, other.offset)
    for a, b in zip(one.terms, other.terms, strict=True):
        assert (a.name, a.coefficients, a.factor) == (b.name, b.coefficients, b.factor)
        np.testing.assert_array_equal(a.R, b.R)
    for c, d in zip(one.factors, other.factors, strict=True):
        np.testing.assert_array_equal(c.codes, d.codes)
        assert c.levels.tolist() == d.levels.tolist()


EVERYTHING = "y ~ x*c + k + flag + bs(w, df=4) + (x|g) + (1|h/c) + (1|k:h) + offset(log(time))"


def test_pandas_polars_and_mapping_are_one(data: pd.DataFrame) -> None:
    pandas = build(EVERYTHING, data, "gaussian")
    enum = pl.Enum(["lo", "mid", "hi"])
    polars = pl.DataFrame(
        {name: data[name].tolist() for name in data},
        schema_overrides={"k": enum, "h": pl.Categorical},
    )
    same(pandas, build(EVERYTHING, polars, "gaussian"))
    mapping = {name: data[name].to_numpy() for name in data} | {"k": data.k, "y": list(data.y)}
    same(pandas, build(EVERYTHING, mapping, "gaussian"))
    nullable = data.convert_dtypes()
    same(pandas, build(EVERYTHING, nullable, "gaussian"))
    objects = data.astype({"x": object, "g": object, "flag": object})
    same(pandas, build(EVERYTHING, objects, "gaussian"))


@pytest.mark.parametrize(
    "text",
    [
        EVERYTHING,
        "y ~ poly(x, 2) + scale(w) + (scale(x)||g)",
        "y ~ cr(x, df=4) - 1 + w:C(g) + (center(x)|h) + offset(center(w))",
        "y ~ 0 + (1|g)",
    ],
)
def test_apply_repeats_the_training_rows(text: str, data: pd.DataFrame) -> None:
    """Transforms keep their state: a few rows give the same columns as all rows gave."""
    design = build(text, data, "gaussian")
    chosen = [7, 3, 3, 41]
    new = design.apply(data.drop(columns="y").iloc[chosen])
    np.testing.assert_allclose(new.X, design.X[chosen], rtol=1e-12, atol=1e-12)
    for R, term in zip(new.R, design.terms, strict=True):
        np.testing.assert_allclose(R, term.R[chosen], rtol=1e-12, atol=1e-12)
    for codes, factor in zip(new.codes, design.factors, strict=True):
        np.testing.assert_array_equal(codes, factor.codes[chosen])
    if design.offset is not None:
        np.testing.assert_allclose(new.offset, design.offset[chosen], rtol=1e-12)
    assert new.rows.tolist() == chosen


def test_unseen_levels_are_minus_one(data: pd.DataFrame) -> None:
    design = build("y ~ x + (1|g) + (1|g:h)", data[(data.g != 12) | (data.h != "v")], "gaussian")
    new = design.apply(
        {"x": np.zeros(5), "g": [10, 99, 12, 12, 10], "h": ["u", "u", "u", "v", "q"]}
    )
    g, gh = design.factors
    assert new.codes[0].tolist() == [0, -1, 2, 2, 0]
    names = gh.levels.tolist()
    assert new.codes[1].tolist() == [names.index("10:u"), -1, names.index("12:u"), -1, -1]
    assert g.levels[2] == 12


def test_trials_of_new_rows(data: pd.DataFrame) -> None:
    design = build("prop(flag, size) ~ x", data, "binomial")
    assert design.apply(data[["x"]]).trials is None
    np.testing.assert_array_equal(design.apply(data[["x", "size"]]).trials, data["size"])


def test_dropped_rows_are_counted(data: pd.DataFrame) -> None:
    gaps = data.copy().set_index(pd.Index([f"r{i}" for i in range(N)]))
    gaps.loc["r2", "x"] = np.nan
    gaps.loc["r5", "h"] = None
    gaps.loc["r9", "w"] = np.nan  # not in the formula
    design = build("y ~ x + (1|h)", gaps, "gaussian", missing="drop")
    assert design.dropped == 2
    assert design.n == N - 2
    assert design.rows.tolist() == [f"r{i}" for i in range(N) if i not in (2, 5)]
    same(design, build("y ~ x + (1|h)", data.drop(index=[2, 5]), "gaussian"))


def test_a_million_levels() -> None:
    """A factor is integer codes: nothing grows with rows times levels."""
    n = 10**6
    rng = np.random.default_rng(0)
    labels = rng.permutation(n)
    table = {"y": rng.poisson(2, n), "x": rng.normal(size=n), "g": labels}
    design = build("y ~ x + (1|g)", table, "poisson")
    np.testing.assert_array_equal(design.factors[0].codes, labels)
    assert design.observation == 0
    codes = design.apply({"x": [0.0, 0.0], "g": [5, n]}).codes[0]
    assert codes.tolist() == [5, -1]


def test_levels_that_look_like_marks(data: pd.DataFrame) -> None:
    """A category called 'T.b' keeps its name."""
    design = build(
        "y ~ 0 + c", data.assign(c=data.c.map({"a": "a", "b": "T.b", "d": "d"})), "gaussian"
    )
    assert design.names == ["c[T.b]", "c[a]", "c[d]"]


def test_triangle_of_blocks_has_the_gram_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lrvb.estimators.mixed.design.rank.CHUNK", 7)
    X = np.random.default_rng(0).normal(size=(40, 3))
    center, spread = X.mean(axis=0), X.std(axis=0)
    R = triangle(X, center, spread)
    S = (X - center) / spread
    np.testing.assert_allclose(R.T @ R, S.T @ S, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_separation_against_brute_force(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns with small whole entries: every direction that can separate is on a fine circle."""
    monkeypatch.setattr("lrvb.estimators.mixed.design.separation.BATCH", 2)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 9))
    X = np.column_stack([np.ones(n), rng.integers(-3, 4, n)]).astype(float)
    sign = rng.choice([-1.0, 1.0], n)
    bound = rng.random(n) < 0.15
    # Edges of the cone {b: sign·Xb ≥ 0} are orthogonal to rows; the circle's other points lie between.
    edges = [direction for x in X for direction in ([-x[1], x[0]], [x[1], -x[0]])]
    between = [np.add(a, b) for a in edges for b in edges]
    candidates = np.array([*edges, *between, [1, 0], [-1, 0]], dtype=float)
    gains = sign * (candidates @ X.T)
    works = (gains >= 0).all(axis=1) & (gains[:, bound] == 0).all(axis=1) & (gains > 0).any(axis=1)
    b = separating_direction(X, sign, bound)
    assert (b is not None) == works.any()
    if b is not None:
        gain = sign * (X @ b)
        assert gain.min() > -1e-6
        assert gain.max() > 1e-6
        assert np.abs(gain[bound]).max(initial=0) < 1e-6
