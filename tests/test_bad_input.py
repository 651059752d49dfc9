"""Bad input: one clear sentence that names column, row, value and remedy, before any work starts."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.models import NormalPoisson, RandomSlope
from lrvb.numerics import program as compiled

N = 20
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
Y = RNG.poisson(np.exp(X))
DESIGN = np.column_stack([np.ones(N), X])
COUNTS = {"x": X, "y": Y}
GROUPED = {
    "x": DESIGN,
    "r": RNG.normal(size=N),
    "y": DESIGN @ [1.0, 2.0] + RNG.normal(size=N),
    "group": np.repeat(np.arange(5), 4),
}
TILTED, GAUSSIAN, SLOPE = NormalPoisson(), NormalPoisson(local="gaussian"), RandomSlope()


class Measurements(lrvb.Model):
    """y_n ~ N(μ, 1/τ), as a user would state it."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}

    def global_term(self, m):
        return -m.mu.xx / 20 - m.tau.x

    def local_term(self, m, z, row):
        return (m.tau.log_x - m.tau.x * (row.y**2 - 2 * row.y * m.mu.x + m.mu.xx)) / 2


def stated(**parts: Any) -> lrvb.Model:
    """`Measurements` with some of its parts replaced."""
    return type("Stated", (Measurements,), parts)()


