"""The figures of what if show the numbers of their tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri, stdtrit

import lrvb
from cases import CASES

pytest.importorskip("matplotlib").use("Agg")


@pytest.fixture(scope="module")
def posterior() -> lrvb.Posterior:
    return lrvb.summarize(next(c for c in CASES if c.name == "NormalPoisson-tilted").response())


def test_a_lollipop_for_each_step(posterior):
    table = posterior.prior_sensitivity()
    ax = lrvb.plot.prior_sensitivity(table, most=4)
    ends = np.array([segment[1, 0] for segment in ax.collections[0].get_segments()])
    assert_allclose(ends, table["change"][:4])
    assert "beta_var" not in ax.get_yticklabels()[0].get_text()
    with pytest.raises(lrvb.InvalidModel, match="no column 'change'"):
        lrvb.plot.prior_sensitivity(posterior.summary())


def test_what_was_fitted_is_drawn_too(posterior):
    """Hollow, at the steps of `verify=` and the other way."""
    table = posterior.prior_sensitivity(verify=1)
    ax = lrvb.plot.prior_sensitivity(table, most=len(table))
    drawn = {c.get_label(): c.get_offsets()[:, 0] for c in ax.collections[2:]}
    for label, column in (("fitted there", "verified"), ("and the other way", "verified_back")):
        assert_allclose(drawn[label].filled(np.nan), table[column].to_numpy(float, na_value=np.nan))


def test_the_largest_rows_are_named(posterior):
    table = posterior.influence("beta")
    ax = lrvb.plot.influence(table, labelled=2)
    largest = {str(row) for row in table["beta"].abs().nlargest(2).index}
    scaled = lrvb.plot.influence(posterior.influence("beta", scaled=True))
    assert ax.get_ylabel() + ", in posterior sds" == scaled.get_ylabel()
    assert {text.get_text() for text in ax.texts} == largest
    with pytest.raises(lrvb.InvalidModel, match="no quantity 'gamma'"):
        lrvb.plot.influence(table, "gamma")


def test_few_levels_are_all_named():
    """Below the axis, in place of numbers that mean nothing."""
    table = pd.DataFrame({"beta": [0.1, -0.2, 0.05]}, index=pd.Index(["a", "b", "c"], name="site"))
    ax = lrvb.plot.influence(table)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]
    assert (ax.get_xlabel(), list(ax.texts)) == ("site", [])
    many = pd.concat([table] * 20).rename_axis("site")
    assert len(lrvb.plot.influence(many).texts) == 5


def test_both_sds_are_drawn(posterior):
    ax = lrvb.plot.robust(posterior, "beta", prob=0.9)
    own, robust = (c.get_segments()[0][1, 0] for c in ax.collections[:2])
    ratio = posterior.sd("beta", method="robust")["beta"] / posterior.sd("beta")["beta"]
    assert_allclose(robust / own, ratio)


def test_intervals_of_few_groups_are_those_of_students_t(posterior):
    """Robust intervals of eight groups have quantiles of seven degrees, the posterior's the normal's."""
    by = np.arange(len(posterior._what_if().weights)) % 8
    ax = lrvb.plot.robust(posterior, "beta", by=by, prob=0.9)
    own, robust = (c.get_segments()[0][1, 0] for c in ax.collections[:2])
    ratio = posterior.sd("beta", method="robust", by=by)["beta"] / posterior.sd("beta")["beta"]
    assert_allclose(robust / own, ratio * stdtrit(7, 0.95) / ndtri(0.95))
