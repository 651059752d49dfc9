"""The trust-region step: within the radius, an ascent, and the same by both algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.engine import newton
from lrvb.numerics.algebra import diagonal_blocks, sandwich


def problem(seed: int, lowest: float, n: int = 30):
    """A quadratic model whose B has the given lowest eigenvalue."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    eigenvalues = np.concatenate([[lowest], rng.uniform(0.2, 3.0, size=n - 1)])
    C = np.linalg.cholesky(np.eye(n) + 0.1 * Q @ Q.T)
    inverse = np.linalg.inv(C)
    H = inverse.T @ (np.eye(n) - (Q * eigenvalues) @ Q.T) @ inverse
    return newton.curved(rng.normal(size=n), C, (H + H.T) / 2)


@pytest.mark.parametrize("lowest", [0.5, 1e-3, -0.7])
@pytest.mark.parametrize("radius", [0.1, 1.0, 50.0])
def test_both_algorithms_solve_the_trust_region_problem(lowest, radius):
    """Where they take the boundary, the gains agree to the tolerance of the radius (0.8–1)."""
    model = problem(1, lowest)
    rho = model.C.T @ model.r
    spectral = newton._spectral_step(model, rho, radius)
    shifted = newton._shifted_step(model, rho, radius)
    for step in (spectral, shifted):
        assert step.length <= radius * (1 + 1e-9)
        assert step.gain > 0
        # Cᵀδη = u: the step in η has the length it claims. Along the lowest eigenvector, which is
        # added where B has a negative one, (B + λ)u = Cᵀr holds to the 0.1 % by which λ exceeds it.
        rtol = 1e-9 if lowest > 0 else 1e-2
        u = model.C.T @ step.delta
        assert_allclose(np.linalg.norm(u), step.length, rtol=rtol)
        assert_allclose(step.gain, predicted(model, rho, u), rtol=rtol)
    assert shifted.gain >= 0.7 * spectral.gain
    assert spectral.gain >= 0.95 * shifted.gain


def predicted(model, rho, u):
    """The gain ρᵀu − ½uᵀBu of the quadratic model."""
    return rho @ u - 0.5 * u @ model.B @ u


def test_a_step_that_was_shortened(monkeypatch):
    """Cut off after one factorisation, u and δη shrink together, and the gain is that of what is left."""
    monkeypatch.setattr(newton, "_FACTORISATIONS", 1)
    model = problem(4, 0.1)
    rho = model.C.T @ model.r
    step = newton._shifted_step(model, rho, 0.5)
    u = model.C.T @ step.delta
    full = np.linalg.solve(model.B + step.damping * np.eye(len(rho)), rho)
    assert np.linalg.norm(full) > 0.5 == step.length
    assert_allclose(u, full * (0.5 / np.linalg.norm(full)), rtol=1e-9)
    assert_allclose(step.gain, predicted(model, rho, u), rtol=1e-9)


def test_newton_step_inside_the_radius():
    """δη = (I − HV)⁻¹r, undamped."""
    model = problem(2, 0.5)
    step = newton.trust_region_step(model, 1e6)
    V = model.C @ model.C.T
    expected = np.linalg.solve(np.eye(len(V)) - model.H @ V, model.r)
    assert_allclose(step.delta, expected, rtol=1e-9, atol=1e-12)
    assert step.damping == 0
    Sigma = model.C @ np.linalg.solve(model.B, model.C.T)
    assert_allclose(model.decrement, np.sqrt(model.r @ Sigma @ model.r), rtol=1e-10)


@pytest.mark.parametrize("algorithm", [newton._spectral_step, newton._shifted_step])
def test_leaves_an_exact_saddle(algorithm):
    """Without any gradient along it, the direction of ascent is still taken."""
    model = problem(3, -1.0)
    eigenvector = np.linalg.eigh(model.B)[1][:, 0]
    rho = model.C.T @ model.r
    rho = rho - (rho @ eigenvector) * eigenvector
    step = algorithm(model, rho, 20.0)
    assert step.gain > 0
    assert step.length > 10.0


def test_block_diagonal_products_equal_dense_ones():
    """Blocks are found from the zeros of C, and CᵀHC is the same."""
    rng = np.random.default_rng(4)
    C = np.zeros((9, 9))
    for block in (slice(0, 4), slice(4, 5), slice(5, 9)):
        n = block.stop - block.start
        C[block, block] = rng.normal(size=(n, n))
    C[5, 5:8] = 0
    H = rng.normal(size=(9, 9))
    assert diagonal_blocks(C) == [slice(0, 4), slice(4, 5), slice(5, 9)]
    assert_allclose(sandwich(C, H), C.T @ H @ C, rtol=1e-13)
    dense = rng.normal(size=(3, 3))
    assert diagonal_blocks(dense) == [slice(0, 3)]
