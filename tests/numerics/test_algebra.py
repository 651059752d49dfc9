"""The two matrix formulas, alone: against the paper's own form, and where there is no maximum."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES
from lrvb.engine.newton import curved
from lrvb.numerics.algebra import absorb_local, linear_response, local_root
from lrvb.numerics.double import double


def blocks(seed: int):
    """V block diagonal in (α, z), H symmetric, and I − VH with positive eigenvalues."""
    rng = np.random.default_rng(seed)
    a, d = 5, 3
    C_a, C_z = np.tril(rng.normal(size=(a, a))), np.tril(rng.normal(size=(d, d)))
    H = rng.normal(size=(a + d, a + d))
    H = -H @ H.T / 4  # the expected log joint is concave: always below a maximum
    return a, C_a, C_z, H


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_absorbing_z_is_the_schur_complement(array):
    """eq:nuisance_lrvb_est is the α block of eq:spec_lrvb, to rounding."""
    a, C_a, C_z, H = blocks(1)
    V = np.zeros_like(H)
    V[:a, :a], V[a:, a:] = C_a @ C_a.T, C_z @ C_z.T
    dense = np.linalg.solve(np.eye(len(V)) - V @ H, V)
    with double():
        roots = local_root(array(H[a:, :a]), array(C_z), array(H[a:, a:]))
        effective = absorb_local(array(H[:a, :a]), roots)
        Sigma = np.asarray(linear_response(array(C_a), effective))
    assert_allclose(Sigma, dense[:a, :a], rtol=1e-10, atol=1e-12)


def test_no_maximum_is_not_a_number():
    """An eigenvalue of VH above one: NaN from the formula, never a covariance."""
    _, C, _, H = blocks(2)
    assert np.isnan(linear_response(C, -100 * H[:5, :5])).all()


def test_not_a_maximum_names_eigenvalue_and_block():
    """`linearize` refuses a point that is not a strict maximum."""
    fit = CASES[0].small_fit()
    C, H = fit.curved.C, fit.curved.H.copy()
    tau = fit.alpha.slices["tau"].start
    H[tau, tau] += 4 / (C @ C.T)[tau, tau]
    broken = replace(fit, curved=curved(fit.point.residual, C, H))
    with pytest.raises(lrvb.NotAMaximum, match="block 'tau'") as caught:
        lrvb.linearize(broken)
    assert caught.value.eigenvalue < 0
    assert caught.value.block == "tau"
