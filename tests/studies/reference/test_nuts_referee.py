"""NUTS, which knows only the joint densities, as a referee of the exact posteriors."""

import sys

import numpy as np
import pytest

from lrvb import errors
from lrvb.studies.reference import normal_poisson, nuts, random_slope, simulate

LIMIT = 4.0  # Monte Carlo standard errors


def scores(chain, exact):
    """Differences of means, then of sds, in Monte Carlo standard errors: all quantities, all z."""
    summary = chain.summary()
    z = [name for name in summary.index if name.startswith("z[")]
    assert len(z) == len(exact.z_mean)
    found = summary.loc[[*exact.names, *z]]
    means = found["mean"] - np.concatenate([exact.mean, exact.z_mean])
    sds = found["sd"] - np.concatenate([exact.sd, exact.z_sd])
    return np.concatenate([means / found["mean_error"], sds / found["sd_error"]])


def assert_within_monte_carlo_error(chain, exact):
    """None beyond the limit, and together about as large as standard errors say.

    Standard errors that were too wide would let a wrong posterior pass.
    """
    assert chain.divergences == 0
    assert chain.ess[exact.names].min() > 400
    found = scores(chain, exact)
    assert np.abs(found).max() < LIMIT
    assert 0.5 < np.sqrt(np.mean(found**2)) < 1.6


def test_nuts_agrees_with_the_normal_poisson_quadrature():
    """eq:pn_model with 100 rows: β, τ, log τ and every z_n; and it would notice another prior."""
    pytest.importorskip("numpyro")
    data = simulate.normal_poisson(np.random.default_rng(40), n=100, beta=1.2, sd=0.7)
    columns = {"x": data["x"], "y": data["y"]}
    chain = nuts.normal_poisson(**columns, seed=1)
    assert_within_monte_carlo_error(chain, normal_poisson.exact(**columns))
    other = normal_poisson.exact(**columns, tau_shape=0.5, tau_rate=0.5)
    assert np.abs(scores(chain, other)).max() > LIMIT


def test_nuts_agrees_with_the_random_slope_quadrature():
    """sec:random_effects_model at the study's size; and it would notice another prior of ν."""
    pytest.importorskip("numpyro")
    data = simulate.random_slope(np.random.default_rng(41))
    columns = {name: data[name] for name in ("x", "r", "y", "group")}
    chain = nuts.random_slope(**columns, seed=2)
    assert_within_monte_carlo_error(chain, random_slope.exact(**columns))
    other = random_slope.exact(**columns, nu_shape=1.0, nu_rate=0.5)
    assert np.abs(scores(chain, other)).max() > LIMIT


def test_a_missing_numpyro_is_named(monkeypatch):
    """The message says what to install."""
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(errors.LrvbError, match=r"pip install 'lrvb\[bench\]'"):
        nuts.normal_poisson(np.zeros(2), np.ones(2), seed=0)


def test_an_empty_chain_is_refused():
    """Before any sampling."""
    pytest.importorskip("numpyro")
    with pytest.raises(errors.InvalidModel, match="draws=0"):
        nuts.normal_poisson(np.zeros(2), np.ones(2), seed=0, draws=0)
