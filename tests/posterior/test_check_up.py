"""The check-up says what its parts say, the worst first."""

from __future__ import annotations

import numpy as np
import pytest

import lrvb
from lrvb.posterior.check_up import BAD, GOOD, LOOK
from posterior.test_what_if import Line, line


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


def test_a_step_that_first_order_overstates_is_verified():
    """Twice a scale that is small already: first order says half an sd and more, a refit less."""
    page = lrvb.infer(Line(slope_var=0.02), line(20)).check()
    found = {finding.what: finding.sentence for finding in page.findings}["priors"]
    first, refit = (
        float(part.split()[-1])
        for part in found.split(" by a refit")[0].split(" sds by first order,")
    )
    assert abs(refit) < abs(first)


def test_a_fit_that_stopped_is_a_problem():
    with pytest.warns(lrvb.NotConverged):
        page = lrvb.infer(
            Line(), line(), max_iter=1, init={"tau": {"shape": 1.0, "rate": 9.0}}
        ).check()
    assert not page.ok
    assert page.findings[0].what == "convergence"
