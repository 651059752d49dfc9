"""The compiled kernel, its Hessians, ascents and modes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrvb
from blackbox.densities import density, gaussian
from lrvb.blackbox.ascent import lbfgs, newton
from lrvb.blackbox.kernel import Kernel
from lrvb.blackbox.modes import find_modes
from lrvb.blackbox.propriety import require_proper


def test_hessians_by_differences():
    """rootᵀHroot of log p = −Σ x⁴/12 + x₀x₁ is −diag(x²) with a one off the diagonal."""
    kernel = Kernel(density(lambda x: -(x**4).sum() / 12 + x[0] * x[1], np.ones(3)))
    X = np.random.default_rng(0).normal(size=(70, 3))
    root = np.diag([1.0, 2.0, 0.5])
    H = np.array([-np.diag(x**2) for x in X])
    H[:, 0, 1] = H[:, 1, 0] = 1.0
    np.testing.assert_allclose(kernel.hessians(X, root), root @ H @ root, atol=1e-7)
    assert kernel.count.gradients == 70 * 6


def test_points_without_density():
    """NaN, +∞ and NaN gradients are −∞; only what is not plainly −∞ counts as broken."""

    def log_p(x):
        return jnp.where(x[0] > 1, jnp.log(-x[0]), jnp.where(x[0] < -1, -jnp.inf, -x @ x))

    kernel = Kernel(density(log_p, np.ones(2)))
    value, gradient = kernel(np.array([[2.0, 0.0], [-2.0, 0.0], [0.5, 1.0]]), watch=True)
    assert np.isneginf(value[:2]).all()
    assert (gradient[:2] == 0).all()
    assert value[2] == pytest.approx(-1.25)
    assert (kernel.count.watched, kernel.count.broken) == (3, 1)


def test_ascents_reach_the_summit():
    """Rosenbrock's valley by both, from the far side."""
    target = density(lambda x: -((1 - x[0]) ** 2) - 10 * (x[1] - x[0] ** 2) ** 2, np.zeros(2))
    kernel = Kernel(target)
    summit = newton(kernel, np.array([-1.5, 2.0]))
    assert summit.proper
    np.testing.assert_allclose(summit.x, 1, atol=1e-5)

    found = lbfgs(kernel, np.array([-1.5, 2.0]), tol=1e-6)
    assert found.converged
    np.testing.assert_allclose(found.x, 1, atol=1e-4)
    assert (np.diff(found.trace) > -1e-12).all()
    together = lbfgs(kernel, np.array([-1.5, 2.0]), tol=1e-6, together=8)
    np.testing.assert_array_equal(together.x, found.x)  # the same steps, tried in fewer calls


def test_every_mode_is_found_with_its_evidence():
    """Two normals of weights ¾ and ¼, twelve sds apart: log evidences differ by log 3."""

    def log_p(x):
        near = -((x - 3) ** 2).sum() + jnp.log(3.0)
        far = -((x + 3) ** 2).sum()
        return jnp.logaddexp(near, far)

    target = density(log_p, np.zeros(2))
    modes = find_modes(target, Kernel(target), seed=0)
    assert len(modes.found) == 2
    np.testing.assert_allclose(modes.found[0].x, 3, atol=1e-4)
    assert modes.differences == pytest.approx((0.0, -np.log(3)), abs=1e-3)
    assert modes.found[0].log_evidence == pytest.approx(np.log(3 * np.pi), abs=1e-3)


def test_what_does_not_fall_is_named():
    """A normal is proper, and so is a Cauchy; a flat direction is not, whichever way it points."""
    target, m, S = gaussian(3)
    require_proper(target, Kernel(target), m, np.diag(np.sqrt(np.diag(S))))
    cauchy = density(lambda x: -jnp.log1p(x**2).sum(), np.zeros(2))
    require_proper(cauchy, Kernel(cauchy), np.zeros(2), np.eye(2))
    flat = density(lambda x: -((x[0] + x[1]) ** 2) - x[2] ** 2, np.zeros(3))
    kernel = Kernel(flat)
    require_proper(flat, kernel, np.zeros(3), np.eye(3))
    with pytest.raises(lrvb.InvalidModel, match=r"'x\[0\]' and 'x\[1\]' a proper prior"):
        require_proper(flat, kernel, np.zeros(3), np.array([[1.0, -1.0, 0.0]]))


def test_what_jax_cannot_differentiate_is_told():
    """JAX has I_x(a, b), but no slope of it in a: one sentence names the density, no error of JAX's."""

    def log_p(x):
        return jnp.log(jax.scipy.special.betainc(jnp.exp(x[0]), 2.0, 0.3)) - 0.5 * x @ x

    kernel = Kernel(density(log_p, np.zeros(1)))
    with pytest.raises(lrvb.InvalidModel, match="The log density of f could not be differentiated"):
        kernel(np.zeros((1, 1)))
