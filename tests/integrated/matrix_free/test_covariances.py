"""Q⁻¹ of levels and of rows' sums against the inverse of Q written down."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from crossing import KINDS, columns, evidence
from numpy.testing import assert_allclose
from small import intercepts

from lrvb.integrated.matrix_free.covariances import Dense, Drawn, covariances
from lrvb.integrated.matrix_free.direct import Direct
from lrvb.integrated.matrix_free.draws import perturbed
from lrvb.integrated.matrix_free.schur import Schur
from lrvb.integrated.matrix_free.sums import factors_of, sum_rows


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
    made = covariances(found.schur(zeta), perturbed(found.sums, factors))
    assert made.error == 0
    for block, expected in zip(made.blocks(), blocks_of(S, factors), strict=True):
        assert_allclose(block, expected, rtol=1e-9, atol=1e-12)
    levels, R = asked(factors)
    assert_allclose(made.rows(levels, R), expected_rows(S, factors, levels, R), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_by_draws(kind):
    """Sds within four of the errors that are told; unbiased over levels."""
    found, factors, zeta, S = case(kind)
    made = Drawn(Schur(found.sums, found.precisions(zeta)), perturbed(found.sums, factors))
    for block, expected in zip(made.blocks(), blocks_of(S, factors), strict=True):
        ratio = np.sqrt(np.diagonal(block / expected, axis1=1, axis2=2))
        assert abs(ratio - 1).max() < max(4 * made.error, 0.02)
        assert abs(ratio.mean() - 1) < 0.01
    levels, R = asked(factors)
    there = pickle.loads(pickle.dumps(made))  # where rows may be
    assert_allclose(there.rows(levels, R), made.rows(levels, R), rtol=1e-12)
    ratio = np.sqrt(made.rows(levels, R) / expected_rows(S, factors, levels, R))
    assert abs(ratio - 1).max() < 0.15
    assert abs(ratio.mean() - 1) < 0.04


def many(kind):
    """Sums and factors of 6000 rows: levels in islands, or within levels of another factor beside a third."""
    rng = np.random.default_rng(8)
    N, K = 6000, 600
    a = rng.integers(0, K, N)
    b = a // 30 * 5 + rng.integers(0, 5, N) if kind == "islands" else rng.integers(0, 60, N)
    terms = [intercepts(a, K), intercepts(b, b.max() + 1)]
    if kind == "nested beside":
        terms.append(intercepts(a // 5, K // 5))
    factors = factors_of(terms)
    return sum_rows(factors, np.ones((N, 1)), np.zeros(N)), factors


@pytest.mark.parametrize("kind", ["crossed", "islands", "nested beside"])
def test_draws_tell_what_they_are_off_by(kind):
    """The root mean square over levels, which are hundreds: to a half of it, of the worst factor."""
    sums, factors = many(kind)
    precisions = [np.full((1, 1), 4.0 / (1 + f)) for f in range(len(factors))]
    exact = Dense(Direct(sums, precisions, 10**4)).blocks()
    made = Drawn(Schur(sums, precisions), perturbed(sums, factors))
    ratios = [np.sqrt(a / b) for a, b in zip(made.blocks(), exact, strict=True)]
    found = max(np.sqrt(np.mean((ratio - 1) ** 2)) for ratio in ratios)
    assert 0.5 * made.error < found < 1.5 * made.error
    assert made.error < {"crossed": 0.001, "islands": 0.1, "nested beside": 0.01}[kind]
