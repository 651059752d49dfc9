"""h = log |V| and M = TᵀV⁻¹T against V written down."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from crossing import KINDS, by_probes, covariance, evidence
from numpy.testing import assert_allclose
from scipy.sparse.linalg import splu

from lrvb.integrated.matrix_free.direct import stays_sparse
from lrvb.integrated.matrix_free.draws import signs


def written_down(terms, zeta, T):
    V = covariance(terms, zeta)
    return np.linalg.slogdet(V)[1], T.T @ np.linalg.solve(V, T)


def some(found):
    D = sum(term.size for term in found.terms)
    return np.random.default_rng(1).normal(-0.5, 0.3, D)


@pytest.mark.parametrize("kind", KINDS)
def test_values_and_derivatives(kind):
    """Differences of what is written down have an error of O(h²)."""
    found, _, T = evidence(kind)
    zeta = some(found)
    point = found.at(zeta)
    h, M = written_down(found.terms, zeta, T)
    assert_allclose(point.h, h, rtol=1e-10)
    assert_allclose(point.M, M, rtol=1e-7, atol=1e-7)
    step = 1e-4
    for k, move in enumerate(step * np.eye(len(zeta))):
        up, down = (written_down(found.terms, zeta + s * move, T) for s in (1, -1))
        assert_allclose(point.h_slope[k], (up[0] - down[0]) / (2 * step), atol=1e-4)
        assert_allclose(point.M_slope[k], (up[1] - down[1]) / (2 * step), atol=1e-3)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nested"])
def test_probes_tell_their_own_error(kind):
    """The mean over probes is within four of its standard errors, for h and its derivatives."""
    found, *_ = evidence(kind)
    zeta = some(found)
    exact = found.at(zeta)
    by_probes(found, 600)
    point = found.at(zeta)
    error = point.noise.std() / np.sqrt(600)
    assert 0 < error < 0.3
    assert abs(point.h - exact.h) < 4 * error
    assert (abs(point.h_slope - exact.h_slope) < 4 * point.noise_slope.std(0) / np.sqrt(600)).all()
    assert_allclose(point.M, exact.M, rtol=1e-6, atol=1e-6)


def test_nested_factors_need_no_iteration():
    """T = 0: one probe, one iteration, and all is exact."""
    found, *_ = evidence("nested")
    assert found.exact
    assert not found.direct
    point = found.at(some(found))
    assert point.iterations == 1
    assert_allclose(point.noise, 0.0)


def test_signs_are_even():
    """Σ of 10⁵ signs has the sd √10⁵."""
    drawn = signs(np.random.default_rng(0), (1000, 100))
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert abs(drawn.sum()) < 4 * np.sqrt(1e5)


@pytest.mark.parametrize("kind", ["band", "grid", "random"])
def test_the_work_of_a_sparse_factor_is_foreseen(kind):
    """Σ d² against the factor in SuperLU's order of fewest neighbours, whose ties fall otherwise."""
    r, rng = 400, np.random.default_rng(2)
    if kind == "band":
        near = sp.diags_array([np.ones(r - 1), np.ones(r - 2)], offsets=[1, 2])
    elif kind == "grid":
        line = sp.diags_array([np.ones(19)], offsets=[1], shape=(20, 20))
        near = sp.kron(line, sp.eye_array(20)) + sp.kron(sp.eye_array(20), line)
    else:
        near = sp.coo_array((np.ones(4 * r), rng.integers(0, r, (2, 4 * r))), shape=(r, r))
    S = sp.csc_array(near + near.T + 20 * sp.eye_array(r))
    options = {"SymmetricMode": True}
    factor = splu(S, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    work = float(((np.diff(factor.L.indptr) - 1.0) ** 2).sum())
    assert stays_sparse(S.tocsr(), 1.5 * work)
    assert not stays_sparse(S.tocsr(), work / 1.5)
