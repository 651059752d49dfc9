"""The path of conditional modes: its volume, and coefficients whose own sd vanishes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from integrated.small import intercepts
from lrvb.integrated.coordinates import Bend, Kind
from lrvb.integrated.crossed import Crossed
from lrvb.integrated.density import Density
from lrvb.integrated.direct import longest_steps
from lrvb.integrated.integration import integrate_path
from lrvb.integrated.laplace import Marginal
from lrvb.integrated.mode import Mode, climb, differenced
from lrvb.integrated.path import Path
from lrvb.integrated.regression import Regression
from lrvb.likelihoods import BERNOULLI


@cache
def alike() -> Crossed:
    """Zeros and ones in 80 × 15 crossed levels, of which the 15 do not differ."""
    rng = np.random.default_rng(3)
    large, small = rng.integers(0, 80, 900), rng.integers(0, 15, 900)
    X = np.column_stack([np.ones(900), rng.normal(size=900)])
    eta = X @ [-0.5, 1.0] + 0.6 * rng.normal(size=80)[large]
    y = (rng.random(900) < 1 / (1 + np.exp(-eta))).astype(float)
    rows = Regression.independent(
        Density(BERNOULLI), (y,), X, np.zeros(900), np.zeros(2), np.full(2, 5.0)
    )
    return Crossed(rows, intercepts(large, 80), intercepts(small, 15))


@cache
def path_of_alike() -> Path:
    inside = alike()
    p, theta = inside.p, inside.start()
    marginal = Marginal(inside, theta[:p])
    found = climb(marginal, theta[p:], differenced(marginal, 1e-2), longest_steps(inside.kinds)[p:])
    mode = Mode(np.r_[marginal.beta, found.x], found.value, np.zeros((len(theta),) * 2))
    return Path(inside, mode, found.hessian, owner=inside.owner)


def test_the_volume_of_a_path_is_its_jacobian() -> None:
    path, p, h = path_of_alike(), alike().p, 1e-5
    rng = np.random.default_rng(0)
    for u in ([0.0, 0.0], [-1.3, 0.1], [0.8, -0.2]):
        x = np.r_[rng.normal(size=p), u]
        moves = h * np.eye(len(x))
        J = (path.natural(x + moves) - path.natural(x - moves)) / (2 * h)
        found = path.log_volume(x[None, p:])[0]
        np.testing.assert_allclose(np.linalg.slogdet(J)[1], found, atol=1e-6)


def test_the_curvature_of_a_joint_path_has_that_of_its_volume() -> None:
    inside = alike().levels
    mode = climb(inside.log_density, inside.start(), inside.derivatives)
    path, p, H = Path(inside, mode), inside.p, mode.hessian
    marginal = H[p:, p:] - H[p:, :p] @ np.linalg.solve(H[:p, :p], H[:p, p:])
    slope = path.bend.slope(path.center)
    h = 1e-4  # the spline's third derivative has a step there
    _, push, second = differenced(path.log_volume, h)(path.center)
    np.testing.assert_allclose(path.hessian, slope[:, None] * marginal * slope + second, rtol=1e-5)
    axes = path.axes[p:, p:]
    moved = path.start[p:] - path.center
    np.testing.assert_allclose(moved, np.clip(axes @ axes.T @ push, -1, 1), atol=1e-6)


@pytest.mark.parametrize("kind", ["free", "log", "correlation", "logit"])
def test_derivatives_of_a_bends_volume(kind: Kind) -> None:
    bend = Bend([kind], np.array([0.3]))
    for x in (-4.0, -0.7, 0.0, 1.3):
        first, second = bend.derivatives(np.array([x]))
        _, gradient, H = differenced(bend.log_jacobian)(np.array([x]))
        np.testing.assert_allclose(first, gradient, atol=1e-6)
        np.testing.assert_allclose(second, H[0], atol=1e-6)


def test_levels_are_standard_normal_along_a_path_where_their_sd_is_next_to_nothing() -> None:
    """Off the axes too, where b and L of two axes are added: log p + |ε|²/2 hardly hangs on ε.

    Its sd is that of log weights, of which log 2 halves them or doubles them.
    """
    path, p = path_of_alike(), alike().p
    e = np.random.default_rng(1).normal(size=(200, p))
    for u in ([-2.0, 0.0], [-2.0, 2 * path.width[1]]):
        x = np.c_[e, np.tile(u, (200, 1))]
        left = path.log_density(x) + (e**2).sum(1) / 2
        assert left.std() < np.log(2)


def test_small_factors_whose_levels_are_alike_leave_most_draws_effective() -> None:
    found = integrate_path(alike()).weighted
    assert found.k_hat < 0.5
    assert found.ess > 0.5 * len(found.x)