@contextlib.contextmanager
def refused(error: type[Exception], *fragments: str) -> Iterator[Any]:
    """The block raises `error` with one sentence or two that contain the fragments, uncompiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_executable", _must_not_compile)
        with pytest.raises(error) as caught:
            yield caught
    _check_sentence(caught.value, fragments)


def _must_not_compile(*args: Any) -> None:
    raise AssertionError("compiled before the input was refused")


def _check_sentence(error: BaseException, fragments: tuple[str, ...]) -> None:
    text = str(error)
    assert isinstance(error, lrvb.LrvbError)
    assert "\n" not in text
    assert len(text) < 500
    assert text.endswith((".", "?"))
    for fragment in fragments:
        assert fragment in text


def put(column: np.ndarray, where: Any, value: Any, dtype: Any = None) -> np.ndarray:
    """A copy of a column with one value replaced."""
    column = np.array(column, dtype=dtype)
    column[where] = value
    return column


# ---- values --------------------------------------------------------------------------------

TARGETS = {
    "NormalPoisson.x": (TILTED, COUNTS, "x"),
    "NormalPoisson.y": (GAUSSIAN, COUNTS, "y"),
    "RandomSlope.x": (SLOPE, GROUPED | {"x": X}, "x"),
    "RandomSlope.r": (SLOPE, GROUPED, "r"),
    "RandomSlope.y": (SLOPE, GROUPED, "y"),
    "user.y": (Measurements(), {"y": X}, "y"),
}

VALUES: dict[str, tuple[Callable[[np.ndarray], Any], tuple[str, ...]]] = {
    "nan": (lambda c: put(c, 3, np.nan, float), ("row 3", "nan", "finite", "Drop or fill")),
    "inf": (lambda c: put(c, 3, -np.inf, float), ("row 3", "-inf", "finite", "Drop or fill")),
    "text": (lambda c: ["a"] * len(c), ("row 0", "'a'", "not a number", "Convert")),
    "numbers as text": (lambda c: c.astype(str), ("row 0", "not a number", "Convert")),
    "pandas text": (lambda c: pd.Series(["a"] * len(c), dtype="string"), ("row 0", "'a'")),
    "None": (lambda c: put(c, 3, None, object), ("row 3", "None", "not a number")),
    "NA": (lambda c: pd.array([1, 2, 3, None] * 5, dtype="Int64"), ("row 3",)),
    "masked": (lambda c: np.ma.masked_array(c, mask=np.arange(N) == 3), ("row 3", "masked")),
    "datetime": (lambda c: pd.date_range("2020", periods=N), ("datetime64", "real numbers")),
    "timedelta": (lambda c: np.arange(N).astype("m8[s]"), ("timedelta64", "real numbers")),
    "complex": (lambda c: c + 0j, ("complex128", "real numbers", "Convert")),
    "structured": (lambda c: np.zeros(N, dtype=[("a", float)]), ("real numbers",)),
    "objects": (lambda c: [{}] * N, ("row 0", "{}", "not a number")),
    "ragged": (lambda c: [[1], [1, 2]] * 10, ("differ in length",)),
    "one value": (lambda c: 3.0, ("single value 3.0", "one value per row")),
    "a word": (lambda c: "abc", ("single value 'abc'",)),
    "None alone": (lambda c: None, ("single value None",)),
    "a set": (lambda c: {1, 2}, ("single value {1, 2}",)),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("target", TARGETS)
def test_a_bad_value_is_named(target: str, value: str) -> None:
    """InvalidData names the column, and the row and the value where there is one."""
    model, data, column = TARGETS[target]
    spoil, fragments = VALUES[value]
    with refused(lrvb.InvalidData, f"olumn '{column}'", *fragments) as caught:
        lrvb.infer(model, {**data, column: spoil(np.asarray(data[column]))})
    assert caught.value.column == column
    if "row 3" in fragments:
        assert caught.value.row == 3


@pytest.mark.parametrize("target", TARGETS)
def test_columns_of_different_length(target: str) -> None:
    model, data, column = TARGETS[target]
    short = np.asarray(data[column])[:-1]
    with refused(lrvb.InvalidData, f"'{column}' has 19", "20", "one value per row"):
        lrvb.infer(model, {**data, column: short, "more": X})


def test_an_entry_of_a_row_is_named() -> None:
    with refused(lrvb.InvalidData, "Column 'x', row 3, entry [1]", "nan"):
        lrvb.infer(SLOPE, {**GROUPED, "x": put(DESIGN, (3, 1), np.nan)})


@pytest.mark.parametrize("value", [-1, 2.5, 2.0**60])
def test_counts_are_counts(value: float) -> None:
    with refused(lrvb.InvalidData, "Column 'y', row 3", "counts", "Correct or drop") as caught:
        lrvb.infer(TILTED, {"x": X, "y": put(Y, 3, value, float)})
    assert caught.value.value == value


@pytest.mark.parametrize(
    ("model", "data", "column"), [(TILTED, COUNTS, "x"), (SLOPE, GROUPED, "y")]
)
def test_a_number_whose_square_overflows(model: Any, data: Any, column: str) -> None:
    with refused(lrvb.InvalidData, f"Column '{column}', row 3", "1e+200", "too large", "Rescale"):
        lrvb.infer(model, {**data, column: put(data[column], 3, 1e200, float)})


def test_a_long_value_is_shown_in_short() -> None:
    with refused(lrvb.InvalidData, "row 0", "…"):
        lrvb.infer(Measurements(), {"y": np.array(["long " * 1000] * N, dtype=object)})


# ---- tables --------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [TILTED, SLOPE, Measurements()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    ("data", "fragments"),
    [
        (np.ones((N, 2)), ("ndarray", "mapping of equally long columns")),
        ([X, Y], ("list", "mapping")),
        ("data.csv", ("str", "mapping")),
        (pd.Series(X), ("Series", "mapping")),
        (None, ("data are None", "mapping of columns")),
        ({}, ("no column",)),
        ({"q": X}, ("no column '", "the columns are 'q'", "Add it or rename")),
        ({name: [] for name in ("x", "r", "y", "group")}, ("no rows",)),
        (pd.DataFrame(columns=["x", "r", "y", "group"]), ("no rows",)),
    ],
    ids=["array", "list", "text", "series", "None", "empty", "missing", "no rows", "empty frame"],
)
def test_a_table_that_is_none(model: Any, data: Any, fragments: tuple[str, ...]) -> None:
    with refused(lrvb.InvalidData, *fragments):
        lrvb.infer(model, data)


def test_two_columns_of_one_name() -> None:
    frame = pd.DataFrame(COUNTS)
    with refused(lrvb.InvalidData, "more than one column 'x'", "rename"):
        lrvb.infer(TILTED, pd.concat([frame, frame[["x"]]], axis=1))
    with refused(lrvb.InvalidData, "more than one column '1'"):
        lrvb.infer(Measurements(), {1: X, "1": X})


def test_series_that_do_not_match_are_not_guessed() -> None:
    """pandas would align them by label, NumPy by position; we ask."""
    there = pd.Series(Y, index=np.arange(N)[::-1])
    with refused(lrvb.InvalidData, "'x' and 'y' have different row labels", "to_numpy"):
        lrvb.infer(TILTED, {"x": pd.Series(X), "y": there})


def test_rows_are_checked() -> None:
    with refused(lrvb.InvalidData, "3 labels for 20 rows"):
        lrvb.Rows({"y": X}, labels=[1, 2, 3])
    for weights in (np.ones(3), -np.ones(N), np.full(N, np.nan)):
        with refused(lrvb.InvalidData, "weights must be 20 finite numbers"):
            lrvb.Rows({"y": X}, weights=weights)


def test_columns_that_no_term_reads_may_hold_anything() -> None:
    frame = pd.DataFrame(
        {
            "name": ["a"] * N,
            "when": pd.date_range("2020", periods=N),
            "missing": pd.array([None] * N, dtype="Int64"),
            "nan": np.full(N, np.nan),
            "complex": X + 0j,
            "mixed": [None, "a"] * (N // 2),
            "y": X,
        }
    )
    alone = lrvb.infer(Measurements(), {"y": X})
    pd.testing.assert_frame_equal(lrvb.infer(Measurements(), frame).summary(), alone.summary())


# ---- values that are fine ------------------------------------------------------------------

SAME_COUNTS = {
    "list": Y.tolist(),
    "uint8": Y.astype(np.uint8),
    "float16": Y.astype(np.float16),
    "objects": Y.astype(object),
    "decimals": [Decimal(int(y)) for y in Y],
    "jax": jnp.asarray(Y),
    "nullable": pd.array(Y.tolist(), dtype="Int64"),
    "sparse": pd.arrays.SparseArray(Y),
    "categories": pd.Categorical(Y),
    "masked nowhere": np.ma.masked_array(Y, mask=False),
    "series": pd.Series(Y, index=range(100, 100 + N)),
}


@pytest.mark.parametrize("kind", SAME_COUNTS)
def test_the_same_numbers_in_other_containers(kind: str) -> None:
    expected = lrvb.infer(TILTED, COUNTS)
    got = lrvb.infer(TILTED, {"x": X, "y": SAME_COUNTS[kind]})
    pd.testing.assert_frame_equal(got.summary(), expected.summary())


def test_booleans_count_as_zero_and_one() -> None:
    expected = lrvb.infer(Measurements(), {"y": (X > 0).astype(float)})
    for column in (X > 0, pd.array(X > 0, dtype="boolean")):
        got = lrvb.infer(Measurements(), {"y": column})
        np.testing.assert_allclose(got.cov(), expected.cov(), rtol=1e-12)


def test_narrow_integers_do_not_wrap_around() -> None:
    """In eight bits 0 − 5 is 251; a user's terms see wide integers."""
    shifted = stated(
        local_term=lambda self, m, z, row: (
            (m.tau.log_x - m.tau.x * ((row.y - 5) ** 2 - 2 * (row.y - 5) * m.mu.x + m.mu.xx)) / 2
        )
    )
    wide = lrvb.infer(shifted, {"y": Y.astype(np.int64)})
    narrow = lrvb.infer(shifted, {"y": Y.astype(np.uint8)})
    assert wide.mean("mu").item() < 0
    np.testing.assert_array_equal(narrow.mean(), wide.mean())


