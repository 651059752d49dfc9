"""Ends of intervals are quantiles of the distribution that the mean, the sd and the support say."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from posterior_cases import every_case, posterior_of, prior
from scipy.stats import lognorm, norm

import lrvb
from lrvb.posterior.blocks import Support
from lrvb.posterior.intervals import intervals, support_ends

PROB = 0.9
TAILS = np.array([0.5 - PROB / 2, 0.5 + PROB / 2])


def lognormal_ends(mean: float, sd: float) -> np.ndarray:
    """Quantiles of the log-normal whose mean and sd these are: s² = log(1 + sd²/mean²)."""
    s = np.sqrt(np.log(1 + sd**2 / mean**2))
    held = lognorm(s, scale=mean * np.exp(-(s**2) / 2))
    assert_allclose([held.mean(), held.std()], [mean, sd], rtol=1e-9)
    return held.ppf(TAILS)


def expected_ends(support: Support, mean: float, sd: float) -> np.ndarray:
    """Of a quantity that has no logarithm of its own beside it."""
    if support.kind == "real":
        return norm(mean, sd).ppf(TAILS)
    ends = lognormal_ends(abs(mean), sd)
    return ends if support.kind == "positive" else -ends[::-1]


def assert_quantiles(posterior: lrvb.Posterior) -> None:
    """Of every coordinate; those that have a logarithm are between the exponentials of its ends."""
    estimate = posterior.estimate
    ends = np.stack(intervals(estimate, PROB), axis=1)
    sd = np.sqrt(np.diag(estimate.Sigma))
    for i, support in enumerate(estimate.supports):
        if support.log is not None:
            assert_allclose(ends[i], np.exp(ends[support.log]), rtol=1e-12)
        elif sd[i] > 0:
            assert_allclose(ends[i], expected_ends(support, estimate.m[i], sd[i]), rtol=1e-9)


@every_case
def test_intervals_are_quantiles(name: str) -> None:
    assert_quantiles(posterior_of(name))


def test_intervals_of_every_support() -> None:
    """Shares and logarithms of shares, precisions, numbers."""
    found = {support.kind for support in prior().estimate.supports}
    assert found == {"real", "positive", "negative"}
    assert_quantiles(prior())


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_ends_of_other_means_and_sds(factor: float) -> None:
    """Of repaired or refined numbers: on the side of zero where the quantity lies."""
    estimate = prior().estimate
    at = np.arange(len(estimate.m))
    mean, sd = estimate.m * factor, np.sqrt(np.diag(estimate.Sigma)) * 1.5
    lower, upper = support_ends(estimate, at, mean, sd, PROB)
    for i, support in enumerate(estimate.supports):
        assert_allclose([lower[i], upper[i]], expected_ends(support, mean[i], sd[i]), rtol=1e-9)
