"""β given the hyperparameters: its mode, and steps that go too far."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.integrated.laplace import conditional_mode
from lrvb.integrated.mode import NoMode


def test_a_step_to_infinite_derivatives_is_halved():
    """A count of 3 has its mode at log 3; from −16 a thousandth of Newton's step is past e^(10⁴)."""

    def derivatives(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        with np.errstate(over="ignore"):
            rate = np.exp(theta[0])
        return 3 * theta[0] - rate, np.array([3 - rate]), np.array([[-rate]])

    inside = SimpleNamespace(p=1, derivatives=derivatives)
    mode = conditional_mode(inside, np.empty(0), np.array([-16.0]))
    assert np.isfinite(mode.x).all()
    assert np.isfinite(mode.hessian).all()
    near = conditional_mode(inside, np.empty(0), np.array([0.0]))
    assert_allclose(near.x, np.log(3), atol=1e-4)


@pytest.mark.parametrize("edge", [-1.0, 0.5])
def test_where_there_are_no_derivatives_the_search_ends(edge):
    """At the start, or from there on: halving alone would go on for ever."""

    def derivatives(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        gone = theta[0] > edge
        return -np.inf if gone else theta[0], np.array([np.nan if gone else 1.0]), -np.eye(1) / 9

    inside = SimpleNamespace(p=1, derivatives=derivatives)
    with pytest.raises(NoMode, match="no derivatives"):
        conditional_mode(inside, np.empty(0), np.zeros(1))