# ---- extreme but right ---------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e8, 1e-8])
@pytest.mark.parametrize("model", [NormalPoisson, RandomSlope], ids=lambda m: m.__name__)
def test_units_of_x_do_not_matter(model: Any, scale: float) -> None:
    """With β's prior in the same units the answer is the same, β divided by the scale."""
    data = COUNTS if model is NormalPoisson else GROUPED
    scaled = {**data, "x": data["x"] * scale}
    for options in [{"local": "gaussian"}, {"local": "tilted"}] if model is NormalPoisson else [{}]:
        ours = lrvb.infer(model(beta_var=10.0, **options), data, certify=False)
        theirs = lrvb.infer(model(beta_var=10.0 / scale**2, **options), scaled, certify=False)
        ours, theirs = (p.summary().drop(columns="verdict") for p in (ours, theirs))
        beta = [name for name in ours.index if name.startswith("beta")]
        theirs.loc[beta] *= scale
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_units_that_the_prior_does_not_follow(scale: float) -> None:
    """Then the answer is another one: β without a prior, or β as the prior has it."""
    posterior = lrvb.infer(TILTED, {"x": X * scale, "y": Y})
    assert posterior.converged
    expected = lrvb.infer(NormalPoisson(beta_var=10 * scale**2), COUNTS)
    np.testing.assert_allclose(posterior.sd() * [scale, 1, 1], expected.sd(), rtol=1e-6)


