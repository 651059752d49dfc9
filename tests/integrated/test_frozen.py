"""Sums that are frozen near a point are those of the rows there, and so are the answers from them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small import dispersion, intercepts, regression, sloped

from lrvb.integrated.density import Density
from lrvb.integrated.frozen import Frozen, shared
from lrvb.integrated.frozen_draws import EXACT, _checked, draw, draw_cubic
from lrvb.integrated.importance import Budget, integrate, resampled
from lrvb.integrated.integration import integrate_path
from lrvb.integrated.levels import Levels
from lrvb.integrated.many import Together, can_freeze, integrate_many
from lrvb.integrated.mode import climb
from lrvb.integrated.path import Path
from lrvb.integrated.proposals import probed
from lrvb.integrated.regression import Regression
from lrvb.integrated.slopes import Slopes
from lrvb.integrated.stencil import passes
from lrvb.integrated.surrogate import NotSmooth
from lrvb.likelihoods import likelihood_of
from lrvb.likelihoods.values import AtHand

G, SIZE = 40, 6


def made(family: str, slopes: bool, G: int = G, size: int = SIZE):
    """Sums of a factor, and a θ near the middle of its posterior."""
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(G), size)
    x = rng.normal(size=len(codes))
    X = np.column_stack([np.ones(len(codes)), x])
    eta = 0.3 + 0.4 * x + 0.7 * rng.normal(size=G)[codes]
    if slopes:
        eta += 0.4 * rng.normal(size=G)[codes] * x
    rows = regression(family, eta, X)
    tail = dispersion(family)
    if slopes:
        terms = sloped(codes, x, G)
        return Slopes(rows, terms), np.r_[0.3, 0.4, np.log(0.7), np.log(0.4), 0.1, tail]
    return Levels(rows, intercepts(codes, G)), np.r_[0.3, 0.4, np.log(0.7), tail]


@pytest.mark.parametrize("slopes", [False, True], ids=["intercepts", "slopes"])
@pytest.mark.parametrize("family", ["poisson", "bernoulli", "shaped", "differenced"])
def test_frozen_sums_are_those_of_the_rows(family, slopes):
    """Polynomials of degree four leave O(t⁵) of 0.02 a step, nodes 1e-6 of a group's sum."""
    inside, center = made(family, slopes)
    inside.nodes = 31 if slopes else 61
    inside._learn(center[None])
    spread = np.full(len(center), 0.02)
    frozen = Frozen(inside, center, spread)
    theta = center + spread * np.random.default_rng(0).normal(size=(5, len(center)))
    exact, found = inside.evaluate(theta), frozen.evaluate(theta)
    assert_allclose(found.value, exact.value, atol=2e-4)
    assert_allclose(frozen.log_density(theta), found.value, rtol=1e-12)
    assert_allclose(found.first, exact.first, atol=1e-4)
    assert_allclose(found.second, exact.second, atol=1e-4)
    _, gradient, H = frozen.derivatives(theta[0])
    _, g, h = inside.derivatives(theta[0])
    assert_allclose(gradient, g, atol=1e-3 * np.sqrt(np.abs(np.diag(h))).max() + 1e-3)
    assert_allclose(H, h, atol=2e-3 * np.abs(h).max())


def test_far_out_where_polynomials_leave_double_precision_there_is_no_density():
    """x is no column of the levels: far out its polynomials are of either sign and any size."""
    inside, center = made("shaped", False)
    inside._learn(center[None])
    frozen = Frozen(inside, center, np.full(len(center), 0.02))
    far = center + np.multiply.outer([30.0, -30.0, 300.0, -300.0], np.eye(len(center))[1])
    parts = [P for _, _, P in _quietly(frozen, far)]
    assert np.isinf(np.concatenate(parts)).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = frozen.log_density(np.concatenate([center[None], far]))
    assert np.isfinite(found[0])
    assert (found[1:] < found[0]).all()


def _quietly(frozen: Frozen, theta: np.ndarray):
    with np.errstate(over="ignore"):
        return list(frozen._run(theta))


def test_coefficients_of_the_levels_columns_need_no_rows():
    """X = RA: rows depend on z + Aβ alone, so that β may move as far as the grid reaches."""
    inside, center = made("poisson", slopes=True)
    own, A = shared(inside)
    assert own.all()
    assert_allclose(inside.R @ A[:, :2], inside.rows.X, atol=1e-12)
    assert Together(inside).own.all()
    inside.nodes = 41
    inside._learn(center[None])
    frozen = Frozen(inside, center, np.ones(5))
    far = center + 0.1 * np.array([1, -1, 1, -1, 1])
    assert_allclose(frozen.log_density(far[None]), inside.log_density(far[None]), atol=1e-3)


def test_other_columns_and_dispersions_are_visited():
    """Two points on each side of k coordinates that are not the levels' own; corners of two and of three."""
    inside, _ = made("shaped", slopes=False)
    assert list(shared(inside)[0]) == [True, False, True, False]
    assert passes(2) == 1 + 4 * 2 + 4
    assert passes(3) == 1 + 4 * 3 + 4 * 3 + 2
    assert passes(5) == 1 + 4 * 5 + 2 * 10
    assert len(Frozen(inside, inside.start(), np.full(4, 0.1)).others) == 2


