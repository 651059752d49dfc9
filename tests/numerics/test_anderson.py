"""Anderson acceleration against linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.numerics.anderson import Anderson, Unsettled, solve_affine


def affine(eigenvalues, seed=0):
    """x ↦ Ax + b with given eigenvalues of A, and its fixed point."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(len(eigenvalues),) * 2))[0]
    A, b = Q @ np.diag(eigenvalues) @ Q.T, rng.normal(size=len(eigenvalues))
    return lambda x: A @ x + b, np.linalg.solve(np.eye(len(b)) - A, b)


@pytest.mark.parametrize("spread", [0.3, 0.5, 0.8])
def test_fixed_points_of_contractions(spread):
    """Weights answer variances with either sign, slowly or fast."""
    g, exact = affine(np.linspace(-spread, spread, 40))
    found = solve_affine(g, np.zeros(40), 1e-10)
    # a residual of 1e-10 leaves an error of that over 1 − λ
    assert np.linalg.norm(found - exact) < 1e-10 / (1 - spread) * np.linalg.norm(exact) * 2


def test_a_few_directions_are_solved_exactly():
    """Three eigenvalues take four evaluations, one more to see it, and one for rounding."""
    g, exact = affine(np.array([-0.4, 0.3, 0.8] * 6 + [-0.4]))
    calls = []

    def counted(x):
        calls.append(x)
        return g(x)

    assert_allclose(solve_affine(counted, np.zeros(19), 1e-10), exact, rtol=1e-7)
    assert len(calls) <= 6


def test_nothing_to_do():
    """A fixed point stays where it is."""
    g, exact = affine(np.array([0.2, 0.5]))
    assert_allclose(solve_affine(g, exact, 1e-10), exact, rtol=1e-12)
    assert_allclose(solve_affine(lambda x: x, np.ones(3), 1e-10), np.ones(3))


def test_a_growing_residual_is_met_with_half_a_step():
    """The past is forgotten, and the next step is short."""
    anderson = Anderson()
    x = np.zeros(2)
    assert_allclose(anderson.next(x, np.ones(2)), np.ones(2))
    assert_allclose(anderson.next(np.ones(2), np.full(2, 11.0)), np.full(2, 6.0))
    assert_allclose(anderson.next(np.full(2, 6.0), np.full(2, 7.0)), np.full(2, 7.0))


def test_no_fixed_point_is_no_answer():
    """x ↦ x + 1 has none, and says so."""
    with pytest.raises(Unsettled):
        solve_affine(lambda x: x + 1.0, np.zeros(3), 1e-10)
