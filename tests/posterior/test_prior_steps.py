"""Which intervals a step of a prior takes over zero."""

import numpy as np
import pytest

from lrvb.posterior.prior_steps import OVER, _over

# before and after, in sds of 1: what a reader of both intervals would say
CASES = {
    "holds zero then": ([0.2, 4.0], [-0.2, 3.6], True),
    "holds zero no more": ([-0.2, 3.6], [0.2, 4.0], True),
    "the same below zero": ([-4.0, -0.2], [-3.6, 0.2], True),
    "a narrow escape": ([0.04, 4.0], [-0.04, 3.9], False),
    "on one side still": ([0.2, 4.0], [0.1, 3.0], False),
    "around zero still": ([-2.0, 1.0], [-1.0, 2.0], False),
    "from side to side": ([0.2, 1.0], [-1.0, -0.2], False),
}


@pytest.mark.parametrize("case", CASES)
def test_over_zero(case: str) -> None:
    """One of the two holds zero, and the end that passed it moved by a tenth of an sd at least."""
    before, after, expected = CASES[case]
    ends = [np.array(one)[:, None] for one in (before, after)]
    assert _over(*ends, np.ones(1)).tolist() == [expected]


def test_far_is_in_sds() -> None:
    before, after = np.array([[0.04], [4.0]]), np.array([[-0.04], [3.9]])
    assert _over(before, after, np.array([0.07 / OVER])).tolist() == [True]
