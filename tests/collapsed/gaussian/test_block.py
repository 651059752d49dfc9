"""The Gaussian block beyond the laws of the seam: its value itself, and what Σ̂_w|α leaves out."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

from block_cases import KINDS, UNCOUPLED, block_of, blocks_of, dense_rows, flat, vector
from lrvb.collapsed.gaussian.arrow import Blocks
from lrvb.collapsed.gaussian.best_gaussian import NoResponse
from lrvb.collapsed.gaussian.block import BlockSum
from lrvb.numerics.second_differences import around, first_differences, second_differences

COUPLED = [kind for kind in KINDS if kind not in UNCOUPLED]


def answers(block: BlockSum, m: np.ndarray) -> tuple[Blocks, Blocks]:
    """Σ̂_w|α as the block has it, and the blocks of the exact answers to all tilts."""
    layout, state = block.layout, block.collapse(m)
    full = np.zeros((layout.size, layout.size))
    for i, direction in enumerate(np.eye(layout.size)):
        tangent = block.rows.tangent(state.best, vector(layout, direction), None, 0.0)
        full[:, i] = flat(tangent.mu)
    assert_allclose(full, full.T, atol=1e-7 * np.abs(full).max())
    return block.conditional(state), blocks_of(layout, full)


def with_rest_known(block: BlockSum, m: np.ndarray, times: float) -> tuple[BlockSum, np.ndarray]:
    """The same with a prior precision of β, and of all factors but the first, so many times larger."""
    other, m = copy.copy(block), m.copy()
    other.precisions = copy.copy(block.precisions)
    other.precisions.P0 = times * block.precisions.P0
    for d in block.precisions.directions:
        if block.precisions.terms[d.term].factor > 0:
            m[d.at] *= times
    return other, m


@pytest.mark.parametrize("kind", UNCOUPLED)
@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("separate", [False, True])
def test_rows_whose_weights_do_not_follow_are_answered_exactly(kind, crossed, separate):
    """Σ̂_w|α is the inverse Hessian of the means."""
    block, m, _ = block_of(kind, crossed, separate)
    for ours, exact in zip(*answers(block, m), strict=True):
        assert_allclose(ours, exact, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", COUPLED)
@pytest.mark.parametrize("separate", [False, True])
def test_levels_alone_answer_exactly(kind, separate):
    """With β known nothing passes between levels: every covariance of a level is exact."""
    block, m, _ = block_of(kind, False, separate)
    ours, exact = answers(*with_rest_known(block, m, 1e9))
    assert_allclose(ours.Z11, exact.Z11, rtol=0, atol=1e-7 * np.abs(exact.Z11).max())


@pytest.mark.parametrize("kind", COUPLED)
@pytest.mark.parametrize("crossed", [False, True])
def test_what_is_left_out_is_first_order_in_the_variance_of_the_rest(kind, crossed):
    """c_nᵀΣc_m is taken as r_nᵀEr_m: a term linear in Σ_rr is dropped, so the error falls like 1/P."""
    errors = []
    for times in (1e4, 1e5):
        ours, exact = answers(*with_rest_known(*block_of(kind, crossed, False)[:2], times))
        errors.append(np.abs(ours.Z11 - exact.Z11).max())
    assert 8 < errors[0] / errors[1] < 12  # ten, and its own corrections of relative order 1/P


def test_feedback_beyond_bounds_is_refused():
    """Where M − ΣGᵀAG is not positive definite there is no covariance, and none is made up."""
    block, m, _ = block_of("poisson", False, False)
    state = block.collapse(m)
    terms = state.best.terms
    wild = state._replace(best=state.best._replace(terms=terms._replace(ev=30 * terms.ev)))
    with pytest.raises(NoResponse, match="does not settle"):
        block.conditional(wild)


def test_absolute_value_of_the_bound():
    """Fixed precisions and a gaussian response: bound + entropy terms are the exact log evidence."""
    block, _, _ = block_of("gaussian", True, False)
    layout, precisions = block.layout, block.precisions
    Lambda, one, two, own = np.array([[2.0, 0.3], [0.3, 1.5]]), 1.2, 0.7, 1.8
    log = np.linalg.slogdet(Lambda)[1]
    m = np.array([2.0, 0.3, 1.5, log, one, np.log(one), two, np.log(two), own, np.log(own)])
    C = dense_rows(layout)
    prior = precisions.prior(m)
    first = layout.G * layout.q
    P = np.zeros((layout.size, layout.size))
    P[:first, :first] = np.kron(np.eye(layout.G), Lambda)
    P[first:, first:] = prior.rest
    expected_rest = np.diag([0.1, 0.1] + [one, two] * 3)
    assert_allclose(prior.rest, expected_rest)
    mean = C @ flat(block.center)
    cov = C @ np.linalg.inv(P) @ C.T + np.eye(layout.n) / own
    away = block.rows.y - mean
    evidence = -0.5 * (
        away @ np.linalg.solve(cov, away) + np.linalg.slogdet(cov)[1] + layout.n * np.log(2 * np.pi)
    )
    constant = 0.5 * (2 * np.log(0.1) - 2 * np.log(2 * np.pi))  # log normaliser of β's prior
    assert_allclose(block.evaluate(m).value + constant, evidence, rtol=1e-11)
    separate, _, _ = block_of("gaussian", True, True)
    assert separate.evaluate(m).value + constant < evidence


@pytest.mark.parametrize(("kind", "crossed"), [("gaussian", False), ("gaussian", True)])
def test_changes_are_those_of_differences_along_any_root(kind, crossed):
    """From as few points as coordinates move the factor: bend and slopes as along every column of R."""
    block, m, _ = block_of(kind, crossed, separate=True)
    rng = np.random.default_rng(0)
    R = 0.1 * np.abs(m).min() * rng.normal(size=(len(m), len(m)))
    points = around(m, R)
    bend, slopes = block.bends(m, R)
    expected = second_differences(block.density(points, gradient=True).gradient)
    assert_allclose(bend, expected, atol=1e-3 * np.abs(expected).max())
    steps = first_differences(block.gaps(points))
    assert_allclose(slopes, steps, atol=1e-3 * np.abs(steps).max())


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_under_another_tilt_is_only_a_start(kind):
    """At the same m: value, gradient, curvature and means are those of a search from nothing."""
    block, m, _ = block_of(kind, False, False)
    state = block.evaluate(m).state
    tilted = block.pulled(np.array([0.3, -0.2]))
    near, anew = tilted.evaluate(m, 2, state), tilted.evaluate(m, 2)
    assert_allclose(near.state.best.mu.rest, anew.state.best.mu.rest, rtol=1e-8)
    assert np.abs(near.state.best.mu.rest - state.best.mu.rest).max() > 1e-3
    assert_allclose(near.value, anew.value, rtol=1e-9)
    assert_allclose(near.gradient, anew.gradient, rtol=1e-7)
    assert_allclose(near.curvature, anew.curvature, rtol=1e-5, atol=1e-8)
