"""Joint draws of a fitted model: their moments are those of its tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.errors import InvalidModel

N, DRAWS = 120, 2000
FAR = 5.0


def frame():
    rng = np.random.default_rng(7)
    g, h, x = rng.integers(0, 12, N), rng.integers(0, 4, N), rng.normal(size=N)
    eta = 0.4 + 0.5 * x + rng.normal(0, 0.8, 12)[g] + rng.normal(0, 0.4, 4)[h]
    names = np.array(list("abcdefghijkl"))
    return pd.DataFrame(
        {
            "x": x,
            "g": names[g],
            "h": h.astype(str),
            "gh": [f"{a}{b}" for a, b in zip(g, h, strict=True)],
            "y": eta + rng.normal(0, 0.7, N),
            "count": rng.poisson(np.exp(eta)),
        }
    )


DATA = frame()
FITS = {
    "gaussian": ("y ~ x + (1|g) + (1|h)", "gaussian", "blocked"),
    "poisson": ("count ~ x + (1|g)", "poisson", "blocked"),
    "variational": ("count ~ x + (1|g)", "poisson", "variational"),
    "mean field": ("y ~ x + (x|g)", "gaussian", "mean_field"),
}
OTHERS = (
    "x + (1|g) + (1|h)",
    "(1|h/g)",
    "x + (x|g)",
    "s(x, k=4) + (1|g)",
)  # each summed in its own way


@pytest.fixture(scope="module", params=FITS)
def fitted(request):
    formula, family, factorization = FITS[request.param]
    model = lrvb.MixedModel(formula, family, factorization=factorization).fit(DATA)
    return model, model.draws(DRAWS, seed=3)


def _same_without_levels(model):
    """A seed's draws of all but the levels, with them and without."""
    with_levels, without = (
        model._drawn.source.draw(50, np.random.default_rng(1), levels=levels)
        for levels in (True, False)
    )
    assert np.array_equal(with_levels.beta, without.beta)
    for name in ("values", "noise"):
        ours, others = getattr(with_levels, name), getattr(without, name)
        assert all(np.array_equal(ours[key], others[key]) for key in ours)
    for ours, others in zip(with_levels.covariances, without.covariances, strict=True):
        assert np.array_equal(ours, others)


def test_draws_without_levels_are_those_with_them(fitted):
    """So that tables of sds and draws of a model never differ."""
    _same_without_levels(fitted[0])


@pytest.mark.parametrize("terms", OTHERS)
def test_draws_without_levels_are_those_with_them_in_every_sum(terms):
    _same_without_levels(lrvb.MixedModel(f"count ~ {terms}", "poisson").fit(DATA))


def test_draws_have_the_moments_of_the_tables(fitted):
    """Of coefficients and levels; the weights' own error is that of draws worth their ess."""
    model, draws = fitted
    found = model.certificate_.ess
    ess = DRAWS if not np.isfinite(found or np.nan) else min(DRAWS, found)
    error = 1 / np.sqrt(ess)
    table = model.summary()
    for name in model.design_.names:
        values = draws[name].values
        assert abs(values.mean() - table["mean"][name]) < FAR * error * table["sd"][name]
        assert abs(values.std() / table["sd"][name] - 1) < FAR * error
    levels = model.ranef()
    for name in dict.fromkeys(levels.index.get_level_values("term")):
        part, values = levels.loc[name], draws[name]
        assert list(values.coords[values.dims[1]].values.astype(str)) == list(
            part.index.astype(str)
        )
        assert (abs(values.values.mean(0) - part["mean"]) < FAR * error * part["sd"]).all()
        assert (abs(values.values.std(0) / part["sd"] - 1) < FAR * error).all()


def test_levels_and_coefficients_have_their_covariances(fitted):
    """Those of `posterior_.local`, which are made from moments."""
    model, draws = fitted
    sd = model.summary()["sd"]
    for name in model.ranef().index.get_level_values("term").unique():
        local = model.posterior_.local(name)
        z = draws[name].values
        for other in model.design_.names:
            b = draws[other].values
            cov = (z - z.mean(0)).T @ (b - b.mean()) / DRAWS
            unit = local["sd"].values * sd[other]
            expected = local["cov"].sel(quantity=other).values
            # a correlation's error is (1 − ρ²)/√n; moments of the levels are of 512 draws at worst
            assert (abs(cov - expected) < 0.12 * unit).all()


def test_draws_are_the_same_for_the_same_seed(fitted):
    model, draws = fitted
    again = model.draws(DRAWS, seed=3)
    assert np.array_equal(again["x"].values, draws["x"].values)
    assert not np.array_equal(model.draws(50, seed=4)["x"].values, draws["x"].values[:50])


def test_no_order_in_draws(fitted):
    """Systematic choice of hyperparameters leaves no trace: neighbours are uncorrelated."""
    _, draws = fitted
    x = draws["Intercept"].values
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < FAR / np.sqrt(DRAWS)


@pytest.mark.parametrize(("n", "seed"), [(0, 0), (2.5, 0), (True, 0), (10, "a")])
def test_bad_numbers_are_refused(fitted, n, seed):
    with pytest.raises(InvalidModel, match="must be"):
        fitted[0].draws(n, seed=seed)
