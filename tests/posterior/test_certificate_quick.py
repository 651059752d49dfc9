"""Verdicts without draws: the size of the second order, other modes on some rows, and reasons told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from checked_models import Product

import lrvb
from cases import CASES
from lrvb.engine.modes import Mode, Modes
from lrvb.posterior.certification import Certifier, Checked
from lrvb.posterior.quick_verdict import bent, judge_sizes
from lrvb.studies.reference import simulate

BY_NAME = {case.name: case for case in CASES}
NONE = Modes(starts=8)


class Squared(lrvb.Model):
    """y ~ N(θ², 0.1): two modes, at ±2."""

    global_blocks = {"theta": lrvb.Normal()}

    def global_term(self, m):
        fourth = 3 * m.theta.xx**2 - 2 * m.theta.x**4
        return -(fourth - 8 * m.theta.xx) / 0.2 - m.theta.xx / 50


@pytest.fixture(scope="module")
def counts() -> lrvb.Posterior:
    """As if nothing could be drawn."""
    data = simulate.normal_poisson(np.random.default_rng(5), n=2000, beta=1.0, sd=0.4)
    columns = {"x": data["x"], "y": data["y"]}
    found = lrvb.infer(lrvb.models.NormalPoisson(), columns, certify=False)
    found.checked = found._certifier.quick()
    return found


def test_what_is_not_drawn_has_verdicts_by_the_second_order(counts):
    """β is trusted, and the table says where the word comes from; a certificate replaces it."""
    assert counts.certificate is None
    assert counts.summary().loc["beta", "verdict"] == "trust"
    assert "without draws" in repr(counts.summary())
    assert "without draws" in repr(counts)
    why = counts.verdicts.loc["beta", "why"]
    assert "second order" in why
    assert "no other mode" in why
    refined = counts.refined()
    off = (refined["mean"] - counts.mean()).abs() / counts.sd() > 0.08
    assert (counts.summary()["verdict"] == "doubtful")[off].all()


def test_they_are_saved(counts, tmp_path):
    """Words, reasons and the note come back."""
    again = lrvb.load(counts.save(tmp_path / "posterior.npz", local=False))
    pd.testing.assert_frame_equal(again.verdicts, counts.verdicts)
    assert repr(again.summary()) == repr(counts.summary())


def test_two_modes_are_seen_without_draws():
    """Each is nearly normal, so that the second order is small; the far starts tell."""
    start = {"theta": {"loc": 2.0, "scale": 0.1}}
    posterior = lrvb.infer(Squared(), None, init=start, certify=False)
    assert "certify=False" in repr(posterior.summary())
    found = Certifier(posterior.response, posterior.estimate).quick()
    assert [verdict for verdict, _ in found.quick] == ["do not trust"]


def test_a_bend_is_seen_at_a_few_points(counts):
    """Two ridges that cross, whose second order may be anything, zero too, by what the rows happen to be."""
    crossed = lrvb.infer(Product(), {"y": np.full(5, 0.32)}, certify=False)
    assert bent(crossed.response)
    assert not bent(counts.response)
    verdicts = judge_sizes(np.array([0.0, 0.6]), np.array([1.0, 1.0]), NONE, bends=True)
    assert [word for word, _ in verdicts] == ["doubtful", "do not trust"]
    alone = judge_sizes(np.zeros(1), np.ones(1), NONE, bends=True)
    assert "not that of a normal" in alone[0][1]


def test_words_follow_sizes():
    """Small: trust; beyond 0.08 sd or 8 %: doubtful; half an sd or half the variance: do not trust."""

    def words(shift, ratio, modes=NONE):
        return [word for word, _ in judge_sizes(np.array(shift), np.array(ratio), modes)]

    assert words([0.0, 0.07, -0.09], [1.0, 1.1, 1.0]) == ["trust", "trust", "doubtful"]
    assert words([0.0, 0.0], [1.18, 1.0]) == ["doubtful", "trust"]
    assert words([0.16, 0.0], [1.0, 1.0]) == ["doubtful", "doubtful"]
    assert words([0.6, 0.0], [1.0, 1.0]) == ["do not trust", "doubtful"]
    assert words([0.0, 0.0], [1.6, -0.2]) == ["do not trust", "do not trust"]
    assert words([0.0, 0.0], [np.nan, 1.0]) == ["do not trust", "doubtful"]
    rival = Mode(-3.5, None, None)
    for modes in (Modes(others=(rival,)), Modes(near=(rival,))):
        assert words([0.0], [1.0], modes) == ["doubtful"]


def test_a_check_that_fails_says_why(monkeypatch):
    """The error of the draws is the note under the table."""

    def refuse(self, *args, **options):
        raise lrvb.InvalidModel("The log density is nan at a draw.")

    monkeypatch.setattr(Certifier, "certify", refuse)
    case = BY_NAME["GammaPoisson"]
    posterior = lrvb.infer(case.model, case.data)
    assert posterior.checked == Checked(reason="The log density is nan at a draw")
    assert (posterior.summary()["verdict"] == "not checked").all()
    assert "Not checked: The log density is nan at a draw." in repr(posterior.summary())


def test_what_costs_more_than_the_fit_is_left(monkeypatch):
    """No verdict on thin evidence, and the way to one."""
    monkeypatch.setattr("lrvb.posterior.certification.rows_for", lambda response, quantities: 0)
    response = BY_NAME["NormalPoisson-tilted"].response()
    found = lrvb.summarize(response)
    found.checked = found._certifier.quick()
    assert "posterior.certify()" in found.summary().note
