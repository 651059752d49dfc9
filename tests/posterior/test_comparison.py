"""Models compared: stacking's weights, differences, and what cannot be compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import lrvb
from lrvb.posterior.comparison import stacking
from lrvb.posterior.leave_one_out import sums


def _table(elpd, **attrs):
    table = pd.DataFrame({"elpd": elpd, "k_hat": np.zeros(len(elpd))})
    table.attrs.update({"elpd_loo": elpd.sum(), "p_loo": 1.0, "n_bad": 0, "se": 1.0, **attrs})
    return table


POINTS = np.random.default_rng(0).standard_normal((200, 3)) - np.array([0.0, 0.1, 0.6])


def test_stacking_maximises_the_log_score():
    """Σ log Σ w p, against a general optimiser."""

    def score(u):
        w = np.exp(u - u.max())
        return -np.log(np.exp(POINTS) @ (w / w.sum())).sum()

    found = minimize(score, np.zeros(3))
    w = np.exp(found.x) / np.exp(found.x).sum()
    assert_allclose(stacking(POINTS, np.ones(200)), w, atol=1e-3)


def test_differences_and_their_standard_errors():
    """Of sums over the same rows: pairs, not two separate errors."""
    points = POINTS - POINTS.mean(0) - [0.0, 0.05, 0.5]
    table = lrvb.compare({"b": _table(points[:, 1]), "a": _table(points[:, 0])})
    away = points[:, 1] - points[:, 0]
    assert list(table.index) == ["a", "b"]
    assert_allclose(table.loc["b", "difference"], away.sum())
    assert_allclose(table.loc["b", "se"], np.sqrt(200 * away.var(ddof=1)))
    assert table["weight"].sum() == pytest.approx(1.0)
    assert "not told apart" in table.note


def test_a_row_that_counts_twice_is_two_rows():
    """Sums, standard errors and stacking's weights of counted rows are those of the rows repeated."""
    counts = np.random.default_rng(1).integers(1, 4, len(POINTS))
    counted = [_table(POINTS[:, k]).assign(weight=counts.astype(float)) for k in (0, 1)]
    repeated = [_table(np.repeat(POINTS[:, k], counts)) for k in (0, 1)]
    found, whole = (
        pd.DataFrame(lrvb.compare(dict(zip("ab", tables, strict=True))))
        for tables in (counted, repeated)
    )
    pd.testing.assert_frame_equal(found, whole, rtol=1e-9)
    once, often = POINTS[:, 0], np.repeat(POINTS[:, 0], counts)
    of_counts = sums(once, once + 0.1, counts.astype(float))
    assert of_counts == pytest.approx(sums(often, often + 0.1, np.ones(len(often))), rel=1e-9)
    with pytest.raises(lrvb.InvalidModel, match="Rows count otherwise in 'a' than in 'b'"):
        lrvb.compare({"a": counted[0], "b": _table(POINTS[:, 1])})


def test_what_cannot_be_compared():
    """Other rows, other responses, no loo, one model."""
    a = _table(POINTS[:, 0], response="1")
    with pytest.raises(lrvb.InvalidModel, match="200 rows and 'b' 199"):
        lrvb.compare({"a": a, "b": _table(POINTS[1:, 0])})
    with pytest.raises(lrvb.InvalidModel, match="different labels"):
        lrvb.compare({"a": a, "b": _table(POINTS[:, 0]).set_axis(range(1, 201))})
    with pytest.raises(lrvb.InvalidModel, match="different responses"):
        lrvb.compare({"a": a, "b": _table(POINTS[:, 0], response="2")})
    with pytest.raises(lrvb.InvalidModel, match="has no loo"):
        lrvb.compare({"a": a, "b": 3.0})
    with pytest.raises(lrvb.InvalidModel, match="two models or more"):
        lrvb.compare({"a": a})


def test_unreliable_weights_are_said():
    """A k_hat above 0.7."""
    table = lrvb.compare({"a": _table(POINTS[:, 0], n_bad=3), "b": _table(POINTS[:, 2])})
    assert "3 of 'a'" in table.note
    assert "predicts better" in table.note


def test_no_column_is_empty():
    """p_loo is of models whose draws have all parameters; who has no evidence is named beneath the table."""

    class Known:
        log_evidence_ = -3.0

        def loo(self):
            return _table(POINTS[:, 0], p_loo=np.nan)

    tables = {"a": _table(POINTS[:, 0]), "b": _table(POINTS[:, 1])}
    both = lrvb.compare(tables)
    assert both["p_loo"].notna().all()
    assert "log_evidence" not in both
    mixed = lrvb.compare({"known": Known(), **tables})
    assert "p_loo" not in mixed
    assert mixed.loc["known", "log_evidence"] == -3.0
    assert "The evidence of 'b', 'a' is not known" in mixed.note


def test_models_are_compared_by_their_own_rows():
    """A mixed model with the covariate that made the rows, and one without."""
    rng = np.random.default_rng(1)
    g = np.repeat(np.arange(10), 6)
    x = rng.standard_normal(60)
    y = 1 + x + rng.standard_normal(10)[g] + 0.5 * rng.standard_normal(60)
    data = pd.DataFrame({"y": y, "x": x, "g": g})
    models = {f: lrvb.MixedModel(f).fit(data) for f in ("y ~ 1 + (1|g)", "y ~ x + (1|g)")}
    table = lrvb.compare(models)
    assert table.index[0] == "y ~ x + (1|g)"
    assert table["log_evidence"].is_monotonic_decreasing
    assert table.notna().all(axis=None)
    assert lrvb.compare(models, by="g").index[0] == "y ~ x + (1|g)"
    with pytest.raises(lrvb.InvalidModel, match="different responses"):
        lrvb.compare(
            {"a": models["y ~ 1 + (1|g)"], "b": lrvb.MixedModel("x ~ 1 + (1|g)").fit(data)}
        )
