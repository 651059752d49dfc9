"""The check-up says what its parts say, the worst first."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_linnerud

import lrvb
from lrvb.posterior.check_up import BAD, GOOD, LOOK, UNKNOWN
from lrvb.posterior.prior_steps import asked, plain_step_changes
from posterior.what_if_cases import Coefficients, Line, line


def test_a_good_answer():
    page = lrvb.infer(Line(), line(1000)).check()
    assert page.ok
    states = {finding.what: finding.state for finding in page.findings}
    assert states["convergence"] == states["rows"] == GOOD
    assert "✓ convergence" in repr(page)
    assert "<table>" in page._repr_html_()


def test_a_far_row_and_a_sharp_prior_are_said():
    data = line(20)
    data.iloc[3] = [4.0, -6.0]
    page = lrvb.infer(Line(slope_var=0.02), data).check()
    found = {finding.what: finding for finding in page.findings}
    assert found["rows"].state == LOOK
    assert "without row r3" in found["rows"].sentence
    assert found["priors"].state == LOOK
    order = [finding.state for finding in page.findings]
    assert order == sorted(order, key=[BAD, LOOK, "not known", GOOD].index)
    groups = np.repeat(["north", "south"], 10)
    assert "level" in repr(lrvb.infer(Line(), data).check(by=groups))


def test_a_conclusion_that_hangs_on_a_weaker_or_a_stronger_prior_is_said():
    """Men of a fitness club: with half the prior's scale the interval holds zero, with twice it does not.

    So it is the step back that decides, and a refit by hand has the same interval.
    """
    men = load_linnerud(as_frame=True).frame
    men = (men - men.mean()) / men.std()
    data = {"X": men[["Weight", "Waist", "Pulse"]].to_numpy(), "y": men["Chins"]}

    class Scaled(Coefficients):
        def __init__(self, scale=1.0):
            self.scale = scale

        def global_term(self, m):
            return -jnp.trace(m.beta.xx) / (2 * self.scale**2) - m.tau.x

    posterior = lrvb.infer(Scaled(), data)
    found = {finding.what: finding for finding in posterior.check().findings}["priors"]
    half = lrvb.infer(Scaled(0.5), data).summary().loc["beta[1]"]
    assert found.state == LOOK
    assert "scale from 1 to 0.5 moves the mean of beta[1]" in found.sentence
    end = f"holds zero: {half['lower']:.3g} to {half['upper']:.3g} (was"
    assert end in found.sentence
    assert "scale from 1 to 0.5" in posterior.prior_sensitivity().note


def test_no_conclusion_hangs_on_whether_a_scale_is_above_one():
    """log τ has no zero that means anything, because τ has a unit; the coefficient of a column log(x) has."""

    class Spread(Line):
        def __init__(self, tau_rate):
            super().__init__(slope_var=0.05)
            self.tau_rate = tau_rate

        def global_term(self, m):
            return super().global_term(m) - (self.tau_rate - 1) * m.tau.x

    rng = np.random.default_rng(0)
    x = rng.normal(size=12)
    data = {"x": x, "y": x + 0.5 * rng.normal(size=12)}  # log τ from 0.08 on
    answer = lrvb.infer(Spread(1.0), data, certify=False)
    of = asked(answer.estimate, ["b", "tau", "log(tau)"])
    assert list(of.signed) == [True, True, False]
    steps = plain_step_changes(answer._what_if(), answer._what_if().prior_changes(of.at), of)
    assert not any(step.over[2] for step in steps)
    every = of._replace(signed=np.ones(3, dtype=bool))
    steps = plain_step_changes(answer._what_if(), answer._what_if().prior_changes(of.at), every)
    assert any(step.over[2] for step in steps)
    rows = pd.DataFrame({"x": np.exp(x), "y": data["y"]})
    mixed = lrvb.MixedModel("y ~ x + log(x)").fit(rows).posterior_
    of = asked(mixed.estimate, ["log(x)", "log(precision[residual])"])
    assert list(of.signed) == [True, False]


def test_a_prior_that_decides_nothing_is_said_with_its_furthest_step():
    page = lrvb.infer(Line(), line(1000)).check()
    found = {finding.what: finding for finding in page.findings}["priors"]
    assert found.state == GOOD
    assert "No plain step of a prior decides: slope_" in found.sentence


def test_a_fit_that_stopped_is_a_problem():
    with pytest.warns(lrvb.NotConverged):
        page = lrvb.infer(
            Line(), line(), max_iter=1, init={"tau": {"shape": 1.0, "rate": 9.0}}
        ).check()
    assert not page.ok
    assert page.findings[0].what == "convergence"


def test_what_a_file_does_not_tell_is_said(tmp_path):
    """A posterior that was saved knows of no other prior and no fewer rows, and its page says so."""
    lrvb.infer(Line(), line()).save(tmp_path / "line.lrvb")
    page = lrvb.load(tmp_path / "line.lrvb").check()
    found = {finding.what: finding for finding in page.findings}["priors, rows"]
    assert found.state == UNKNOWN
    assert "read from a file" in found.sentence