def test_columns_of_zeros_leave_the_prior() -> None:
    """β without data, and ν without random effects, keep their priors exactly."""
    for model in (TILTED, GAUSSIAN):
        posterior = lrvb.infer(model, {"x": np.zeros(N), "y": Y})
        np.testing.assert_allclose(posterior.sd("beta"), np.sqrt(10), rtol=1e-9)
        np.testing.assert_allclose(posterior.mean("beta"), 0, atol=1e-12)
    posterior = lrvb.infer(SLOPE, {**GROUPED, "x": np.zeros((N, 2))})
    np.testing.assert_allclose(posterior.sd("beta"), np.sqrt(10), rtol=1e-9)
    posterior = lrvb.infer(SLOPE, {**GROUPED, "r": np.zeros(N)})
    np.testing.assert_allclose(posterior.mean("nu"), 1.0, rtol=1e-9)
    np.testing.assert_allclose(posterior.sd("nu"), np.sqrt(0.5), rtol=1e-9)


@pytest.mark.parametrize("model", [TILTED, GAUSSIAN], ids=["tilted", "gaussian"])
@pytest.mark.parametrize(
    "data",
    [
        {"x": np.ones(N), "y": Y},
        {"x": X, "y": 0 * Y},
        {"x": X, "y": 1_000_000 * Y},
        {"x": np.ones(N), "y": 1_000_000 + Y},
        {"x": X[:1], "y": Y[:1]},
    ],
    ids=["constant x", "no events", "many events", "many alike", "one row"],
)
def test_extreme_counts_converge(model: Any, data: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = lrvb.infer(model, data)
    assert posterior.converged
    summary = posterior.summary()
    assert np.isfinite(summary.drop(columns="verdict")).all(axis=None)
    assert (summary["sd"] >= summary["mfvb_sd"] * (1 - 1e-9)).all()


def test_one_row_and_one_group() -> None:
    posterior = lrvb.infer(SLOPE, {name: column[:1] for name, column in GROUPED.items()})
    assert posterior.converged
    assert posterior.local("z").sizes["group"] == 1


def test_collinear_columns() -> None:
    """Two copies of a column share one coefficient, whose prior has twice the variance."""
    twice = lrvb.infer(SLOPE, {**GROUPED, "x": np.column_stack([X, X])})
    once = lrvb.infer(RandomSlope(beta_var=20.0), {**GROUPED, "x": X})
    together = twice.of(lambda m: m.beta.x.sum())
    np.testing.assert_allclose(together, once.cov("beta[0]").iloc[0, 0], rtol=1e-8)
    np.testing.assert_allclose(twice.sd("tau"), once.sd("tau"), rtol=1e-8)


def test_a_large_offset_is_reported() -> None:
    """Differences from 1e8 are lost to rounding: no number without a warning."""
    with pytest.warns(lrvb.NotConverged, match="centre columns with a large offset"):
        lrvb.infer(RandomSlope(beta_var=1e20), {**GROUPED, "y": GROUPED["y"] + 1e7})


# ---- groups --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "missing",
    [
        put(GROUPED["group"], 3, np.nan, float),
        put(GROUPED["group"], 3, None, object),
        pd.array([0, 1, 2, None] * 5, dtype="Int64"),
        np.ma.masked_array(GROUPED["group"], mask=np.arange(N) == 3),
        put(np.arange(N).astype("M8[D]"), 3, "NaT"),
    ],
    ids=["nan", "None", "NA", "masked", "NaT"],
)
def test_a_row_without_a_group(missing: Any) -> None:
    with refused(lrvb.InvalidData, "Column 'group', row 3", "row") as caught:
        lrvb.infer(SLOPE, {**GROUPED, "group": missing})
    assert caught.value.row == 3


