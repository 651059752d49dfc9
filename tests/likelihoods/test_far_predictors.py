"""Kernels where exponentials of η are no numbers: they are log p there too."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.likelihoods import likelihood_of

GIVEN = {
    "threshold[1]": -1.0,
    "threshold[2]": 0.2,
    "shape": 1.5,
    "zi": 0.3,
    "hurdle": 0.3,
    "phi": 8.0,
}
RESPONSES = {
    "cumulative": [1.0, 2.0, 3.0],
    "negbinomial": [0.0, 1.0, 7.0],
    "zero_inflated_negbinomial": [0.0, 1.0, 7.0],
    "hurdle_negbinomial": [0.0, 1.0, 7.0],
    "hurdle_poisson": [0.0, 1.0, 7.0],
    "beta": [0.1, 0.5, 0.999],
}


@pytest.mark.parametrize("far", [15.0, 30.0, 599.0, 650.0])
@pytest.mark.parametrize("family", RESPONSES)
def test_kernels_are_log_densities_far_out(family: str, far: float) -> None:
    """log p − constant, to rounding of what is summed; a rate of e^far is left to counts without a limit."""
    likelihood = likelihood_of(family)
    y = np.array(RESPONSES[family])[:, None]
    eta = np.tile([-far, -1.0, 0.5, far], (3, 1))
    if family == "hurdle_poisson":
        eta = np.minimum(eta, 8.0)
    expected = likelihood.log_p(y, eta, GIVEN) - likelihood.constant(y, GIVEN)
    found = likelihood.kernel(y, eta, GIVEN)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-7)
    with np.errstate(over="raise"):  # which would be a warning in the midst of a fit
        score, information = likelihood.derivatives(y, eta, GIVEN)
    assert np.isfinite(score).all()
    assert np.isfinite(information).all()
    near = np.abs(eta) < 40  # beyond, differences of log p are rounding
    low, high = (likelihood.kernel(y, eta + move, GIVEN) for move in (-1e-4, 1e-4))
    slope = (high - low) / 2e-4
    assert_allclose(score[near], slope[near], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", ["hurdle_poisson", "hurdle_negbinomial"])
def test_positive_counts_of_hardly_any_rate_are_one(family: str) -> None:
    """P(y > 1 | y > 0) is about e^η: none of a thousand counts is more, and P(0) rounds to 1."""
    rng = np.random.default_rng(0)
    drawn = likelihood_of(family).draw(rng, np.full(1000, -45.0), GIVEN)
    assert set(drawn) == {0.0, 1.0}
    assert abs((drawn == 0).mean() - 0.3) < 5 * np.sqrt(0.21 / 1000)


@pytest.mark.parametrize(
    "family", ["hurdle_poisson", "hurdle_negbinomial", "zero_inflated_poisson"]
)
@pytest.mark.parametrize("far", [360.0, 700.0, 720.0, 1e4])
def test_no_derivative_is_what_is_no_number(family: str, far: float) -> None:
    """A part of no probability has none of the score, though its rate be beyond all numbers."""
    y, eta = np.array([0.0, 1.0, 7.0])[:, None], np.array([-far, far])
    with np.errstate(invalid="raise", over="ignore"):
        found = likelihood_of(family).derivatives(y, eta, GIVEN)
    assert not np.isnan(found).any()
