"""θ integrated around a Gaussian block, against exact sums where those are possible."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small_blocks import crossed

from lrvb.integrated.block.integration import integrate_block
from lrvb.integrated.block.layout import Layout
from lrvb.integrated.block.model import Block, skewed
from lrvb.integrated.block.polynomial import Frame, Polynomial
from lrvb.integrated.crossed import Crossed
from lrvb.integrated.importance import Budget
from lrvb.integrated.integration import integrate_path


@pytest.fixture(scope="module")
def both():
    rows, terms = crossed("bernoulli", N=300, G=80, K=8, slopes=False, sds=(1.2, 0.8))
    block, exact = Block(Layout(rows, terms), "for a test"), Crossed(rows, terms[0], terms[1])
    return integrate_block(block), integrate_path(exact, Budget(final=2048))


def test_coefficients_and_sds_are_those_of_exact_sums(both):
    """Means to 0.1 sd and sds to 5 %: Monte Carlo's errors of both are 0.02 sd and 2 %."""
    ours, theirs = both
    a = np.column_stack([ours.theta[:, :2], np.exp(ours.theta[:, 2:])])
    at = [0, 1, theirs.theta.shape[1] - 1, theirs.theta.shape[1] - 2]
    b = np.column_stack([theirs.theta[:, at[:2]], np.exp(theirs.theta[:, at[2:]])])
    sd = theirs.weighted.sd(b)
    assert (np.abs(ours.weighted.mean(a) - theirs.weighted.mean(b)) < 0.1 * sd).all()
    assert_allclose(ours.weighted.sd(a), sd, rtol=0.06)
    assert ours.node_error < 0.05
    assert abs(ours.weighted.log_evidence - theirs.weighted.log_evidence) < 0.1


def test_levels_are_those_of_exact_sums(both):
    ours, theirs = both
    large, small = ours.effects
    exact_small, exact_large = theirs.effects
    for a, b in ((large, exact_large), (small, exact_small)):
        assert np.abs((a.mean - b.mean) / b.sd).max() < 0.1
        assert_allclose(a.sd, b.sd, rtol=0.1)
        assert abs(np.mean(a.sd / b.sd) - 1) < 0.02
        assert_allclose(a.square, b.square, rtol=0.1)


def test_rows_are_those_of_exact_sums(both):
    """η of known rows: means and variances over draws and nodes; a new level adds its variance."""
    ours, theirs = both
    codes = [np.array([0, 1, -1]), np.array([3, 4, 5])]
    one, X = np.ones((3, 1)), np.column_stack([np.ones(3), [0.5, -1.0, 0.0]])
    moments = []
    for found, order in ((ours, [0, 1]), (theirs, [1, 0])):
        assert found.inside is not None
        total = np.zeros((2, 3))
        theta, w = found.heavy
        lines = found.inside.lines(theta, X, [codes[t] for t in order], [one, one])
        for line in lines:
            share = w[line.at][:, None]
            mean = (line.P * line.eta).sum(2)
            square = (line.P * line.eta**2).sum(2) + line.extra
            total += np.array([(share * mean).sum(0), (share * square).sum(0)])
        moments.append((total[0], np.sqrt(total[1] - total[0] ** 2)))
    (mean, sd), (exact, exact_sd) = moments
    assert (np.abs(mean - exact) < 0.1 * exact_sd).all()
    assert_allclose(sd, exact_sd, rtol=0.05)


def test_levels_that_stand_for_all_tell_what_that_is_worth(monkeypatch):
    """A fifth of the levels: means differ from those of all by no more than four of their own errors."""
    rows, terms = crossed("bernoulli", N=1500, G=300, K=120, slopes=False, sds=(1.2, 0.8))
    every = integrate_block(Block(Layout(rows, terms)))
    assert every.noise is None
    monkeypatch.setattr("lrvb.integrated.block.layout.MANY", 300)
    monkeypatch.setattr("lrvb.integrated.block.layout.FEWEST", 24)
    some = integrate_block(Block(Layout(rows, terms)))
    assert some.noise is not None
    w, sd = some.weighted.weights, some.weighted.sd(some.theta)
    away, noise = some.theta - w @ some.theta, some.noise - w @ some.noise
    parts = noise.shape[1]
    error = (away.T @ (w[:, None] * noise)).std(1) / np.sqrt(parts)
    moved = np.abs(w @ some.theta - every.weighted.mean(every.theta))
    assert (error > 1e-4 * sd).all()
    assert (error < 0.1 * sd).all()
    # besides, polynomials through other points are off by 0.04 of a log density each
    assert (moved < 4 * error + 0.04 * sd).all()


def test_a_cubic_is_found_from_values_and_gradients():
    """Ten coefficients from eight points with their gradients, and a quadratic from values alone."""
    frame = Frame(["free", "free"], np.zeros(2), np.array([[1.0, 0.3], [0.0, 0.5]]))
    rng = np.random.default_rng(0)
    c = rng.normal(size=4)

    def bound(u):
        x, y = u.T
        return -(x**2) - y**2 + c[0] * x * y + c[1] * x**3 + c[2] * x * y**2 + c[3]

    def point(u, h=1e-5):
        gradient = [
            (bound((u + h * e)[None]) - bound((u - h * e)[None]))[0] / 2 / h for e in np.eye(2)
        ]
        own = 0.3 + 0.2 * u[0] * u[1]
        return SimpleNamespace(
            u=u,
            bound=bound(u[None])[0],
            gradient=np.array(gradient),
            own=own,
            rest=0.1,
            value=bound(u[None])[0] + own + 0.1,
        )

    points = [point(u) for u in rng.normal(size=(12, 2))]
    at = 0.5 * rng.normal(size=(5, 2))
    polynomial = Polynomial(frame, points)
    assert_allclose(polynomial(at), bound(at) + 0.4 + 0.2 * at[:, 0] * at[:, 1], atol=1e-5)
    assert_allclose(polynomial.rest(at), 0.1, atol=1e-8)


def test_skewed_nodes_keep_mean_and_variance():
    x, w = np.polynomial.hermite_e.hermegauss(15)
    w = w / w.sum()
    made = skewed(x, np.array(0.6))
    assert_allclose([w @ made, w @ made**2], [0, 1], atol=1e-12)
    assert_allclose(w @ made**3, 0.6, rtol=0.05)


def test_another_order_of_rows_moves_nothing():
    """Points and proposals are round numbers, so that the last digits of sums do not move them."""
    rows, terms = crossed("poisson", N=900, G=9, K=60)
    order = np.random.default_rng(1).permutation(900)
    again = Layout(rows.take(order), [term.take(order) for term in terms])
    ours, theirs = integrate_block(Block(Layout(rows, terms))), integrate_block(Block(again))
    sd = ours.weighted.sd(ours.theta)
    assert_allclose(
        theirs.weighted.mean(theirs.theta) / sd, ours.weighted.mean(ours.theta) / sd, atol=1e-9
    )
    assert_allclose(theirs.weighted.log_evidence, ours.weighted.log_evidence, rtol=1e-13)