@pytest.mark.parametrize(
    ("group", "fragments"),
    [
        (np.ones((N, 2)), ("shape (20, 2)", "one label per row")),
        ([{}] * N, ("cannot be compared", "numbers or text")),
        (1, ("single value 1",)),
    ],
)
def test_labels_that_are_none(group: Any, fragments: tuple[str, ...]) -> None:
    with refused(lrvb.InvalidData, "'group'", *fragments):
        lrvb.infer(SLOPE, {**GROUPED, "group": group})


def test_groups_are_named_by_their_labels() -> None:
    expected = lrvb.infer(SLOPE, GROUPED)
    words = np.array(["e", "d", "c", "b", "a"])[GROUPED["group"]]
    for labels in (words, pd.Categorical(words), words.astype(object)):
        posterior = lrvb.infer(SLOPE, {**GROUPED, "group": labels})
        np.testing.assert_allclose(posterior.sd(), expected.sd(), rtol=1e-10)
        local = posterior.local("z")
        assert list(local["group"].values) == ["a", "b", "c", "d", "e"]
        reverse = expected.local("z")["mean"].values[::-1]
        np.testing.assert_allclose(local["mean"], reverse, rtol=1e-8)


def test_a_group_of_one_row() -> None:
    posterior = lrvb.infer(SLOPE, {**GROUPED, "group": np.arange(N) // 19})
    assert posterior.converged
    assert posterior.local("z").sizes["group"] == 2


@pytest.mark.parametrize("shape", [(N, 0), (N, 2, 2)])
def test_a_design_is_a_matrix(shape: tuple[int, ...]) -> None:
    with refused(lrvb.InvalidData, "Column 'x'", str(shape), "(N, p)"):
        lrvb.infer(SLOPE, {**GROUPED, "x": np.ones(shape)})


def test_a_design_of_one_column_may_be_a_vector() -> None:
    vector = lrvb.infer(SLOPE, {**GROUPED, "x": X})
    matrix = lrvb.infer(SLOPE, {**GROUPED, "x": X[:, None]})
    assert vector.names[0] == "beta[0]"
    np.testing.assert_array_equal(vector.sd(), matrix.sd())


# ---- models --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "fragments"),
    [
        (NormalPoisson, ("NormalPoisson is a class", "NormalPoisson()")),
        ("NormalPoisson", ("str", "subclass lrvb.Model")),
        (None, ("NoneType", "subclass lrvb.Model")),
        (COUNTS, ("dict", "subclass lrvb.Model")),
        (stated(global_blocks={}), ("no global_blocks", "lrvb.Normal()")),
        (
            stated(global_blocks=[lrvb.Normal()]),
            ("global_blocks of Stated", "map names to families"),
        ),
        (stated(local_blocks=None), ("local_blocks of Stated is None", "map names")),
        (stated(global_blocks={"mu": lrvb.Normal}), ("Block 'mu'", "must be a family")),
        (stated(global_blocks={"mu": "normal"}), ("Block 'mu' is 'normal'", "must be a family")),
        (stated(global_blocks={1: lrvb.Normal()}), ("key 1", "text")),
        (stated(local_blocks={"mu": lrvb.Normal()}), ("'mu' is both global and local", "rename")),
        (stated(local_blocks={"x": lrvb.Normal()}), ("'x'", "named like its own moment", "rename")),
        (
            stated(global_blocks={"tau": lrvb.Gamma(), "log(tau)": lrvb.Normal()}),
            ("Two blocks have a quantity 'log(tau)'", "rename"),
        ),
        (
            stated(local_blocks={"z": lrvb.Normal()}, local_term=lrvb.Model.local_term),
            ("no local_term", "'z'", "write one"),
        ),
        (stated(local_term=lrvb.Model.local_term), ("no local_term", "the data", "write one")),
    ],
)
def test_a_statement_that_is_none(model: Any, fragments: tuple[str, ...]) -> None:
    with refused(lrvb.InvalidModel, *fragments):
        lrvb.infer(model, {"y": X})


TERMS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "vector": ({"global_term": lambda s, m: m.mu.x * jnp.ones(3)}, ("global_term", "shape (3,)")),
    "local vector": ({"local_term": lambda s, m, z, row: m.mu.x * jnp.ones(3)}, ("local_term",)),
    "complex": ({"global_term": lambda s, m: m.mu.x * 1j}, ("global_term", "complex128", "real")),
    "truth": ({"local_term": lambda s, m, z, row: m.mu.x > 0}, ("local_term", "bool", "real")),
    "None": ({"global_term": lambda s, m: None}, ("global_term returned None", "return missing")),
    "local None": ({"local_term": lambda s, m, z, row: None}, ("local_term returned None",)),
    "text": ({"global_term": lambda s, m: "one"}, ("global_term of Stated",)),
    "if on a moment": (
        {"global_term": lambda s, m: -m.mu.xx if m.mu.x > 0 else 0.0},
        ("global_term of Stated", "value of a moment", "jnp.where in place of if"),
    ),
    "if on a row": (
        {"local_term": lambda s, m, z, row: -m.mu.xx if row.y > 0 else 0.0},
        ("local_term of Stated", "of a row", "jnp.where in place of if"),
    ),
    "numpy": (
        {"global_term": lambda s, m: np.log(m.tau.x)},
        ("global_term of Stated", "jax.numpy in place of numpy"),
    ),
    "float": ({"global_term": lambda s, m: float(m.tau.x)}, ("global_term of Stated",)),
    "no such block": (
        {"global_term": lambda s, m: m.gamma.x},
        ("no block 'gamma'", "mu, tau", "m.tau.log_x"),
    ),
    "no such moment": (
        {"local_term": lambda s, m, z, row: m.tau.logx},
        ("local_term of Stated", "'logx'", "m.tau.log_x"),
    ),
    "no local block": (
        {"local_term": lambda s, m, z, row: z.x},
        ("local_term of Stated", "the blocks are: none"),
    ),
    "arguments": (
        {"local_term": lambda s, m, row: m.mu.x},
        ("local_term of Stated", "positional arguments"),
    ),
    "prepare": ({"prepare": lambda s, data: None}, ("prepare of Stated", "mapping of columns")),
}


