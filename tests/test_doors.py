"""Every door answers what cannot be used by one sentence: columns, shapes, seeds, stages, files."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.commands.cli import main

RNG = np.random.default_rng(0)
N = 90
GROUP = RNG.integers(6, size=N)
DATA = pd.DataFrame({"x": RNG.normal(size=N), "g": [f"g{k}" for k in GROUP]})
DATA["y"] = 1 + 0.5 * DATA.x + 0.5 * RNG.normal(size=6)[GROUP] + 0.5 * RNG.normal(size=N)
X = RNG.normal(size=(120, 2)) + 4.0 * RNG.integers(2, size=(120, 1))


@pytest.fixture(scope="module")
def model() -> lrvb.MixedModel:
    return lrvb.MixedModel("y ~ x + (1|g)").fit(DATA)


def _mixture(data: Any, **options: Any) -> lrvb.GaussianMixture:
    return lrvb.GaussianMixture(2, **{"random_state": 0, "certify": False, **options}).fit(data)


@pytest.mark.parametrize("formula", ["y ~ x + (1|g)", "y ~ x"])
def test_a_column_far_from_zero_has_its_effect(formula: str) -> None:
    """y ~ x and y ~ x + c are one model up to the intercept's prior: the slope has one posterior."""
    near = lrvb.MixedModel(formula).fit(DATA).summary()
    far = lrvb.MixedModel(formula).fit(DATA.assign(x=DATA.x + 1e5))
    assert_allclose(far.summary().loc["x", "mean"], near.loc["x", "mean"], rtol=1e-3)
    assert_allclose(far.summary().loc["x", "sd"], near.loc["x", "sd"], rtol=2e-3)
    middle = far.contrast("Intercept + 100000*x")  # eps × (1e5)² is lost of its variance
    assert_allclose(middle["sd"].iloc[0], near.loc["Intercept", "sd"], rtol=2e-2)


@pytest.mark.parametrize("family", ["gaussian", "student"])
@pytest.mark.parametrize("formula", ["y ~ x + (1|g)", "y ~ x", "y ~ center(x) + (x|g)"])
def test_a_column_too_far_from_zero_is_refused(formula: str, family: str) -> None:
    far = DATA.assign(x=DATA.x + 1e9)
    with pytest.raises(lrvb.InvalidData, match=r"'x' lies 1e\+09 times its spread .* center\(x\)"):
        lrvb.MixedModel(formula, family).fit(far)


def test_the_remedy_for_a_column_far_from_zero_works() -> None:
    """centre(x) is x − mean x, so that the offset is gone but for rounding."""
    formula = "y ~ center(x) + (center(x)|g)"
    near = lrvb.MixedModel(formula).fit(DATA).summary()
    far = lrvb.MixedModel(formula).fit(DATA.assign(x=DATA.x + 1e7)).summary()
    assert_allclose(far["mean"].astype(float), near["mean"].astype(float), atol=2e-3)


@pytest.mark.parametrize("column", ["x", "y"])
def test_columns_whose_squares_vanish_are_refused(column: str) -> None:
    small = DATA.assign(**{column: DATA[column] * 1e-200})
    with pytest.raises(
        lrvb.InvalidData, match=f"Column '{column}', row .* too small to be squared"
    ):
        lrvb.MixedModel("y ~ x + (1|g)").fit(small)


@pytest.mark.parametrize("formula", ["y ~ y + (1|g)", "y ~ x + z", "y ~ x + z + (1|g)"])
def test_a_response_that_is_explained_exactly_is_refused(formula: str) -> None:
    data = DATA.assign(z=2 * DATA.y - DATA.x + 3)
    with pytest.raises(lrvb.InvalidData, match="explain the response exactly"):
        lrvb.MixedModel(formula).fit(data)


def test_new_rows_have_the_kinds_of_the_fit(model: lrvb.MixedModel) -> None:
    with pytest.raises(
        lrvb.InvalidData, match="Column 'x', row 0: the value 'a' is text, but the fit"
    ):
        model.predict(DATA.assign(x="a").head(2))
    with pytest.raises(lrvb.InvalidData, match="too large to be squared"):
        model.predict(DATA.assign(x=1e300).head(2), interval=0.9)


@pytest.mark.parametrize("estimator", [lrvb.MixedModel("y ~ x"), lrvb.GaussianMixture(2)])
def test_results_before_a_fit_are_asked_for_in_vain(estimator: Any) -> None:
    """The error is one of ours and an AttributeError, so that `hasattr`, copies and pickles work."""
    for name in ("posterior_", "converged_"):
        with pytest.raises(lrvb.NotFitted, match=r"has not been fitted; call fit\(data\) first"):
            getattr(estimator, name)
        assert not hasattr(estimator, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        estimator.nothing  # noqa: B018 - the access is what is tested
    copy.deepcopy(estimator)
    pickle.loads(pickle.dumps(estimator))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (X[:0], "minimum of 2 is required"),
        (X[:, 0], "Expected 2D array, got 1D array instead: Reshape"),
        (X + 1j, "Complex data not supported; give real numbers"),
        (pd.DataFrame({"a": ["u"] * 9, "b": 1.0}), "text .* in column 'a'"),
    ],
)
def test_a_mixture_of_other_things_than_numbers(data: Any, sentence: str) -> None:
    with pytest.raises(lrvb.InvalidData, match=sentence) as caught:
        _mixture(data)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("seed", ["a", -1, 1.5])
def test_a_mixture_needs_a_seed_that_is_one(seed: Any) -> None:
    with pytest.raises(lrvb.InvalidModel, match="random_state="):
        _mixture(X, random_state=seed)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [(np.ones((120, 1)), "'2' is constant"), (X[:, :1], "'0', '2' are collinear")],
)
def test_columns_that_add_nothing_to_a_mixture(more: np.ndarray, sentence: str) -> None:
    """Two groups eight sds apart end up in one component: not without a word."""
    with pytest.warns(lrvb.CollinearColumns, match=sentence):
        _mixture(np.hstack([X, more]))


def test_stages_take_what_the_stage_before_gives() -> None:
    for stage in (lrvb.linearize, lrvb.respond, lrvb.summarize):
        with pytest.raises(lrvb.InvalidModel, match=f"{stage.__name__} takes .* not a int"):
            stage(3)  # type: ignore[arg-type] - what is tested
    with pytest.raises(lrvb.InvalidModel, match=r"has a fit of its own, model\.fit\(data\)"):
        lrvb.infer(lrvb.MixedModel("y ~ x"), DATA)  # type: ignore[arg-type] - what is tested
    with pytest.raises(lrvb.InvalidModel, match="is the class Normal"):
        lrvb.infer(type("M", (lrvb.Model,), {"global_blocks": {"b": lrvb.Normal}})(), None)


def test_a_file_without_a_mixed_model_has_no_family(tmp_path: Path) -> None:
    _mixture(X).posterior_.save(tmp_path / "p.npz")
    with pytest.raises(lrvb.InvalidModel, match="holds a posterior and no mixed model"):
        lrvb.load(tmp_path / "p.npz", family=lrvb.likelihoods.likelihood_of("poisson"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a,a\n1,2\n3,4\n", "more than one column 'a'"),
        (b"a,\xf6\n1,2\n", "save it as CSV in UTF-8"),
    ],
)
def test_csv_files_that_would_be_misread(
    tmp_path: Path, content: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.csv").write_bytes(content)
    assert main(["mixture", str(tmp_path / "data.csv"), "--components", "1"]) == 2
    assert sentence in capsys.readouterr().err
