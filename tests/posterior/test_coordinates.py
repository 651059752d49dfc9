"""Coordinates of draws: with the covariance of q itself they have the spread that q gives them."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import polygamma

from cases import CASES
from lrvb.posterior.draws import unconstrained
from lrvb.posterior.estimate import estimate_of


def test_wishart_coordinates_have_bartletts_variances():
    """Λ = LAAᵀLᵀ under q: Var log A_jj = ¼ψ′((ν − j)/2) and Var A_ij = 1."""
    case = next(case for case in CASES if case.name == "NormalMixture")
    response = case.response()
    estimate = estimate_of(response)
    root = unconstrained(estimate).root(estimate.V)
    variance = np.einsum("ij,ij->i", root, root)
    dof = np.asarray(response.fit.params()["Lambda"]["dof"])
    first = 2 * 2  # after two means of two coordinates each: (log A_00, log A_11, A_10) twice
    ours = variance[first : first + 6].reshape(2, 3)
    half = (dof[:, None] - np.arange(2)) / 2
    assert_allclose(ours[:, :2], polygamma(1, half) / 4, rtol=1e-8)
    assert_allclose(ours[:, 2], 1.0, rtol=1e-8)
