"""Q⁻¹ of levels and of rows' sums against the inverse of Q written down."""

from __future__ import annotations

import numpy as np
import pytest
from crossing import KINDS, columns, evidence
from numpy.testing import assert_allclose

from lrvb.integrated.matrix_free.covariances import Drawn, covariances
from lrvb.integrated.matrix_free.schur import Schur


def inverse(found, factors, precisions):
    """Q⁻¹ of all levels, factor after factor, each factor's levels with all its coefficients."""
    C = np.concatenate([columns(f) for f in factors], axis=1)
    blocks = [np.kron(np.eye(f.levels), P) for f, P in zip(factors, precisions, strict=True)]
    Q, at = C.T @ C, 0
    for block in blocks:
        Q[at : at + len(block), at : at + len(block)] += block
        at += len(block)
    return np.linalg.inv(Q)


def asked(factors):
    """Rows of the fit, a pair that never met, and rows with new levels."""
    at = np.arange(12)
    levels = [f.codes[at].copy() for f in factors]
    levels[1][3] = factors[1].codes[100]
    levels[0][4] = levels[1][5] = -1
    return levels, [f.R[at] for f in factors]


def expected_rows(S, factors, levels, R):
    found = np.zeros((len(R[0]), len(S)))
    start = 0
    for f, factor in enumerate(factors):
        for n, level in enumerate(levels[f]):
            if level >= 0:
                at = start + level * factor.q
                found[n, at : at + factor.q] = R[f][n]
        start += factor.levels * factor.q
    return np.einsum("nr,rs,ns->n", found, S, found)


def case(kind):
    found, factors, _ = evidence(kind)
    zeta = np.random.default_rng(1).normal(-0.5, 0.3, sum(term.size for term in found.terms))
    return found, factors, zeta, inverse(found, factors, found.precisions(zeta))


def blocks_of(S, factors):
    start = 0
    for factor in factors:
        place = start + np.arange(factor.levels * factor.q).reshape(factor.levels, factor.q)
        yield S[place[:, :, None], place[:, None, :]]
        start = place[-1, -1] + 1


@pytest.mark.parametrize("kind", KINDS)
def test_exact(kind):
    found, factors, zeta, S = case(kind)
    made = covariances(found.schur(zeta), factors)
    assert made.error == 0
    for block, expected in zip(made.blocks(), blocks_of(S, factors), strict=True):
        assert_allclose(block, expected, rtol=1e-9, atol=1e-12)
    levels, R = asked(factors)
    assert_allclose(made.rows(levels, R), expected_rows(S, factors, levels, R), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_by_draws(kind):
    """Sds within four of the errors that are told; unbiased over levels."""
    found, factors, zeta, S = case(kind)
    made = Drawn(Schur(found.sums, found.precisions(zeta)), factors)
    for block, expected in zip(made.blocks(), blocks_of(S, factors), strict=True):
        ratio = np.sqrt(np.diagonal(block / expected, axis1=1, axis2=2))
        assert abs(ratio - 1).max() < max(4 * made.error, 0.02)
        assert abs(ratio.mean() - 1) < 0.01
    levels, R = asked(factors)
    ratio = np.sqrt(made.rows(levels, R) / expected_rows(S, factors, levels, R))
    assert abs(ratio - 1).max() < 0.15
    assert abs(ratio.mean() - 1) < 0.04