@pytest.mark.parametrize("family", ["hurdle_negbinomial", "cumulative"])
def test_dispersions_that_nodes_follow_may_move_far(family):
    """A hurdle, and thresholds that move together, are no polynomials: a whole unit away nothing is lost."""
    rng = np.random.default_rng(4)
    codes = np.repeat(np.arange(G), SIZE)
    x = rng.normal(size=len(codes))
    likelihood = likelihood_of(family)
    given = {"shape": 2.0, "hurdle": 0.3, "threshold[1]": -0.5, "threshold[2]": 0.8}
    eta = 0.7 * rng.normal(size=G)[codes] + 0.4 * x + 0.5
    y = likelihood.draw(rng, eta, given)
    dispersions = likelihood.dispersions_of(AtHand(y))
    rows = Regression.independent(
        Density(likelihood, dispersions=dispersions),
        (y,),
        np.column_stack([np.ones(len(x)), x]),
        np.zeros(len(x)),
        np.zeros(2),
        np.full(2, 3.0),
        tuple(part.prior(1.0) for part in dispersions),
    )
    inside = Levels(rows, intercepts(codes, G))
    center = np.r_[0.2, 0.4, np.log(0.7), rows.dispersion_start()]
    inside.nodes = 121
    inside._learn(center[None])
    frozen = Frozen(inside, center, np.full(len(center), 0.02))
    assert list(frozen.others) == [1, 3 if family == "hurdle_negbinomial" else 4]
    far = center.copy()
    far[4 if family == "hurdle_negbinomial" else 3] += 1.0
    assert_allclose(frozen.log_density(far[None]), inside.log_density(far[None]), atol=1e-3)


@pytest.mark.parametrize(("rough", "order"), [(False, 4), (True, 3)])
def test_polynomials_have_all_products_of_their_degree(rough, order):
    """Along a diagonal, half the distance leaves 1/16 of the error, and of a rough one's 1/8.

    The first term left out has degree four, a product of three of one coordinate and one of another.
    """
    inside, center = made("shaped", slopes=False)
    inside.nodes = 61
    inside._learn(center[None])
    others = np.array([1, 3])

    def off(far: float) -> float:
        frozen = Frozen(inside, center, np.full(4, far), rough=rough)
        theta = np.tile(center, (2, 1))
        theta[:, others] += far * np.array([[1.0, 0.7], [-0.8, 1.0]])
        return float(np.abs(frozen.log_density(theta) - inside.log_density(theta)).max())

    assert off(0.1) < 1.5 * off(0.2) / 2**order


@pytest.mark.parametrize(("family", "slopes"), [("poisson", True), ("bernoulli", False)])
def test_many_levels_have_the_posterior_of_all_draws(family, slopes, monkeypatch):
    """Against importance sampling of the sums themselves, within what Monte Carlo leaves of both."""
    inside, _ = made(family, slopes, G=300)
    assert can_freeze(Together(inside))
    longest = np.where(np.array(inside.kinds) == "free", np.inf, 1.0)
    few = integrate_many(Together(inside), inside, inside.start(), longest)
    monkeypatch.setattr("lrvb.integrated.integration.is_long", lambda *_: False)
    again, _ = made(family, slopes, G=300)
    every = integrate_path(again, Budget(final=1024, explore=128))
    assert every.sample is None
    a, b = few.weighted, every.weighted
    sd = b.sd(every.theta)
    error = np.hypot(a.mean_error(few.theta), b.mean_error(every.theta))
    assert np.all(np.abs(a.mean(few.theta) - b.mean(every.theta)) < 5 * error + 0.01 * sd)
    assert_allclose(a.sd(few.theta), sd, rtol=0.1)
    assert abs(a.log_evidence - b.log_evidence) < 0.05
    for one, other in zip(few.effects, every.effects, strict=True):
        assert_allclose(one.mean, other.mean, atol=0.02)
        assert_allclose(one.sd, other.sd, rtol=0.02)


def test_frozen_sums_are_drawn_from_as_their_cubic_is():
    """The same posterior and evidence, whichever is drawn from, where both will do."""
    inside, _ = made("shaped", slopes=False, G=150)
    longest = np.where(np.array(inside.kinds) == "free", np.inf, 1.0)
    found = integrate_many(Together(inside), inside, inside.start(), longest)
    assert found.near is not None
    center, spread = found.weighted.mean(found.theta), found.weighted.sd(found.theta)
    frozen = Frozen(inside, center, spread)
    mode = climb(frozen.log_density, center, frozen.derivatives, longest)
    path = Path(frozen, mode, straight=True)
    cubic, itself = (way(path, inside.log_density, 0, None) for way in (draw_cubic, draw))
    assert itself.off < 0.01
    a, b = cubic.weighted, itself.weighted
    error = np.hypot(a.mean_error(cubic.theta), b.mean_error(itself.theta))
    gap = np.abs(a.mean(cubic.theta) - b.mean(itself.theta))
    assert np.all(gap < 5 * error + 0.01 * spread)
    assert abs(a.log_evidence - b.log_evidence) < 0.05


class Line:
    """A path that is θ itself, whose frozen density is a normal's."""

    p = 1

    @staticmethod
    def log_density(x):
        return -(x[:, 0] ** 2) / 2

    @staticmethod
    def natural(x):
        return x

    @staticmethod
    def log_volume(x):
        return np.zeros(len(x))


def test_one_of_the_few_draws_says_little_of_a_cubic():
    """Many draws say what a cubic is off by, the few that all rows are asked of what frozen sums are."""
    weighted = integrate(
        Line.log_density,
        probed(Line.log_density, np.zeros(1), np.eye(1)),
        budget=Budget(final=1024),
    )
    astray = weighted.log_p.copy()
    astray[resampled(weighted.weights, EXACT, 1)[3]] += 0.5  # one of a thousand
    off = float(np.sqrt(np.mean((astray - weighted.log_p) ** 2)))
    drawn = replace(weighted, log_p=astray)
    found = _checked(Line, Line.log_density, drawn, off, np.arange(3), 0)
    assert_allclose(found.off, off, rtol=1e-12)
    with pytest.raises(NotSmooth, match="is off by 0"):
        _checked(Line, lambda x: Line.log_density(x) + 0.1, drawn, off, np.arange(3), 0)