@pytest.mark.parametrize("term", TERMS)
def test_a_term_that_is_none(term: str) -> None:
    parts, fragments = TERMS[term]
    with refused(lrvb.InvalidModel, *fragments):
        lrvb.infer(stated(**parts), {"y": X})


def _fails(*args: Any) -> Any:
    raise RuntimeError("my own words")


@pytest.mark.parametrize(
    "part", ["global_term", "local_term", "prepare", "global_blocks", "local_blocks"]
)
def test_the_users_own_error_survives(part: str) -> None:
    with refused(lrvb.InvalidModel, part, "Stated", "RuntimeError: my own words") as caught:
        lrvb.infer(stated(**{part: _fails}), {"y": X})
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_column_that_prepare_does_not_find() -> None:
    with refused(lrvb.InvalidData, "no column 'q'", "'y'"):
        lrvb.infer(stated(prepare=lambda self, data: {"y": data["q"]}), {"y": X})


LOCAL = {"local_blocks": {"z": lrvb.Normal()}}

NUMBERS: dict[str, tuple[dict[str, Any], type[lrvb.LrvbError], tuple[str, ...]]] = {
    "global nan": (
        {"global_term": lambda s, m: m.mu.x * jnp.nan},
        lrvb.InvalidModel,
        ("global_term", "not a number"),
    ),
    "local nan": (
        {"local_term": lambda s, m, z, row: -m.mu.xx - m.tau.x + jnp.log(row.y)},
        lrvb.InvalidModel,
        ("local_term of Stated", f"row {int(np.argmax(X < 0))} (y=-0.", "not a number"),
    ),
    "local inf": (
        {"local_term": lambda s, m, z, row: m.mu.x + jnp.inf},
        lrvb.InvalidModel,
        ("local_term of Stated", "row 0:"),
    ),
    "global sign": (
        {"global_term": lambda s, m: 100 * m.mu.xx - m.tau.x},
        lrvb.InvalidModel,
        ("Block 'mu' has no proper optimum", "signs", "prior"),
    ),
    "global sign of a scale": (
        {"global_term": lambda s, m: -m.mu.xx + 1e3 * m.tau.x},
        lrvb.InvalidModel,
        ("Block 'tau' has no proper optimum",),
    ),
    "local sign": (
        {"local_term": lambda s, m, z, row: m.tau.x * (row.y - m.mu.x) ** 2},
        lrvb.InvalidModel,
        ("no proper optimum", "signs"),
    ),
    "sign of z": (
        {**LOCAL, "local_term": lambda s, m, z, row: z.xx - row.y * z.x - m.mu.xx},
        lrvb.InvalidModel,
        ("local_term of Stated", "over z at row 0", "signs"),
    ),
    "sign of z, not conjugate": (
        {**LOCAL, "local_term": lambda s, m, z, row: jnp.exp(z.x + z.xx) - row.y * m.mu.xx},
        lrvb.InvalidModel,
        ("local_term of Stated", "over z at row 0", "signs"),
    ),
    "curvature": (
        {"global_term": lambda s, m: -m.mu.xx - m.tau.x - jnp.abs(m.mu.x) ** 1.5},
        lrvb.NotAMaximum,
        ("curvature of the ELBO is not finite", "second derivatives"),
    ),
}


