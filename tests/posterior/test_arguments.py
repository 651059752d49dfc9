"""What a user types wrongly is told by its name."""

from __future__ import annotations

import numpy as np
import pytest

import lrvb
from lrvb.posterior.arguments import require_flag, require_whole
from refusals import COUNTS, TILTED


@pytest.mark.parametrize("value", [-1, 1.5, True, "3", None])
def test_no_whole_number(value):
    """Nor is a truth."""
    with pytest.raises(lrvb.errors.InvalidModel, match=r"n=.* must be a whole number, 0 or more"):
        require_whole("n", value, 0)
    require_whole("n", np.int64(3), 3)


@pytest.mark.parametrize("value", ["no", 1, None])
def test_no_flag(value):
    """Text that says no would count as yes."""
    with pytest.raises(lrvb.errors.InvalidModel, match=r"scaled=.* must be True or False"):
        require_flag("scaled", value)
    require_flag("scaled", np.True_)


@pytest.fixture(scope="module")
def posterior():
    """Counts with an effect each."""
    return lrvb.infer(TILTED, COUNTS)


@pytest.mark.parametrize("question", ["influence", "prior_sensitivity", "fragility"])
def test_no_quantity_at_all(posterior, question):
    """An empty list is none."""
    with pytest.raises(lrvb.errors.InvalidModel, match=r"names=\[\] names no quantity"):
        getattr(posterior, question)([])


def test_levels_that_are_all_rows(posterior):
    """Without the only level nothing is left, in a check-up too."""
    for ask in (lambda by: posterior.influence(by=by), lambda by: posterior.check(by=by)):
        with pytest.raises(
            lrvb.errors.InvalidData, match=r"by has the one level .*no rows are left"
        ):
            ask(np.zeros(len(COUNTS["x"])))


def test_text_in_place_of_a_truth(posterior):
    """`scaled="no"` is refused."""
    with pytest.raises(lrvb.errors.InvalidModel, match=r"scaled='no' must be True or False"):
        posterior.influence(scaled="no")
