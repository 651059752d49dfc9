"""The search for modes ends early only where every start leads to the same summit."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from densities import density, gaussian

from lrvb.blackbox.basin import all_lead_to
from lrvb.blackbox.kernel import BATCH, Kernel
from lrvb.blackbox.modes import STEPS, Mode, find_modes


def two_normals(apart):
    """Equal parts of N(−apart, I) and N(apart, I) in two dimensions."""

    def log_p(x):
        return jnp.logaddexp(-0.5 * ((x - apart) ** 2).sum(), -0.5 * ((x + apart) ** 2).sum())

    return density(log_p, np.zeros(2))


def test_every_start_of_a_gaussian_leads_to_its_mean():
    """However far away, and from points where it is narrow or wide."""
    target, m, S = gaussian(6)
    starts = (
        np.random.default_rng(0).normal(size=(BATCH, 6))
        * 10.0 ** np.arange(-2, 4).repeat(11)[:BATCH, None]
    )
    assert all_lead_to(Kernel(target), m, np.linalg.cholesky(S), starts)


def test_a_second_mode_is_noticed():
    """Starts on one side lead to that side's mode, and not those on both."""
    kernel = Kernel(two_normals(3.0))
    starts = np.random.default_rng(0).normal(size=(BATCH, 2))
    summit = np.full(2, 3.0)
    assert all_lead_to(kernel, summit, np.eye(2), summit + starts)
    starts[0] = -3.5
    assert not all_lead_to(
        kernel, summit, np.eye(2), np.vstack([-2.5 + starts[:1], summit + starts[1:]])
    )


def test_starts_without_a_density_prove_nothing():
    """log p = −∞ below zero."""
    kernel = Kernel(
        density(lambda x: jnp.where(x[0] > 0, 3 * jnp.log(x[0]) - 3 * x[0], -jnp.inf), np.ones(1))
    )
    starts = np.array([[-1.0], [0.5], [2.0], [9.0]])
    assert all_lead_to(kernel, np.ones(1), np.array([[3.0**-0.5]]), starts)


def test_both_modes_are_found():
    """The search goes on where starts lead to different summits."""
    target = two_normals(3.0)
    modes = find_modes(target, Kernel(target), seed=0).found
    assert sorted(round(float(mode.x[0])) for mode in modes) == [-3, 3]


def test_a_regression_needs_a_fraction_of_the_climb():
    """Coefficients and log σ on columns of different scales: the summit is least squares'."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(200), rng.normal(100, 15, 200), rng.integers(0, 2, 200)])
    y = X @ [20.0, 0.6, 5.0] + rng.normal(0, 18, 200)

    def log_p(x):
        return -0.5 * ((y - X @ x[:3]) ** 2).sum() * jnp.exp(-2 * x[3]) - 200 * x[3]

    target = density(log_p, np.zeros(4))
    kernel = Kernel(target)
    (mode,) = find_modes(target, kernel, seed=0).found
    best = np.linalg.lstsq(X, y, rcond=None)[0]
    sd = np.sqrt(np.diag(np.linalg.inv(mode.precision)))[:3]
    np.testing.assert_allclose(mode.x[:3] / sd, best / sd, atol=1e-4)  # Newton's own tolerance
    assert kernel.count.gradients < 0.5 * STEPS * BATCH


def test_a_mode_as_narrow_as_a_neck_has_a_root():
    """P⁻¹ of a precision with scales 1e8 apart and a correlation of 1 − 1e-9: root rootᵀP = I."""
    scale, near = np.array([1e-6, 1e2]), 1 - 1e-9
    P = np.array([[1, near], [near, 1]]) / np.outer(scale, scale)
    root = Mode(np.zeros(2), 0.0, P, 0.0).root
    unit = root.T @ P @ root
    np.testing.assert_allclose(unit, np.eye(2), atol=1e-6)  # rounding over 1 − near
