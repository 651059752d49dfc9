"""Conjugate gradients in the inner product of V: the solution, and what they leave unsolved."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.numerics.conjugate_gradients import solve
from lrvb.numerics.double import double


def walk(length: int, weight: float):
    """V and H of independent q of a random walk's states, and (I − HV)⁻¹ in the inner product of V."""
    own = 2 * weight + 1.0

    def H(v):
        none = jnp.zeros(1)
        return weight * (jnp.concatenate([v[1:], none]) + jnp.concatenate([none, v[:-1]]))

    precision = np.diag(np.full(length, own))
    precision -= weight * (np.eye(length, k=1) + np.eye(length, k=-1))
    return (lambda v: v / own), H, np.linalg.inv(precision)


@pytest.mark.parametrize(("length", "weight"), [(60, 1e4), (1500, 1e8)])
def test_states_of_a_stiff_walk(length, weight):
    """As many steps as it takes: five hundred would leave a third of these variances away."""
    V, H, Sigma = walk(length, weight)
    with double():
        found = jax.jit(lambda r: solve(V, H, r))(jnp.ones(length))
    assert found.positive
    assert found.left <= 1e-12
    assert_allclose(found.Vx, Sigma @ np.ones(length), rtol=1e-6)


def test_what_is_left_is_said():
    """The residual's length as a share of the right side's; none of a right side of zero."""
    V, H, _ = walk(1500, 1e8)
    with double():
        r = jnp.ones(1500)
        found = solve(V, H, r, steps=20)
        rest = r - found.x + H(V(found.x))
        assert_allclose(found.left, np.sqrt(rest @ V(rest) / (r @ V(r))), rtol=1e-8)
        assert solve(V, H, jnp.zeros(1500)).left == 0
