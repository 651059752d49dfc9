"""Priors of an intercept at an origin far from the rows: a shelf of small slopes beside the mode."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import lrvb
from integrated.small import NORMAL_ROWS
from lrvb.integrated.density import Density
from lrvb.integrated.direct import integrate_gaussian
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.integration import integrate_path
from lrvb.integrated.origins import has_shelf, overlooked
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


def test_slopes_that_hardly_vary_alone_have_a_mode_on_the_columns_as_they_are() -> None:
    """Where rows ask for no more, the density on centred columns has a ridge without a top."""
    codes, x, own, rng = far_from_zero(0.5, 0.02)
    d = {"x": x + 1900, "g": codes, "y": 0.05 * (x - 100) + own + rng.normal(size=300)}
    sds = {"sd[1|g]": HalfStudentT(3, 2.5), "sd[x|g]": HalfStudentT(3, 0.5), "corr[g]": LKJ(1)}
    model = lrvb.MixedModel("y ~ x + (1 + x | g)", priors=sds, verbose=False).fit(d)
    assert model._integrated.statement.terms[0].as_they_are
    assert (model.summary()["verdict"] == "trust").all()
    inside = model._integrated.statement.inside
    found = model._integrated.integral
    bulk = found.weighted.mean(found.theta), found.weighted.sd(found.theta)
    wide = bulk[0] + [0.8, 0.3, -0.8, 0.0], bulk[1]
    is_share_of(inside, found, 1, -8.5, (bulk, wide), 0.2)


def test_what_no_draw_has_seen_is_told_by_its_height() -> None:
    """Slopes with a sd of 0.1, and of 0.005 where x̄ = 100: draws are of one, and the other is high or not."""
    codes, x, _, rng = far_from_zero(0.5, 0.1)
    sds = HalfStudentT(3, 2.5), HalfStudentT(3, 0.5)
    term = Term(codes, np.column_stack([np.ones(300), x]), LEVELS, sds, LKJ(1))
    spread = rng.normal(size=(500, 3)) * [0.2, 0.3, 0.3]
    for here, there, fall in ((0.1, 0.005, 0.0), (0.005, 0.1, 0.0), (0.1, 0.005, 20.0)):
        theta = spread + np.log([0.5, here, 1.0])

        def height(points: np.ndarray, places=(here, there), fall=fall) -> np.ndarray:
            near = np.abs(points[:, [1]] - np.log(places)) < 0.7
            return np.where(near[:, 0], 0.0, np.where(near[:, 1], -fall, -50.0))

        assert overlooked([term], theta, term.kinds, height) == (fall == 0)
        assert not overlooked([replace(term, centred=True)], theta, term.kinds, height)


def test_a_shelf_below_the_mode_is_seen_and_none_beside_it() -> None:
    """Of slopes with x̄ = 100, and of the same columns centred, whose shelf would be where the mode is."""
    codes, x, _, _ = far_from_zero(0.5, 0.1)
    sds = HalfStudentT(3, 2.5), HalfStudentT(3, 0.5)
    mode = np.r_[0.3, np.log([0.5, 0.1]), 0.2]
    for shift, there in ((0.0, True), (99.0, False)):
        term = Term(codes, np.column_stack([np.ones(300), x - shift]), LEVELS, sds, LKJ(1))
        assert has_shelf(lambda theta: np.zeros(len(theta)), mode, [term], 1) == there
        assert not has_shelf(lambda theta: 30 * theta[:, 2], mode, [term], 1)
