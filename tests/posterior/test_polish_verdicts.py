"""Verdicts of HMC: by linear response, and by a second run where that is off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lrvb.posterior.polish import Polish
from lrvb.posterior.verdicts import DOUBTFUL, NO, TRUST, Compared

ONE = np.ones(2)
POLISH = Polish(ONE, 500 * ONE, 0.01 * ONE, 0.01 * ONE, (0.0,), 1, 1000, 1.0)


def compared(shift: float, tail: float = 0.0) -> Compared:
    """Two quantities of sd 1; linear response is `shift` off in the first."""
    off = np.array([shift, 0.0])
    return Compared(off, ONE, 0 * ONE, ONE, 0.01 * ONE, 0.01 * ONE, tail * ONE, ONE, ONE > 1)


@pytest.mark.parametrize(
    ("shift", "second", "verdict"),
    [
        (0.1, None, TRUST),
        (0.3, None, DOUBTFUL),
        (0.9, None, NO),
        (0.3, (0.05, 0.05), TRUST),
        (0.9, (0.05, 0.05), TRUST),
        (0.3, (0.12, 0.05), DOUBTFUL),
        (0.9, (0.12, 0.05), NO),
        (0.3, (0.05, 0.60), DOUBTFUL),  # of a run that went elsewhere nothing is taken
        (0.1, (0.60, 0.05), DOUBTFUL),  # nor is linear response believed against it
    ],
)
def test_a_second_run_stands_for_linear_response(shift, second, verdict):
    """Only where it is near in that quantity and not elsewhere in any."""
    polish = replace(POLISH, second=None if second is None else np.array(second))
    assert polish.judge(compared(shift), 0.0)[0][0] == verdict


def test_what_a_second_run_does_not_help():
    """Chains that disagree, in the quantity or in any coordinate, few draws, tails, another mode."""
    polish = replace(POLISH, second=0 * ONE)
    assert polish.judge(compared(0.3), 0.0)[0][0] == TRUST
    assert polish.judge(compared(0.3, tail=0.6), 0.0)[0][0] == NO
    assert polish.judge(compared(0.3), 0.2)[0][0] == NO
    for worse in ({"r_hat": 1.12 * ONE}, {"ess": 50 * ONE}, {"slowest": 1.12}):
        assert replace(polish, **worse).judge(compared(0.3), 0.0)[0][0] == DOUBTFUL
    unsure = compared(0.3)._replace(sd_error=0.2 * ONE)
    assert polish.judge(unsure, 0.0)[0][0] == DOUBTFUL


def test_linear_response_may_be_absent():
    """Then one run is not enough, and two that agree are; any other concern stays."""
    alone = replace(POLISH, concern="It does not exist.", unanswered=True)
    assert alone.judge(compared(0.0), 0.0)[0] == (DOUBTFUL, "It does not exist.")
    assert replace(alone, second=0.05 * ONE).judge(compared(0.9), 0.0)[0][0] == TRUST
    assert replace(alone, second=0.12 * ONE).judge(compared(0.9), 0.0)[0][0] == DOUBTFUL
    edge = replace(POLISH, concern="It has an edge.", second=0 * ONE)
    assert edge.judge(compared(0.0), 0.0)[0] == (DOUBTFUL, "It has an edge.")


def test_when_it_is_asked_for():
    """Wherever linear response is not close, or absent; not where chains are lost or there is an edge."""
    assert POLISH.asks_again(compared(0.1))
    assert not POLISH.asks_again(compared(0.03))
    assert replace(POLISH, concern="None.", unanswered=True).asks_again(compared(0.03))
    assert replace(POLISH, slowest=1.09).asks_again(compared(0.3))
    unsettled = replace(POLISH, slowest=1.11)  # trusted in nothing, whatever a second run says
    assert unsettled.judge(compared(0.0), 0.0)[0][0] == DOUBTFUL
    assert not unsettled.asks_again(compared(0.3))
    assert not replace(POLISH, concern="Something.").asks_again(compared(0.3))
    heavy = compared(0.3)._replace(tail=np.array([0.0, 0.6]))
    assert POLISH.asks_again(heavy)  # but then it does not stand for linear response
    polish = replace(POLISH, second=0 * ONE)
    assert polish.judge(heavy, 0.0)[0][0] == DOUBTFUL
    assert polish.judge(heavy, 0.0)[1][0] == NO


def test_two_runs_stand_alone_but_for_what_hangs_on_an_endless_sd():
    """One quantity has no finite sd: by default that withholds the other, unless it does not hang on it."""
    polish, found = replace(POLISH, second=0 * ONE), compared(0.3)
    found = found._replace(tail=np.array([0.0, 0.6]))
    assert [one for one, _ in polish.judge(found, 0.0)] == [DOUBTFUL, NO]
    apart = np.array([False, True])
    assert [one for one, _ in polish.judge(found, 0.0, apart)] == [TRUST, NO]
