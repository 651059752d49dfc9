"""A formula computes with columns and functions of a closed list, and with nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.estimators.mixed.design.design import build

RNG = np.random.default_rng(5)
N = 80
DATA = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "a b": RNG.normal(size=N),
        "c": RNG.choice(list("uvw"), N),
        "g": RNG.integers(0, 8, N) + 4600,
    }
)
DATA["y"] = DATA.x + RNG.normal(size=8)[DATA.g - 4600] + 0.3 * RNG.normal(size=N)

REFUSED = [
    "{np.f2py.os.system('true')}",
    "I(x.to_csv('written.csv'))",
    "x.values",
    "np.linalg.norm(x)",
    "np.load('f')",
    "np.sin(x, x)",
    "np.add(x, x, out=x)",
    "I((lambda: x)())",
    "I([v for v in x])",
    "I(x[0])",
    "I(x if True else x)",
    "I(f'{x}')",
    "I((x := x))",
    "I(x.__class__)",
    "log(*x)",
    "np.mean(x)",
    "{().__class__.__bases__[0].__subclasses__()}",
    "Q('np').f2py",
    "eval('1')",
    "open('f')",
    "center.__globals__",
    "contr.treatment.__init__()",
]

ACCEPTED = [
    "log(abs(x) + 1) + np.sin(x) + I(x**2)",
    "center(x) + scale(`a b`)",
    "poly(x, 2) + C(c)",
    "bs(x, df=4)",
    "0 + cr(x, df=3)",
    "C(c, contr.treatment(base='v'))",
    "C(c, Sum)",
    "{x + 2 * `a b`} + {np.where(x > 0, x, 0)}",
    "np.exp(-np.pi * abs(x)) + C(x > 0)",
    "x * c + x:`a b`",
]


@pytest.mark.parametrize("piece", REFUSED)
@pytest.mark.parametrize(
    "formula",
    ["y ~ {} + (1|g)", "y ~ x + (0 + {}|g)", "y ~ x + offset({}) + (1|g)", "{} ~ x + (1|g)"],
)
def test_anything_else_is_a_sentence(
    piece: str, formula: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.system", lambda command: pytest.fail("reached the shell"))
    before = DATA.copy()
    with pytest.raises(lrvb.LrvbError):
        build(formula.replace("{}", piece), DATA, "gaussian")
    assert not list(tmp_path.iterdir())
    pd.testing.assert_frame_equal(DATA, before)


@pytest.mark.parametrize("piece", ACCEPTED)
def test_transforms_of_the_list_work_on_new_rows_as_in_the_fit(piece: str) -> None:
    design = build(f"y ~ {piece} + (1|g)", DATA, "gaussian")
    np.testing.assert_allclose(design.apply(DATA[:20]).X, design.X[:20], rtol=1e-12, atol=1e-14)


def test_functions_of_ones_own() -> None:
    own: Any = {"cubed": lambda x: x**3}
    design = build("y ~ cubed(x) + (1|g)", DATA, "gaussian", functions=own)
    np.testing.assert_allclose(design.X[:, 1], DATA.x**3)
    np.testing.assert_allclose(design.apply(DATA[:5]).X, design.X[:5])
    for wrong in ({"cubed": 3}, {"log": np.log}, {"a b": np.sin}, [np.sin]):
        with pytest.raises(lrvb.InvalidModel, match="functions"):
            build("y ~ x + (1|g)", DATA, "gaussian", functions=wrong)
    with pytest.raises(lrvb.InvalidModel, match="returned None"):
        build("y ~ gone(x) + (1|g)", DATA, "gaussian", functions={"gone": lambda x: None})


@pytest.fixture(scope="module")
def model() -> lrvb.MixedModel:
    return lrvb.MixedModel("y ~ x + (1|g)").fit(DATA)


@pytest.mark.parametrize("kind", [str, int, float, "category", "str-category", object])
@pytest.mark.filterwarnings("error::lrvb.errors.NewLevels")
def test_a_level_is_the_same_in_every_type(model: lrvb.MixedModel, kind: Any) -> None:
    new = DATA[:10].copy()
    truth = model.predict(new)
    new["g"] = (
        new.g.astype(str).astype("category") if kind == "str-category" else new.g.astype(kind)
    )
    pd.testing.assert_frame_equal(model.predict(new), truth)
    text = lrvb.MixedModel("y ~ x + (1|g)").fit(DATA.astype({"g": str}))
    pd.testing.assert_frame_equal(text.predict(new), truth)


def test_new_levels_are_told(model: lrvb.MixedModel) -> None:
    new = pd.DataFrame({"x": 0.0, "g": [4601, 99, 99, 98]})
    with pytest.warns(
        lrvb.errors.NewLevels, match="3 of 4 rows belong to 2 levels of 'g'.*'99', '98'"
    ):
        model.predict(new)
