"""The effective sample size against chains whose autocorrelations are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter

from lrvb.studies.reference.ess import autocovariance, effective_sample_size


def autoregression(rng, rho, shape):
    """Stationary x_t = ρx_t−1 + ε_t along the first axis, of variance 1."""
    noise = rng.standard_normal(shape) * np.sqrt(1 - rho**2)
    noise[0] /= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=0)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.5, 0.95])
def test_autoregression_has_its_closed_form(rho):
    """ρ_t = ρᵗ, so the effective sample size is n(1 − ρ)/(1 + ρ)."""
    n = 50_000
    found = effective_sample_size(autoregression(np.random.default_rng(0), rho, (n, 40)))
    known = n * (1 - rho) / (1 + rho)
    assert_allclose(found.mean(), known, rtol=0.02)
    assert_allclose(found, known, rtol=0.25)


def test_it_predicts_the_error_of_a_mean():
    """Means of many chains scatter by sd/√ess."""
    chains = autoregression(np.random.default_rng(1), 0.8, (2000, 1000))
    assert_allclose(
        chains.mean(0).std(), 1 / np.sqrt(effective_sample_size(chains).mean()), rtol=0.1
    )


@pytest.mark.parametrize("n", [5, 6, 7, 64])
def test_autocovariance_is_its_definition(n):
    """Every lag by its own sum; none wraps around."""
    x = np.random.default_rng(n).standard_normal((n, 3)) + 10
    shift = x - x.mean(0)
    known = [(shift[: n - t] * shift[t:]).sum(0) / n for t in range(n)]
    assert_allclose(autocovariance(x), known, atol=1e-13)


def test_the_sequence_ends_where_geyer_ends_it():
    """By hand: pairs are bounded by those before, up to the first that is not positive."""
    x = autoregression(np.random.default_rng(2), 0.7, 301)
    rho = autocovariance(x[:, None])[:, 0]
    rho, total, bound = rho / rho[0], 0.0, np.inf
    for t in range(0, 300, 2):
        bound = min(bound, rho[t] + rho[t + 1])
        if bound <= 0:
            break
        total += bound
    assert_allclose(effective_sample_size(x), 301 / (2 * total - 1), rtol=1e-12)


def test_shapes_scales_and_constants(monkeypatch):
    """Any trailing shape, in any chunks; shift and scale are irrelevant; a constant has NaN."""
    x = autoregression(np.random.default_rng(3), 0.3, (400, 2, 3))
    found = effective_sample_size(x)
    assert found.shape == (2, 3)
    assert_allclose(effective_sample_size(1e6 - 1e3 * x), found, rtol=1e-6)
    monkeypatch.setattr("lrvb.studies.reference.ess.CHUNK", 900)
    assert_allclose(effective_sample_size(x), found, rtol=1e-12)
    assert effective_sample_size(x[:, 0, 0]).shape == ()
    assert np.isnan(effective_sample_size(np.full(100, 0.1)))
    assert effective_sample_size(np.empty((10, 0))).shape == (0,)
