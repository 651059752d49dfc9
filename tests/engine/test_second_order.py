"""The second order: all means from one batch of gradients, refereed by tilted refits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES
from lrvb.engine.second_order import _tilted_loop, mean_shift
from mixtures import overlapping

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", ["NormalPoisson-tilted", "RandomSlope", "NormalMixture"])
def test_shift_of_means_is_the_slope_of_the_loop(name):
    """Σ̂∇g against d/dt of −½ log det(I − VH) at the optimum tilted by t: errors are O(t²)."""
    response = BY_NAME[name].response()
    shift = mean_shift(response)
    sd = np.sqrt(np.diag(response.Sigma))
    named = [i for i, label in enumerate(response.alpha.names()) if label is not None]
    for i in named[:4]:
        tilt = np.zeros(len(sd))
        tilt[i] = h = 0.02 / sd[i]
        slope = (_tilted_loop(response.fit, tilt) - _tilted_loop(response.fit, -tilt)) / (2 * h)
        assert_allclose(shift[i] / sd[i], slope / sd[i], atol=2e-4)


def test_a_mixture_is_refined_in_its_own_units():
    """The same corrections in sds whatever the units; log evidence above the ELBO; four columns."""
    X, _ = overlapping()
    tables = []
    for data in (X, X * 100.0):
        posterior = lrvb.GaussianMixture(2, random_state=0, certify=False).fit(data).posterior_
        table = posterior.refined(["mu[0,0]", "log(pi[0])", "Lambda[0,0,0]"])
        assert list(table.columns) == ["mean", "sd", "lower", "upper"]
        assert ((table["lower"] < table["mean"]) & (table["mean"] < table["upper"])).all()
        assert table.attrs["log_evidence"] > posterior.elbo
        tables.append((table["mean"] - posterior.mean(table.index)) / posterior.sd(table.index))
    assert_allclose(tables[0], tables[1], atol=1e-4)
    assert tables[0].abs().max() > 0.05
