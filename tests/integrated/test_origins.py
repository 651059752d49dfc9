"""Priors of an intercept at an origin far from the rows: a shelf of small slopes beside the mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from integrated.small import NORMAL_ROWS
from lrvb.integrated.density import Density
from lrvb.integrated.direct import integrate_gaussian
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.integration import integrate_path
from lrvb.integrated.proposals import Mixture, SplitT
from lrvb.integrated.regression import Regression
from lrvb.integrated.slopes import Slopes
from lrvb.integrated.terms import Term
from lrvb.likelihoods import POISSON
from lrvb.prior import LKJ, Exponential, HalfNormal, HalfStudentT

LEVELS = 20


def far_from_zero(intercept: float, slope: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """Levels, x near 100, and what levels' intercepts and slopes of these sds add to a row."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, LEVELS, 300)
    x = rng.normal(100, 3, 300)
    u, v = rng.normal(0, intercept, LEVELS), rng.normal(0, slope, LEVELS)
    return codes, x, u[codes] + v[codes] * (x - 100), rng


def is_share_of(inside: Any, found: Any, at: int, low: float, modes: Any, least: float) -> None:
    """P(log sd < low) against draws of wide t's, one over the mode and one over slopes that hardly vary."""
    share = found.weighted.weights @ (found.theta[:, at] < low)
    one = np.ones(len(modes[0][0]))
    parts = tuple(SplitT(np.array(c), np.diag(sd), one, one, 5.0) for c, sd in modes)
    wide = Mixture(parts, np.array([0.5, 0.5]))
    theta = wide.draw(2**13, 0)
    log_w = inside.log_density(theta) - wide.log_density(theta)
    w = np.exp(log_w - log_w.max())
    true = w @ (theta[:, at] < low) / w.sum()
    effective = w.sum() ** 2 / (w @ w)
    assert effective > 500
    assert true > least
    error = np.sqrt(true * (1 - true) * (1 / effective + 1 / found.weighted.ess))
    assert abs(share - true) < 4 * error


def test_a_shelf_of_small_slopes_beside_the_mode_is_not_left_out() -> None:
    codes, x, own, rng = far_from_zero(0.5, 0.2)
    X = np.column_stack([np.ones(300), x])
    y = 12 + 0.6 * (x - 100) + 2 * own + 2 * rng.normal(size=300)
    mean, sd = np.array([12.0, 0.0]), np.array([970.0, 9.7])
    rows = Regression.independent(NORMAL_ROWS, (y,), X, np.zeros(300), mean, sd)
    sds = HalfStudentT(3, 195), HalfNormal(1)
    inside = Gaussian(rows, [Term(codes, X, LEVELS, sds, LKJ(1))], HalfStudentT(3, 5.75))
    found = integrate_gaussian(inside)
    near = [0.0, -1.4, -0.2, 0.7], [0.4, 0.3, 0.4, 0.1]
    low = [0.0, -4.6, 0.0, 0.8], [0.5, 1.5, 1.0, 0.1]
    is_share_of(inside, found, 1, np.log(0.08), (near, low), 0.03)


def test_nor_of_counts() -> None:
    codes, x, own, rng = far_from_zero(0.3, 0.137)
    R = np.column_stack([np.ones(300), x])
    X = R - [0, 100]
    y = rng.poisson(np.exp(0.5 + 0.05 * (x - 100) + own)).astype(float)
    rows = Regression.independent(
        Density(POISSON), (y,), X, np.zeros(300), np.zeros(2), np.full(2, 5.0)
    )
    sds = HalfStudentT(3, 80), Exponential(3)
    inside = Slopes(rows, [Term(codes, R, LEVELS, sds, LKJ(1.5))])
    found = integrate_path(inside)
    near = [0.4, 0.05, -1.1, -2.3, 0.0], [0.12, 0.04, 0.3, 0.35, 0.4]
    low = [0.4, 0.05, -1.1, -5.5, 0.0], [0.12, 0.04, 0.4, 1.5, 1.0]
    is_share_of(inside, found, 3, np.log(0.02), (near, low), 0.02)