# Some of these stop early on their way to the error that is tested.
@pytest.mark.filterwarnings("ignore::lrvb.NotConverged")
@pytest.mark.parametrize("case", NUMBERS)
def test_a_term_without_a_maximum(case: str) -> None:
    """What only numbers can show is said with the block or the row."""
    parts, error, fragments = NUMBERS[case]
    with pytest.raises(error) as caught:
        lrvb.infer(stated(**parts), {"y": X if case != "curvature" else np.zeros(N)})
    _check_sentence(caught.value, fragments)


class Switched(Measurements):
    """A stored number that steers an `if` is fixed instead of traced."""

    def __init__(self, flag: float):
        self.flag = flag

    def global_term(self, m):
        return super().global_term(m) * (1.0 if self.flag > 0 else 10.0)


def test_if_on_a_stored_number() -> None:
    on, off = (lrvb.infer(Switched(flag), {"y": X}) for flag in (1.0, -1.0))
    plain = lrvb.infer(Measurements(), {"y": X})
    np.testing.assert_allclose(on.sd(), plain.sd(), rtol=1e-12)
    assert off.sd("tau").item() < on.sd("tau").item()


@pytest.mark.parametrize("value", [-1, 0, np.nan, np.inf, "a", "1", None, [1, 2], 1j, True])
@pytest.mark.parametrize("model", [NormalPoisson, RandomSlope])
def test_hyperparameters(model: Any, value: Any) -> None:
    for name in ("beta_var", "tau_shape", "tau_rate"):
        with refused(lrvb.InvalidModel, f"{name}={value!r}", "positive number"):
            model(**{name: value})


def test_kinds_of_local_approximation() -> None:
    for value in ("laplace", None, ["tilted"]):
        with refused(lrvb.InvalidModel, f"local={value!r}", "'tilted' or 'gaussian'"):
            NormalPoisson(local=value)


# ---- options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("tol", [0, -1.0, np.nan, np.inf, "a", None]),
        ("max_iter", [0, -1, 2.5, np.nan, "a", None, True]),
        ("chunk_size", [0, -1, 2.5, np.inf, np.nan, "a", True]),
    ],
)
def test_options(option: str, values: list[Any]) -> None:
    for value in values:
        with refused(ValueError, f"{option}={value!r} must be"):
            lrvb.infer(TILTED, COUNTS, **{option: value})


def test_chunks_do_not_change_the_answer() -> None:
    expected = lrvb.infer(TILTED, COUNTS)
    for size in (7, np.int64(20), 10_000):
        got = lrvb.infer(TILTED, COUNTS, chunk_size=size)
        np.testing.assert_allclose(got.cov(), expected.cov(), rtol=1e-8)


def test_too_few_iterations_give_a_result_and_a_warning() -> None:
    with pytest.warns(lrvb.NotConverged, match="max_iter=1 .* Try max_iter=2") as w:
        posterior = lrvb.infer(TILTED, COUNTS, max_iter=1)
    assert w[0].filename == __file__
    assert not posterior.converged
    assert posterior.n_iter == 1
    assert "NOT converged" in repr(posterior)
    assert np.isfinite(posterior.sd()).all()


def test_progress(capfd: pytest.CaptureFixture[str]) -> None:
    lrvb.infer(TILTED, COUNTS, progress=True)
    captured = capfd.readouterr()
    assert "lrvb" in captured.err
    assert "ELBO" in captured.err
    assert captured.out == ""
    lrvb.infer(TILTED, COUNTS)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
