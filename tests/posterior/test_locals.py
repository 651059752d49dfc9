"""The sd of a row's variable: what its own factor leaves, and what it inherits from the globals."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import lrvb
from cases import CASES


def test_a_rows_variance_is_its_own_and_its_share_of_the_globals():
    """Var z = Σ̂_z|α + Cov(z, α) Σ̂⁻¹ Cov(α, z), where every coordinate of α has a name."""
    case = next(case for case in CASES if case.name == "GammaPoisson")
    posterior, fit = lrvb.summarize(case.response()), case.small_fit()
    local = posterior.local("lam")
    own = next(lrvb.AutodiffSum().bind(fit.problem, fit.problem.n).respond(fit.m)).Sigma[:, 0, 0]
    cov = local["cov"].to_numpy()
    share = np.einsum("na,ab,nb->n", cov, np.linalg.inv(posterior.cov().to_numpy()), cov)
    assert np.all(share > 1e-6 * own)  # so that eight digits of the sum see it
    assert_allclose(local["sd"].to_numpy() ** 2, own + share, rtol=1e-8)
