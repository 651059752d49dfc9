"""Products, sums and elimination without a dense matrix, against the dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from block_cases import (
    SHAPES,
    blocks_of,
    dense_cross,
    dense_rows,
    flat,
    layout_of,
    random_prior,
    vector,
)
from lrvb.collapsed.gaussian.arrow import (
    Blocks,
    NotPositive,
    Prior,
    invert,
    invert_separately,
    posterior_precision,
)
from lrvb.collapsed.gaussian.layout import Cross
from lrvb.collapsed.gaussian.least_squares import times, trace

every_shape = pytest.mark.parametrize("name", SHAPES)
ATOL = 1e-11  # condition numbers stay below 1e4


def assert_blocks(found: Blocks, expected: Blocks) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        dense = ours.toarray() if hasattr(ours, "toarray") else ours
        assert_allclose(dense, theirs, rtol=1e-9, atol=ATOL)


def system(layout, weights=None):
    """(Q in arrow form, Q in full, P)."""
    W = np.random.default_rng(2).uniform(0.5, 2, layout.n) if weights is None else weights
    prior = random_prior(layout)
    cross = layout.cross(W)
    C = dense_rows(layout)
    P = dense_cross(layout, posterior_precision(layout.cross(np.zeros(layout.n)), prior))
    return posterior_precision(cross, prior), C.T @ (W[:, None] * C) + P, prior, P


# ---- rows ------------------------------------------------------------------------------------


@every_shape
def test_rows_times_coefficients(name):
    """Cw and Cᵀs."""
    layout, rng = layout_of(SHAPES[name]), np.random.default_rng(3)
    C, w, s = dense_rows(layout), rng.normal(size=layout.size), rng.normal(size=layout.n)
    assert_allclose(layout.forward(vector(layout, w)), C @ w, atol=ATOL)
    assert_allclose(flat(layout.adjoint(s)), C.T @ s, atol=ATOL)
    assert layout.size == C.shape[1] == len(flat(layout.zeros()))


@every_shape
def test_weighted_cross_products(name):
    """CᵀWC, and its product with a vector."""
    layout, rng = layout_of(SHAPES[name]), np.random.default_rng(4)
    C, W = dense_rows(layout), rng.normal(size=layout.n)
    w = rng.normal(size=layout.size)
    K, full = layout.cross(W), C.T @ (W[:, None] * C)
    assert_allclose(dense_cross(layout, K), full, atol=ATOL)
    assert_allclose(dense_cross(layout, K.scaled(2.5)), 2.5 * full, atol=ATOL)
    assert_allclose(flat(times(K, vector(layout, w))), full @ w, atol=ATOL)


@every_shape
def test_quadratic_forms_of_rows(name):
    """c_nᵀZc_n from the blocks of a full Z, and tr(CᵀWC Z) = Σ W_n c_nᵀZc_n."""
    layout, rng = layout_of(SHAPES[name]), np.random.default_rng(5)
    C, W = dense_rows(layout), rng.normal(size=layout.n)
    root = rng.normal(size=(layout.size, layout.size))
    Z = root @ root.T
    expected = np.einsum("ni,ij,nj->n", C, Z, C)
    blocks = blocks_of(layout, Z)
    assert_allclose(layout.quadratic(*blocks), expected, rtol=1e-11)
    assert_allclose(trace(layout.cross(W), blocks), W @ expected, rtol=1e-9)


@every_shape
def test_prior_times_a_vector(name):
    """Pw with one matrix for all levels, and with one for each."""
    layout, rng = layout_of(SHAPES[name]), np.random.default_rng(6)
    _, _, prior, P = system(layout)
    w = rng.normal(size=layout.size)
    assert_allclose(flat(prior.times(vector(layout, w))), P @ w, atol=ATOL)
    each = np.broadcast_to(prior.first, (layout.G, layout.q, layout.q)).copy()
    assert_allclose(flat(Prior(each, prior.rest).times(vector(layout, w))), P @ w, atol=ATOL)


# ---- elimination -----------------------------------------------------------------------------


@every_shape
def test_inverse_of_all_coefficients_together(name):
    """Blocks of Q⁻¹, log det Q and Q⁻¹b."""
    layout = layout_of(SHAPES[name])
    Q, full, _, _ = system(layout)
    arrow, inverse = invert(Q), np.linalg.inv(full)
    assert_blocks(arrow.blocks, blocks_of(layout, inverse))
    assert_allclose(arrow.logdet, np.linalg.slogdet(full)[1], rtol=1e-12)
    b = np.random.default_rng(7).normal(size=layout.size)
    assert_allclose(flat(arrow.solve(vector(layout, b))), inverse @ b, rtol=1e-9, atol=ATOL)


def masks_of(layout, rng):
    """Blocks that share a factor: coefficients of a level, β, and every level of the others."""
    first = np.ones((layout.q, layout.q), bool)
    if layout.q > 1:  # the last coefficient alone
        first[-1, :-1] = first[:-1, -1] = False
    owner = np.concatenate(
        [
            np.zeros(layout.p, int),
            *(
                1 + 100 * f + np.repeat(np.arange(g.levels), g.R.shape[1])
                for f, g in enumerate(layout.others)
            ),
        ]
    )
    return first, owner[:, None] == owner


@every_shape
def test_inverse_of_each_factor_alone(name):
    """With the masked entries zero, the inverse and log det of what is left."""
    layout = layout_of(SHAPES[name])
    Q = system(layout)[0]
    first, rest = masks_of(layout, np.random.default_rng(8))
    kept = Cross(np.where(first, Q.D, 0), Q.B * 0, np.where(rest, Q.A, 0))
    dense = dense_cross(layout, kept)
    separate = invert_separately(Q, (first, rest))
    assert_blocks(separate.blocks, blocks_of(layout, np.linalg.inv(dense)))
    assert_allclose(separate.logdet, np.linalg.slogdet(dense)[1], rtol=1e-12)


@every_shape
@pytest.mark.parametrize("joint", [True, False])
def test_tangent_of_the_inverse(name, joint):
    """−Q⁻¹ δQ Q⁻¹ in the blocks that rows touch, for a change of the arrow's shape."""
    layout, rng = layout_of(SHAPES[name]), np.random.default_rng(9)
    Q, full, _, _ = system(layout)
    change = posterior_precision(layout.cross(rng.normal(size=layout.n)), random_prior(layout, 10))
    dQ = dense_cross(layout, change)
    if joint:
        inverse, found = np.linalg.inv(full), invert(Q)
    else:
        masks = masks_of(layout, rng)
        full_masks = dense_cross(
            layout,
            Cross(
                np.broadcast_to(masks[0], Q.D.shape).astype(float), Q.B * 0, masks[1].astype(float)
            ),
        )
        inverse, found = np.linalg.inv(full * full_masks), invert_separately(Q, masks)
        dQ = dQ * full_masks
    expected = blocks_of(layout, -inverse @ dQ @ inverse)
    assert_blocks(found.tangent(change), expected)


