"""Priors of an intercept at an origin far from the rows: a shelf of small slopes beside the mode."""

from __future__ import annotations

import numpy as np

from integrated.small import NORMAL_ROWS
from lrvb.integrated.direct import integrate_gaussian
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.proposals import Mixture, SplitT
from lrvb.integrated.regression import Regression
from lrvb.integrated.terms import Term
from lrvb.prior import LKJ, HalfNormal, HalfStudentT


def test_a_shelf_of_small_slopes_beside_the_mode_is_not_left_out() -> None:
    """Against draws of two wide t's, one over the mode and one over slopes that hardly vary."""
    rng = np.random.default_rng(5)
    n, G = 300, 20
    codes = rng.integers(0, G, n)
    x = rng.normal(100, 3, n)
    u, v = rng.normal(0, 0.5, G), rng.normal(0, 0.2, G)
    y = 10 + 2 * (1 + 0.3 * (x - 100) + u[codes] + v[codes] * (x - 100) + rng.normal(size=n))
    X = np.column_stack([np.ones(n), x])
    rows = Regression.independent(
        NORMAL_ROWS, (y,), X, np.zeros(n), np.array([12.0, 0.0]), np.array([970.0, 9.7])
    )
    sds = HalfStudentT(3, 195), HalfNormal(1)
    inside = Gaussian(rows, [Term(codes, X, G, sds, LKJ(1))], HalfStudentT(3, 5.75))
    found = integrate_gaussian(inside)
    share = found.weighted.weights @ (found.theta[:, 1] < np.log(0.08))

    one = np.ones(4)
    parts = (
        SplitT(np.array([0.0, -1.4, -0.2, 0.7]), np.diag([0.4, 0.3, 0.4, 0.1]), one, one, 5.0),
        SplitT(np.array([0.0, -4.6, 0.0, 0.8]), np.diag([0.5, 1.5, 1.0, 0.1]), one, one, 5.0),
    )
    wide = Mixture(parts, np.array([0.5, 0.5]))
    theta = wide.draw(2**15, 0)
    log_w = inside.log_density(theta) - wide.log_density(theta)
    w = np.exp(log_w - log_w.max())
    true = w @ (theta[:, 1] < np.log(0.08)) / w.sum()
    effective = w.sum() ** 2 / (w @ w)
    assert effective > 2000
    error = np.sqrt(true * (1 - true) * (1 / effective + 1 / found.weighted.ess))
    assert true > 0.03
    assert abs(share - true) < 4 * error
