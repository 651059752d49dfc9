"""The two regression studies, small: their tables, figures and findings, and what makes them fail."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from lrvb.studies.experiments import normal_poisson, random_slope, regression
from lrvb.studies.experiments.regression_findings import error
from lrvb.studies.reference import normal_poisson as exact_normal_poisson

SEED = 5
SMALL = {
    "normal-poisson": {"data sets": 2, "rows": 120, "kept rows": 3},
    "random-slope": {"data sets": 2, "kept groups": 4},
}
EXPERIMENTS = {e.name: e for e in (normal_poisson.EXPERIMENT, random_slope.EXPERIMENT)}
NAMES = sorted(EXPERIMENTS)


def small_settings(name):
    return {**EXPERIMENTS[name].settings(True), **SMALL[name]}


def run_all(name):
    experiment, settings = EXPERIMENTS[name], small_settings(name)
    made = [experiment.run(task, settings, SEED) for task in experiment.tasks(settings)]
    return {key: pd.concat([t[key] for t in made], ignore_index=True) for key in made[0]}


@pytest.fixture(scope="module")
def tables():
    return {name: run_all(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_settings_can_be_stored(name, quick):
    settings = EXPERIMENTS[name].settings(quick)
    assert json.loads(json.dumps(settings)) == settings
    labels = EXPERIMENTS[name].tasks(settings)
    assert len(set(labels)) == len(labels) == (10 if quick else 100)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_says_everything(name, tables):
    """A task made again, alone, gives its part of every table but the seconds."""
    again = EXPERIMENTS[name].run("data-set-002", small_settings(name), SEED)
    for key, table in again.items():
        if not key.endswith("times"):
            mine = tables[name][key].query("`data set` == 2").reset_index(drop=True)
            pd.testing.assert_frame_equal(table, mine)
    other = EXPERIMENTS[name].run("data-set-002", small_settings(name), SEED + 1)
    assert (other["globals"]["true_mean"] != again["globals"]["true_mean"]).all()


def test_the_design_is_drawn_once_and_the_parameters_are_spread():
    settings = small_settings("normal-poisson")
    first, second = (normal_poisson.make_data(settings, SEED, k) for k in (1, 2))
    np.testing.assert_array_equal(first.columns["x"], second.columns["x"])
    np.testing.assert_array_equal(first.kept, second.kept)
    assert first.drawn != second.drawn
    slope = small_settings("random-slope")
    first, second = (random_slope.make_data(slope, SEED, k) for k in (1, 2))
    for shared in ("x", "r", "group"):
        np.testing.assert_array_equal(first.columns[shared], second.columns[shared])
    assert (first.columns["y"] != second.columns["y"]).all()


@pytest.mark.parametrize("dimensions", [2, 4])
def test_the_sequence_fills_the_cube(dimensions):
    """More evenly than 100 independent draws, whose cdf is off by 0.09 and correlations by 0.1."""
    points = np.array([regression.spread(dimensions, k, seed=1) for k in range(1, 101)])
    middles = (np.arange(100) + 0.5) / 100
    assert np.abs(np.sort(points, axis=0) - middles[:, None]).max() < 0.03
    assert np.abs(np.corrcoef(points.T) - np.eye(dimensions)).max() < 0.15


@pytest.mark.parametrize("name", NAMES)
def test_every_comparison_is_there(name, tables):
    """Data sets × models × truths × quantities, without a hole but where nothing was asked for.

    The second order and the certificate are of the optimal rows alone.
    """
    models = {"normal-poisson": 2, "random-slope": 1}[name]
    quantities = {"normal-poisson": 3, "random-slope": 6}[name]
    found = tables[name]
    assert len(found["globals"]) == 2 * models * 2 * quantities
    assert len(found["locals"]) == 2 * models * 2 * SMALL[name].get("kept rows", 4)
    assert len(found["local_errors"]) == 2 * models * 2 * (quantities + 2)
    holes = found["globals"].columns[found["globals"].isna().any()]
    asked = {"second_mean", "second_sd", "certified_mean", "certified_sd", "k_hat"}
    assert set(holes) <= asked
    optimal = found["globals"].query("model != 'gaussian'")
    assert not optimal[["second_mean", "second_sd"]].isna().any(axis=None)
    assert not optimal.query("truth == 'matched'")[list(asked)].isna().any(axis=None)
    assert not found["locals"].isna().any(axis=None)
    seconds = found["times"]
    assert (seconds["seconds"] > 0).all()
    assert set(seconds["data set"]) == {1, 2}


def test_the_truths_have_the_priors_that_the_settings_say(tables):
    """Full-depth quadrature from the settings' own numbers; the saved one ends its tails earlier."""
    settings = small_settings("normal-poisson")
    data = normal_poisson.make_data(settings, SEED, 1)
    rows = tables["normal-poisson"]["globals"].query("`data set` == 1 and model == 'tilted'")
    means = []
    for truth in ("matched", "as published"):
        exact = exact_normal_poisson.exact(**data.columns, **settings["priors"][truth]["truth"])
        saved = rows[rows["truth"] == truth].set_index("quantity")
        rounding = 5e-7  # seven digits
        gap = np.abs(saved["true_mean"] - exact.mean)
        assert (gap <= 1e-6 * exact.sd + rounding * np.abs(exact.mean)).all()
        assert_allclose(saved["true_sd"], exact.sd, rtol=1e-6 + rounding)
        means.append(exact.mean["tau"])
    assert means[0] != pytest.approx(means[1], rel=1e-3)


