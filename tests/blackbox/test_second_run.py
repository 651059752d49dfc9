"""A second run of HMC: what it confirms where linear response is off, and what it does not."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, polygamma
from tqdm import tqdm

import lrvb
from blackbox.densities import density
from lrvb.blackbox.kernel import Kernel, Values
from lrvb.blackbox.polish import ENDLESS, Polishing, apart

SHAPE = 0.3


@pytest.fixture(scope="module")
def gammas() -> lrvb.Posterior:
    """x = log g, g ~ Gamma(0.3, 1): so skewed that linear response's sds are 0.2 off."""
    return lrvb.from_log_density(lambda x: (SHAPE * x - jnp.exp(x)).sum(), np.zeros(2)).infer(
        functions={"g": lambda v: jnp.exp(v["x"][0])}
    )


def test_two_runs_confirm_each_other(gammas, tmp_path):
    """Means and sds of log Gamma by ψ and ψ′, trusted though linear response differs; a file keeps that."""
    found = gammas.certificate
    table = found.summary()
    assert found.polish.second is not None
    assert (found.polish.second < 0.1).all()
    assert (table["gap"] > 0.15).any()
    assert (table["verdict"] == "trust").all()
    truth = np.array([digamma(SHAPE)] * 2 + [SHAPE])
    sds = np.sqrt([polygamma(1, SHAPE)] * 2 + [SHAPE])
    assert (np.abs(table["mean"] - truth) < 0.1 * sds).all()
    assert (np.abs(np.log(table["sd"] / sds)) < 0.1).all()
    again = lrvb.load(gammas.save(tmp_path / "gammas.npz"))
    np.testing.assert_array_equal(again.certificate.polish.second, found.polish.second)
    assert again.certificate.verdicts == found.verdicts


def test_it_is_not_asked_for_in_vain():
    """A normal posterior is confirmed by linear response, and there is no second run."""
    found = lrvb.from_log_density(lambda x: -0.5 * (x**2).sum(), np.zeros(3)).infer().certificate
    assert found.polish.second is None
    assert (found.summary()["verdict"] == "trust").all()


def test_a_run_of_another_density_is_apart():
    """Means one sd and sds a factor e apart are 1; chains that disagree are as far as can be."""
    runs = []
    for mean, log_sd in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
        target = density(
            lambda x, m=mean, s=log_sd: -0.5 * (((x - m) / jnp.exp(s)) ** 2).sum(), np.zeros(1)
        )
        kernel, values = Kernel(target), Values(target)
        root = np.exp(log_sd) * np.eye(1)
        rng = np.random.default_rng(1)
        chains = Polishing(kernel, values, np.full(1, mean), root, rng, tqdm(disable=True))
        runs.append(chains.go_on())
    first, moved, wider = runs
    np.testing.assert_allclose(
        apart(first, chains.again().found), 1, atol=1e-6
    )  # of the last density
    np.testing.assert_allclose(apart(first, moved), 1, atol=1e-6)
    np.testing.assert_allclose(apart(first, wider), 1, atol=1e-6)
    assert apart(first, wider._replace(r_hat=np.array([1.2])))[0] == ENDLESS
