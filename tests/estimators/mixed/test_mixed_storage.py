"""A mixed model in a file: what it answers after loading, and what a file may not be."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.errors import InvalidData, InvalidModel

N = 150


def square(x):
    return x**2


def frame():
    rng = np.random.default_rng(8)
    g, x = rng.integers(0, 9, N), rng.uniform(1, 4, N)
    eta = 0.2 + 0.3 * x + rng.normal(0, 0.7, 9)[g]
    return pd.DataFrame(
        {
            "x": x,
            "arm": rng.choice(["a", "b"], N),
            "g": g + 100,
            "y": eta + rng.normal(0, 0.6, N),
            "count": rng.poisson(np.exp(eta)),
        }
    )


DATA = frame()
FITS = {
    "gaussian": ("y ~ center(x) + arm + (log(x)|g)", "gaussian", "blocked"),
    "poisson": ("count ~ bs(x, df=4) + arm + (1|g)", "poisson", "blocked"),
    "variational": ("count ~ x + f(x) + (1|g)", "poisson", "variational"),
}


@pytest.fixture(scope="module", params=FITS)
def pair(request, tmp_path_factory):
    formula, family, how = FITS[request.param]
    functions = {"f": square} if "f(x)" in formula else None
    model = lrvb.MixedModel(formula, family, factorization=how, functions=functions).fit(DATA)
    path = model.save(tmp_path_factory.mktemp("models") / "model.npz")
    return model, lrvb.load(path, functions=functions), path


def test_tables_are_the_same(pair):
    model, loaded, _ = pair
    assert isinstance(loaded, lrvb.MixedModel)
    table, again = model.summary(), loaded.summary()
    numbers = ["mean", "sd", "mfvb_sd", "lower", "upper"]
    assert_allclose(again[numbers], table[numbers], rtol=1e-9)
    assert again["verdict"].tolist() == table["verdict"].tolist()
    assert repr(again).split("\n")[:4] == repr(table).split("\n")[:4]
    assert "Priors" in repr(again)
    columns = ["mean", "sd", "mfvb_sd"]
    assert_allclose(loaded.ranef()[columns], model.ranef()[columns], rtol=1e-9)
    assert loaded.ranef().index.equals(model.ranef().index)
    assert_allclose(loaded.vcov(), model.vcov(), rtol=1e-9)


def test_predictions_of_known_and_new_levels(pair):
    """On the link's scale the means of known levels are exact; sds within draws' five errors."""
    model, loaded, _ = pair
    new = DATA.iloc[:12].copy()
    exact, found = (m.predict(new, scale="link", interval=0.8) for m in (model, loaded))
    assert_allclose(found["mean"], exact["mean"], rtol=1e-5, atol=1e-5)
    assert_allclose(found["sd"], exact["sd"], rtol=0.12)
    for end in ("lower", "upper"):
        assert (abs(found[end] - exact[end]) < 0.2 * exact["sd"]).all()
    new.loc[new.index[:4], "g"] = 999
    with pytest.warns(lrvb.NewLevels):
        exact = model.predict(new, interval=0.8)
    with pytest.warns(lrvb.NewLevels):
        found = loaded.predict(new, interval=0.8)
    for end in ("lower", "upper"):
        assert (abs(found[end] - exact[end]) < 0.2 * exact["sd"]).all()
    assert (abs(found["mean"] - exact["mean"]) < 0.15 * exact["sd"]).all()
    assert_allclose(found["sd"], exact["sd"], rtol=0.12)
    for options in ({"scale": "link"}, {"kind": "response"}):
        with pytest.warns(lrvb.NewLevels):
            exact, found = (m.predict(new, **options) for m in (model, loaded))
        assert (abs(found["mean"] - exact["mean"]) < 0.15 * exact["sd"]).all()
        assert_allclose(found["sd"], exact["sd"], rtol=0.12)
    response = loaded.predict(DATA.iloc[:3], kind="response", interval=0.9)
    assert (response["lower"] < response["upper"]).all()
    assert_allclose(response["sd"], model.predict(DATA.iloc[:3], kind="response")["sd"], rtol=0.1)


def test_draws_and_marginal_effects_after_loading(pair):
    model, loaded, _ = pair
    draws = loaded.draws(500, seed=1)
    assert draws["1|g"].shape == (500, 9)
    found = loaded.comparisons({"x": (2, 3)}, by=True, new_data=DATA)
    exact = model.comparisons({"x": (2, 3)}, by=True)
    assert (abs(found["mean"] - exact["mean"]) < 0.2 * exact["sd"]).all()
    with pytest.raises(InvalidData, match="new_data"):
        loaded.predict()
    with pytest.raises(InvalidData, match="new_data"):
        loaded.residuals()
    with pytest.raises(InvalidData, match="no column 'x'"):
        loaded.predict(DATA.iloc[:2].drop(columns="x"))
    if model.factorization == "blocked":
        with pytest.raises(InvalidData, match="read from a file"):
            loaded.loo()


def test_ordered_categories_after_loading(tmp_path):
    """Thresholds, labels and the missing intercept are in the file; probabilities within draws' errors."""
    rating = pd.Categorical.from_codes(
        np.digitize(DATA["y"], [0.5, 1.5]), ["low", "mid", "high"], ordered=True
    )
    data = DATA.assign(rating=rating)
    model = lrvb.MixedModel("rating ~ x + arm + (1|g)", "cumulative").fit(data)
    loaded = lrvb.load(model.save(tmp_path / "ordinal.npz"))
    assert_allclose(loaded.summary()["mean"], model.summary()["mean"], rtol=1e-9)
    exact, found = (m.predict(data.iloc[:6], kind="probability") for m in (model, loaded))
    assert list(found) == list(exact) == ["low", "mid", "high"]
    assert_allclose(found.sum(axis=1), 1)
    assert_allclose(found, exact, atol=5 * 0.5 / np.sqrt(2000))
    for how in ({"scale": "link"}, {"kind": "response"}, {"groups": "none"}):
        exact, found = (m.predict(data.iloc[:6], **how) for m in (model, loaded))
        assert (abs(found["mean"] - exact["mean"]) < 0.15 * exact["sd"]).all()


def test_a_file_has_no_rows_and_no_pickle(pair):
    """Nothing in it is as long as the data, and nothing is an object."""
    _, _, path = pair
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            with file.open(name) as member:
                array = np.lib.format.read_array(member, allow_pickle=False)
            assert N not in array.shape
            if name == "header.npy":
                assert "mixed" in json.loads(str(array))


def test_functions_and_families_of_your_own_are_asked_for(pair):
    model, _, path = pair
    if model.functions:
        with pytest.raises(InvalidData, match="your own function 'f'"):
            lrvb.load(path)
    with pytest.raises(InvalidData, match="has family="):
        lrvb.load(path, family=lrvb.likelihoods.BINOMIAL, functions=model.functions)


def test_what_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(InvalidModel, match="call fit"):
        lrvb.MixedModel("y ~ x + (1|g)").save(tmp_path / "m.npz")


def test_a_damaged_file_is_refused(pair, tmp_path):
    """Draws of another shape than the design's."""
    model, _, path = pair
    with np.load(path) as arrays:
        content = dict(arrays)
    content["draws/effects/0"] = content["draws/effects/0"][:, :-1]
    broken = tmp_path / "broken.npz"
    np.savez(broken, **content)
    with pytest.raises(InvalidData, match="damaged"):
        lrvb.load(broken, functions=model.functions)
