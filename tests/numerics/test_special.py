"""Special functions and packing, against 50 digits and against the full matrices."""

from __future__ import annotations

import jax
import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.numerics import packing as coordinates
from lrvb.numerics import special
from lrvb.numerics.double import double

ARGUMENTS = np.concatenate([np.logspace(-6, 12, 181), np.linspace(0.5, 80, 160)])


def _trigamma_excess(a):
    return mp.psi(1, a) - 1 / a


def _gamma_entropy(a):
    return a + mp.loggamma(a) + (1 - a) * mp.psi(0, a)


@pytest.mark.parametrize(
    ("function", "exact", "rtol", "atol"),
    [
        (special.trigamma_excess, _trigamma_excess, 2e-15, 0.0),
        (special.trigamma, lambda a: mp.psi(1, a), 2e-15, 0.0),
        # direct up to 64, where terms of size 260 cancel to 3.5
        (special.gamma_entropy, _gamma_entropy, 5e-15, 1e-13),
        (special.digamma, lambda a: mp.psi(0, a), 3e-15, 3e-15),
        (special.gammaln, mp.loggamma, 5e-15, 5e-15),
    ],
    ids=["trigamma_excess", "trigamma", "gamma_entropy", "digamma", "gammaln"],
)
def test_special_functions_keep_their_digits(function, exact, rtol, atol):
    """From 1e-6 to 1e12, relative to 50-digit values."""
    with double():
        ours = np.asarray(jax.jit(function)(ARGUMENTS))
    with mp.workdps(50):
        expected = [float(exact(mp.mpf(float(a)))) for a in ARGUMENTS]
    assert_allclose(ours, expected, rtol=rtol, atol=atol)


def test_packing_inverts_and_counts():
    """Each entry with row ≤ column once; mirrored back; off-diagonal entries count twice."""
    rng = np.random.default_rng(1)
    S, T = (B + B.T for B in rng.normal(size=(2, 4, 4)))
    packed = coordinates.pack_symmetric(S)
    assert_allclose(coordinates.unpack_symmetric(packed, 4), S)
    weighted = coordinates.multiplicity(4) * coordinates.pack_symmetric(T)
    assert_allclose(packed @ weighted, np.sum(S * T))
    assert_allclose(packed[coordinates.packed_index(4)], S)


def test_congruence_is_linear_in_the_packed_matrix():
    """pack(BSBᵀ) = congruence(B) pack(S), so that congruences multiply as their matrices do."""
    rng = np.random.default_rng(2)
    B, other = rng.normal(size=(2, 4, 4))
    S = rng.normal(size=(4, 4))
    S = S + S.T
    packed = coordinates.pack_symmetric(S)
    assert_allclose(coordinates.congruence(B) @ packed, coordinates.pack_symmetric(B @ S @ B.T))
    product = coordinates.congruence(B) @ coordinates.congruence(other)
    assert_allclose(product, coordinates.congruence(B @ other))


def test_symmetric_root_is_the_covariance_of_squares():
    """Cov(xxᵀ) = S_ik S_jl + S_il S_jk for x ~ N(0, S), S = LLᵀ."""
    L = np.random.default_rng(3).normal(size=(3, 3))
    S = L @ L.T
    r, c = np.triu_indices(3)
    root = coordinates.symmetric_root(L)
    expected = S[np.ix_(r, r)] * S[np.ix_(c, c)] + S[np.ix_(r, c)] * S[np.ix_(c, r)]
    assert_allclose(root @ root.T, expected)
