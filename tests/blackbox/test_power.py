"""Powers of prior and likelihood: a normal mean, where everything is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb


def _log_prior(x):
    return -(x[0] ** 2) / 2


def _log_density(x):
    return _log_prior(x) - 2 * (x[0] - 3) ** 2  # precision 1 at 0, and 4 at 3


@pytest.fixture(scope="module")
def posterior():
    return lrvb.from_log_density(_log_density, np.zeros(1), log_prior=_log_prior).infer()


def test_derivatives_per_doubling(posterior):
    """Mean 12b/(a + 4b), variance 1/(a + 4b) at powers a and b: 1,600 draws know them to 5 %."""
    table = posterior.prior_sensitivity().set_index("hyperparameter")
    prior, likelihood = (table.loc[f"log2 power of the {w}"] for w in ("prior", "likelihood"))
    assert_allclose(prior["d_mean"], -12 / 25 * np.log(2), rtol=0.08)
    assert_allclose(likelihood["d_mean"], 12 / 25 * np.log(2), rtol=0.08)
    assert_allclose(prior["d_sd"], -(5**-1.5) / 2 * np.log(2), rtol=0.15)
    assert prior["step"] == 1.0


def test_a_whole_power_by_weights(posterior):
    """12/5.5 at power 1.5 of the prior."""
    table = posterior.prior_sensitivity(verify=2, power=1.5).set_index("hyperparameter")
    change = (12 / 5.5 - 12 / 5) * np.sqrt(5)
    assert_allclose(table.loc["log2 power of the prior", "verified"], change, rtol=0.08)


def test_both_ways_of_a_power(posterior):
    """12/(a + 4) at twice and half the prior's power, foretold by the same weights that verify it."""
    table = posterior.prior_sensitivity(verify=2).set_index("hyperparameter")
    row = table.loc["log2 power of the prior"]
    assert row["back"] == -1.0
    for column, power in (("verified", 2.0), ("verified_back", 0.5)):
        assert_allclose(row[column], (12 / (power + 4) - 12 / 5) * np.sqrt(5), rtol=0.08)


def test_prior_and_data_that_disagree_are_said(posterior):
    """Opposite directions; the likelihood's power alone is no matter of the prior."""
    table = posterior.prior_sensitivity()
    assert "Prior and data disagree about x[0]" in table.note
    assert "The prior matters: the prior to the power " in table.note
    found = {finding.what: finding for finding in posterior.check().findings}
    assert "the prior to the power " in found["priors"].sentence


def test_bad_powers_and_models_without_a_prior(posterior):
    """One sentence each."""
    for power in (1, 0, -2.0, "two", np.inf):
        with pytest.raises(lrvb.InvalidModel, match="must be a positive number other than 1"):
            posterior.prior_sensitivity(power=power)
    with pytest.raises(lrvb.InvalidModel, match="log_prior=3 must be a function"):
        lrvb.from_log_density(_log_density, np.zeros(1), log_prior=3)
    alone = lrvb.from_log_density(_log_density, np.zeros(1)).infer(check=False)
    with pytest.raises(lrvb.InvalidModel, match="not known apart from the data"):
        alone.prior_sensitivity()
