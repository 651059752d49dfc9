"""Pareto smoothed weights against ArviZ, and where there is nothing to smooth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.numerics.pareto import fit, smooth


@pytest.mark.parametrize("spread", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("n", [100, 2048])
def test_smoothing_agrees_with_arviz(n, spread):
    arviz = pytest.importorskip("arviz")
    log_w = spread * np.random.default_rng(n).standard_t(5, n)
    reference, k = arviz.psislw(log_w.copy())
    ours, k_hat = smooth(log_w)
    assert_allclose(k_hat, float(k), rtol=1e-10)
    assert_allclose(ours, np.asarray(reference), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k", [0.2, 0.6])
def test_fit_finds_the_shape(k):
    """Exact quantiles of a generalised Pareto: the prior of 10 values at ½ is the only bias."""
    p = (np.arange(2000) + 0.5) / 2000
    found, sigma = fit(2.0 * np.expm1(-k * np.log1p(-p)) / k)
    assert_allclose(found, k, atol=0.02)
    assert_allclose(sigma, 2.0, rtol=0.02)


def test_equal_weights_have_no_tail():
    log_w, k = smooth(np.full(500, -3.0))
    assert k == -np.inf
    assert_allclose(np.exp(log_w), 1 / 500)


def test_a_tail_of_a_few_cannot_be_judged():
    log_w, k = smooth(np.r_[np.zeros(3), 5.0, 6.0])
    assert k == np.inf
    assert_allclose(np.exp(log_w).sum(), 1)
