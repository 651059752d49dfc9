"""What a certificate may cost: passes, seconds, and what it costs unasked."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from checked_models import StudentT, regression
from numpy.testing import assert_allclose

import lrvb
from lrvb.engine.density import CollapsedDensity
from lrvb.posterior.costs import (
    BRIEF,
    DRAWS,
    FEWER_STARTS,
    FITS,
    SECOND,
    Unasked,
    curvature_cost,
    start_cost,
    unasked,
)
from lrvb.posterior.target import Target
from lrvb.studies.reference import simulate


class Banana(lrvb.Model):
    """θ₁θ₂ observed: weights do not settle, so that a certificate would go all the way."""

    global_blocks = {"a": lrvb.Normal(), "b": lrvb.Normal()}

    def global_term(self, m):
        product = m.a.xx * m.b.xx - 6 * m.a.x * m.b.x
        return -product / 0.6 - (m.a.xx - 4 * m.a.x + m.b.xx - 4 * m.b.x) / 2


def test_a_budget_is_kept_and_what_it_leaves_open_is_doubtful(monkeypatch):
    """Passes are counted, seconds are foreseen from the passes before; nothing is trusted unlooked."""
    start = {"a": {"loc": 1.8, "scale": 0.3}, "b": {"loc": 1.7, "scale": 0.3}}
    certifier = lrvb.infer(Banana(), None, init=start, certify=False)._certifier
    asked = []

    def counted(self, points, gradient=False, at=CollapsedDensity.at):
        asked.append(len(points) * (3 if gradient else 1))
        time.sleep(1e-4 * len(points))
        return at(self, points, gradient)

    monkeypatch.setattr(CollapsedDensity, "at", counted)
    for limits, most in (({"passes": 300}, 300), ({"passes": 5000}, 5000), ({"budget": 0.3}, 4000)):
        asked.clear()
        found = certifier.certify(256, **limits)
        assert sum(asked) <= most
        assert "trust" not in {verdict for verdict, _ in found.verdicts}
    few = regression()._certifier.certify(1024, passes=1024)
    assert not few.looked
    assert {verdict for verdict, _ in few.verdicts} == {"doubtful"}
    assert "other modes" in few.summary()["why"].iloc[0]


def test_the_first_draws_are_what_a_budget_can_pay(monkeypatch):
    """At the pace of the pilots, and never fewer than 64."""
    certifier = regression()._certifier

    def slow(self, points, gradient=False, at=CollapsedDensity.at):
        time.sleep(1e-3 * len(points))
        return at(self, points, gradient)

    monkeypatch.setattr(CollapsedDensity, "at", slow)
    found = certifier.certify(8192, budget=0.6, starts=0)
    assert 64 <= len(found.weights) < 600
    assert len(certifier.certify(8192, budget=1e-3, starts=0).weights) == 64
    assert len(certifier.certify(8192, budget=1e-9, starts=0).weights) == 64  # before any pilot


def test_what_is_made_unasked_is_counted_in_passes():
    """Few rows: 1024 draws. Many rows: as many as three fits cost, and 128 in any case."""
    few = regression().response
    assert unasked(few) == Unasked(DRAWS)
    data = simulate.normal_poisson(np.random.default_rng(0), n=3000, beta=1.0, sd=0.6)
    columns = {"x": data["x"], "y": data["y"]}
    many = lrvb.infer(lrvb.models.NormalPoisson(), columns, certify=False).response
    passes = curvature_cost(many.fit.problem) * FITS
    for n in (2 * DRAWS, DRAWS, DRAWS // 2):
        steps = -(-(n + FEWER_STARTS * start_cost(many.fit.problem)) // passes)
        assert unasked(replace(many, fit=replace(many.fit, n_iter=steps))) == Unasked(n)
    steps -= 1
    brief = Unasked(BRIEF, steps * passes, brief=True)
    assert unasked(replace(many, fit=replace(many.fit, n_iter=steps))) == brief
    least = unasked(replace(many, fit=replace(many.fit, n_iter=1)))
    pilots = 65 + 4 * 4  # and four coordinates' sides
    assert least == Unasked(BRIEF, BRIEF + pilots + int(SECOND / (3000 * 64)), brief=True)


class Rates(lrvb.Model):
    """120 gamma posteriors of rates, whose shapes are 50."""

    global_blocks = {"rate": lrvb.Gamma(batch=120)}

    def global_term(self, m):
        return jnp.sum(49 * m.rate.log_x - 25 * m.rate.x)


def test_a_hundred_parameters_within_a_budget():
    """Confirmed where draws can do it; with fewer than that takes, honestly doubtful."""
    certifier = lrvb.infer(Rates(), None, certify=False)._certifier
    assert Target(certifier.response).size == 120
    short = certifier.certify(1024, passes=128)
    assert len(short.weights) <= 128
    assert {verdict for verdict, _ in short.verdicts} <= {"doubtful", "do not trust"}
    found = certifier.certify(4096, passes=4096, starts=0)
    table = found.summary()
    error = table["sd"] / np.sqrt(2 * found.ess)
    exact = np.where([name.startswith("log") for name in table.index], np.nan, np.sqrt(50) / 25)
    known = np.isfinite(exact)
    assert (np.abs(table["sd"] - exact)[known] < 5 * error[known]).all()
    assert (table["verdict"] == "trust").mean() > 0.5
    assert "do not trust" not in set(table["verdict"])
    more = certifier.certify(1024, starts=0)
    assert len(more.weights) == 4096  # of 1024 errors were too large, and no fit to them is better
    assert_allclose(more.summary()["sd"], table["sd"], rtol=1e-12)


def test_progress_counts_the_draws(capsys):
    """A bar on the standard error stream."""
    regression()._certifier.certify(1024, progress=True)
    shown = re.findall(r"(\d+)draw \[", capsys.readouterr().err)
    assert int(shown[-1]) >= 1024


@pytest.mark.parametrize("certify", ["always", None, 3])
def test_certify_is_true_false_or_auto(certify):
    """Anything else is refused before the fit."""
    with pytest.raises(lrvb.InvalidModel, match="'auto', True or False"):
        lrvb.infer(StudentT(), None, certify=certify)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("draws", 10),
        ("draws", 1e3),
        ("draws", True),
        ("seed", -1),
        ("seed", "a"),
        ("budget", 0),
        ("passes", 1),
    ],
)
def test_arguments_are_refused_by_name(argument, value):
    """One sentence that names the argument and the value."""
    with pytest.raises(lrvb.InvalidModel, match=f"{argument}={value!r} must be"):
        regression().certify(**{argument: value})
