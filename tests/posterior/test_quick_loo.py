"""Leave-one-out densities without draws: against refits, an integral, and the draws' answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from sklearn.datasets import load_linnerud

import lrvb
from cases import CASES
from lrvb.engine.sensitivity import refit_weighted
from mixtures import fitted
from posterior.what_if_cases import Coefficients, Line, line


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_row_is_worth_its_change_of_the_elbo(case):
    """L*(1) − L*(0) by fits with and without the row, of every model, for the largest and the median row.

    What both forms leave out is of the third order in the change, which `moved` measures in sds.
    """
    posterior = lrvb.summarize(case.response())
    table, fit = posterior.loo(draws=0), case.small_fit()
    order = np.argsort(-table["moved"].to_numpy())
    for row in (*order[:3], order[len(order) // 2]):
        weights = np.ones(len(table))
        weights[row] = 0.0
        exact = fit.elbo - refit_weighted(fit, weights).elbo
        assert abs(table["elpd"].iloc[row] - exact) < table["moved"].iloc[row] ** 3


def _evidence(X, y):
    """log p(y) of `Coefficients`, β integrated in closed form and τ on a grid, up to constants of neither."""
    log_tau = np.linspace(-6, 6, 4001)
    tau = np.exp(log_tau)
    lam, U = np.linalg.eigh(X.T @ X)
    precision = tau[:, None] * lam + 1
    misfit = tau * (y @ y) - ((tau[:, None] * (U.T @ (X.T @ y))) ** 2 / precision).sum(1)
    log_p = (len(y) * log_tau - misfit - np.log(precision).sum(1)) / 2 - tau + log_tau
    return logsumexp(log_p)


def test_a_regression_against_its_integral():
    """Twenty men of a fitness club: each row to 0.02 (measured: 0.005), what factorising β and τ costs."""
    men = load_linnerud(as_frame=True).frame
    men = (men - men.mean()) / men.std()
    X, y = men[["Weight", "Waist", "Pulse"]].to_numpy(), men["Chins"].to_numpy()
    posterior = lrvb.infer(Coefficients(), {"X": X, "y": y}, certify=False)
    table = posterior.loo(draws=0)
    rows = np.arange(len(y))
    exact = [_evidence(X, y) - _evidence(X[rows != n], y[rows != n]) for n in rows]
    assert_allclose(table["elpd"], exact, atol=0.02)
    assert_allclose(table.attrs["elpd_loo"], np.sum(exact), atol=0.2)
    assert "from influence, without draws" in repr(table)


def test_a_mixture_is_near_its_draws():
    """In the user's units; the draws' own errors are up to 0.1 for a row."""
    quick, drawn = fitted().loo(draws=0), fitted().loo()
    assert (quick["elpd"] - drawn["elpd"]).abs().max() < 0.2
    assert abs(quick.attrs["elpd_loo"] - drawn.attrs["elpd_loo"]) < 1.0
    assert abs(quick.attrs["p_loo"] / drawn.attrs["p_loo"] - 1) < 0.2


def test_a_row_that_counts_twice_is_left_out_once():
    """As one of two equal rows."""
    data = line(30)
    twice = pd.concat([data, data.iloc[:10]])
    weights = np.where(np.arange(30) < 10, 2.0, 1.0)
    once = lrvb.infer(Line(), data, certify=False)
    fit = refit_weighted(once.response.fit, weights)
    weighted = lrvb.summarize(lrvb.respond(lrvb.linearize(fit))).loo(draws=0)
    repeated = lrvb.infer(Line(), twice, certify=False).loo(draws=0)
    assert_allclose(weighted["elpd"], repeated["elpd"].iloc[:30], rtol=1e-6)
    assert_allclose(weighted.attrs["elpd_loo"], repeated.attrs["elpd_loo"], rtol=1e-6)
    assert list(weighted["weight"]) == list(weights)


def test_rows_in_parts_are_fetched_where_they_matter():
    """Steps need the rows themselves and no others."""
    data = line(60)
    columns = {name: data[name].to_numpy() for name in ("x", "y")}
    parts = lrvb.Chunks([{k: v[i : i + 20] for k, v in columns.items()} for i in (0, 20, 40)])
    here, there = (lrvb.infer(Line(), d, certify=False).loo(draws=0) for d in (columns, parts))
    large = there["moved"] >= 0.1
    assert 0 < large.sum() < 60
    assert there["moved"].max() < 1  # beyond it those in memory are fitted without
    for name in ("elpd", "moved"):
        assert_allclose(there[name], here[name].to_numpy(), rtol=1e-5)


def test_a_row_that_is_everything_is_left_out_in_a_fit(monkeypatch):
    """A far row draws the line to itself: its score says little, the step tells, and a refit is made."""
    data = line(12)
    data.iloc[3] = [8.0, -9.0]
    posterior = lrvb.infer(Line(), data, certify=False)
    table = posterior.loo(draws=0)
    weights = np.where(np.arange(12) == 3, 0.0, 1.0)
    fit = posterior.response.fit
    assert_allclose(table["elpd"]["r3"], fit.elbo - refit_weighted(fit, weights).elbo, rtol=1e-9)
    assert table["moved"]["r3"] > 10
    assert table.attrs["n_bad"] == 0
    assert "left out in a fit" in repr(table)
    monkeypatch.setattr("lrvb.posterior.quick_loo.refits_worth", lambda n: 0)
    table = posterior.loo(draws=0)
    assert table.attrs["n_bad"] == (table["moved"] > 1).sum() > 0
    assert "something by more than an sd: not reliable" in repr(table)


def test_bad_questions():
    """One sentence each."""
    posterior = lrvb.infer(Line(), line(12), certify=False)
    with pytest.raises(lrvb.InvalidModel, match="draws=-1 must be a whole number, 0 or more"):
        posterior.loo(draws=-1)
    data = pd.DataFrame({"y": np.arange(12.0) % 5, "g": np.arange(12) % 3})
    mixed = lrvb.MixedModel("y ~ 1 + (1|g)").fit(data)
    with pytest.raises(lrvb.InvalidModel, match="a MixedModel has its own"):
        mixed.posterior_.loo(draws=0)