def test_as_published_adds_one_to_the_shape():
    """q(τ) of the study's fit has shape 1 + N/2 + 1."""
    import lrvb

    settings = small_settings("normal-poisson")
    data = normal_poisson.make_data(settings, SEED, 1)
    model = normal_poisson.STUDY.models["gaussian"](**settings["priors"]["as published"]["fit"])
    posterior = lrvb.infer(model, data.columns)
    shape = (posterior.mean()["tau"] / posterior.sd(method="mfvb")["tau"]) ** 2
    assert shape == pytest.approx(settings["rows"] / 2 + 2)


@pytest.mark.parametrize("name", NAMES)
def test_figures_are_drawn_from_the_tables_as_saved(name, tables, tmp_path):
    """Tables that went through CSV give every figure, none of them empty."""
    saved = {}
    for key, table in tables[name].items():
        table.to_csv(tmp_path / f"{key}.csv", index=False)
        saved[key] = pd.read_csv(tmp_path / f"{key}.csv")
    figures = EXPERIMENTS[name].figures
    assert len({figure.name for figure in figures}) == len(figures) == 7
    for figure in figures:
        path = figure.draw(saved, tmp_path / f"{figure.name}.png")
        assert path.stat().st_size > 20_000
        assert figure.caption.endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_numbers_stand_beside_the_published_ones(name, tables):
    found = EXPERIMENTS[name].findings(tables[name], small_settings(name))
    assert found.numbers.notna()[["published", "ours"]].all(axis=None)
    mean_field = found.numbers.filter(like="MFVB", axis=0)
    matched = found.numbers.columns[found.numbers.columns.str.contains("matched")][0]
    for label in mean_field.index:
        assert (
            mean_field.loc[label, matched]
            > found.numbers.loc[label.replace("MFVB", "LRVB"), matched]
        )


def good_tables(name, spread_of_truth=1.0):
    """Tables in which linear response errs as allowed and the study's priors explain the rest."""
    comparison = {"normal-poisson": normal_poisson, "random-slope": random_slope}[name].COMPARISON
    rows = []
    for number in range(1, 6):
        for model, truth in comparison.columns.values():
            for quantity in {p.quantity for p in comparison.published} - {"z"}:
                limit = comparison.limits.get(quantity, 0.01)
                wrong = 0.5 if truth == "as published" else 0.5 * limit
                row = {"data set": number, "model": model, "truth": truth, "quantity": quantity}
                row |= {"true_sd": spread_of_truth, "sd": np.exp(-wrong), "mfvb_sd": 0.5}
                rows.append({**row, "second_sd": 1.0})
    local = {"quantity": "sd", "lrvb_median": 0.01, "lrvb_worst": 0.02}
    local |= {"mfvb_median": 0.1, "mfvb_worst": 0.2}
    locals_ = [
        {"data set": 1, "model": model, "truth": truth, **local}
        for model, truth in comparison.columns.values()
    ]
    return {"globals": pd.DataFrame(rows), "local_errors": pd.DataFrame(locals_)}


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_follows_the_tables(name):
    """Corrected; but a truth 5 % wider, or study priors that explain nothing, and it differs."""
    findings = EXPERIMENTS[name].findings
    good = findings(good_tables(name), {})
    assert good.verdict == "corrected"
    assert all(good.checks.values())

    wider = findings(good_tables(name, spread_of_truth=1.05), {})
    assert wider.verdict == "differs"
    assert not any(list(wider.checks.values())[:-1])  # every limit is below 5 %
    assert "not as near the truth" in wider.reason

    same = good_tables(name)
    published = same["globals"]["truth"] == "as published"
    same["globals"].loc[published, "sd"] = np.exp(-0.002)
    unexplained = findings(same, {})
    assert unexplained.verdict == "differs"
    assert "do not explain" in unexplained.reason


def test_each_limit_has_its_own_check():
    """One quantity off, one check fails."""
    for name in NAMES:
        comparison = {"normal-poisson": normal_poisson, "random-slope": random_slope}[
            name
        ].COMPARISON
        for quantity, limit in comparison.limits.items():
            tables = good_tables(name)
            table = tables["globals"]
            table.loc[table["quantity"] == quantity, "sd"] *= np.exp(-1.5 * limit)
            checks = EXPERIMENTS[name].findings(tables, {}).checks
            assert list(checks.values())[:-1].count(False) == 1


def test_the_error_is_the_median_and_the_worst():
    table = pd.DataFrame(
        {
            "quantity": "tau",
            "model": "m",
            "truth": "t",
            "sd": [1.0, np.e, np.exp(-3)],
            "true_sd": 1.0,
        }
    )
    assert error({"globals": table}, "LRVB", "tau", "m", "t") == pytest.approx((1.0, 3.0))