# ---- refusals --------------------------------------------------------------------------------


@every_shape
def test_refusal_is_where_the_smallest_eigenvalue_changes_its_sign(name):
    """Q − c·I is inverted up to c = λ_min and refused beyond: no part of the elimination hides it."""
    layout = layout_of(SHAPES[name])
    Q, full, _, _ = system(layout)
    low = np.linalg.eigvalsh(full)[0]

    def shifted(c):
        return Cross(Q.D - c * np.eye(layout.q), Q.B, Q.A - c * np.eye(layout.r))

    close = 1e-6  # far above rounding, 1e-16 times condition numbers below 1e4
    assert np.isfinite(invert(shifted((1 - close) * low)).logdet)
    with pytest.raises(NotPositive):
        invert(shifted((1 + close) * low))


@every_shape
def test_separate_factors_are_refused_by_their_own_eigenvalues(name):
    """Each diagonal block alone decides: the smallest of all their eigenvalues."""
    layout = layout_of(SHAPES[name])
    Q = system(layout)[0]
    masks = masks_of(layout, np.random.default_rng(8))
    kept = Cross(np.where(masks[0], Q.D, 0), Q.B * 0, np.where(masks[1], Q.A, 0))
    low = np.linalg.eigvalsh(dense_cross(layout, kept))[0]

    def shifted(c):
        return Cross(Q.D - c * np.eye(layout.q), Q.B, Q.A - c * np.eye(layout.r))

    assert np.isfinite(invert_separately(shifted((1 - 1e-6) * low), masks).logdet)
    with pytest.raises(NotPositive):
        invert_separately(shifted((1 + 1e-6) * low), masks)


@pytest.mark.parametrize("name", [n for n in SHAPES if SHAPES[n].p])
def test_what_is_not_a_number_is_refused(name):
    """Never an answer of NaN."""
    layout = layout_of(SHAPES[name])
    Q = system(layout)[0]
    A = Q.A.copy()
    A[0, 0] = np.nan
    with pytest.raises(NotPositive):
        invert(Cross(Q.D, Q.B, A))
    with pytest.raises(NotPositive):
        invert_separately(Cross(Q.D, Q.B, A), masks_of(layout, np.random.default_rng(8)))
