"""Where more draws are wanted: errors too large, or an sd that few draws decide."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from lrvb.integrated.importance import Budget, integrate, tails_of
from lrvb.integrated.proposals import Gaussian
from lrvb.integrated.wanting import TAIL, in_variances, uncertain


def drawn(df: float, wanting=None, limit: int = 0):
    """A t with `df` degrees and a normal coordinate, drawn from a normal."""

    def target(x):
        return -(df + 1) / 2 * np.log1p(x[:, 0] ** 2 / df) - x[:, 1] ** 2 / 2

    start = Gaussian(np.zeros(2), np.eye(2))
    budget = Budget(final=2048, rounds=0, limit=limit)
    return integrate(target, start, budget=budget, wanting=wanting)


def test_more_draws_come_from_where_a_variance_is():
    """Factors of mean 1, ½(1 + x²/var) of the one coordinate whose tail is long."""
    found = drawn(5.0)
    square = (found.x - found.mean(found.x)) ** 2
    long, short = tails_of(found.raw, square)
    assert short < TAIL <= long
    factors = np.exp(uncertain(lambda x: x)(found))
    variance = found.mean(square)
    assert_allclose(factors, (1 + square[:, 0] / variance[0]) / 2, rtol=1e-12)
    assert_allclose(found.weights @ factors, 1.0, rtol=1e-12)


def test_they_mend_the_sd():
    """sd² of a t is df/(df − 2): within four errors, which are known now, where a normal's draws miss it."""
    df, truth = 5.0, np.sqrt(5 / 3)
    found = drawn(df, uncertain(lambda x: x), limit=16384)
    assert tails_of(found.raw, (found.x - found.mean(found.x)) ** 2)[0] < TAIL
    assert abs(found.sd(found.x)[0] - truth) < 4 * found.sd_error(found.x)[0]
    assert found.sd_error(found.x)[0] < 0.02 * truth
    plain = drawn(df)
    assert abs(plain.sd(plain.x)[0] - truth) > 0.05 * truth


def test_nothing_is_wanted_of_draws_that_do():
    """From itself a normal has equal weights; of a few draws the errors are too large, evenly."""

    def target(x):
        return -(x**2).sum(1) / 2

    start = Gaussian(np.zeros(2), np.eye(2))
    many, few = (integrate(target, start, budget=Budget(n, rounds=0)) for n in (4096, 256))
    wanting = uncertain(lambda x: x)
    assert wanting(many) is None
    assert_allclose(wanting(few), 0.0, atol=0)


def test_shares_of_variances_have_mean_one():
    """Of what varies; a constant says nothing, and alone nothing at all."""
    found = drawn(5.0)
    with_constant = np.column_stack([found.x, np.ones(len(found.x))])
    shares = in_variances(with_constant, found.weights)
    assert_allclose(found.weights @ shares, 1.0, rtol=1e-12)
    assert_allclose(shares, in_variances(found.x, found.weights), rtol=1e-12)
    assert not in_variances(np.ones((len(found.x), 1)), found.weights).any()


def test_a_tail_of_next_to_nothing_decides_no_sd():
    """Pareto values of index 0.65 beside a constant that outweighs them: samples have one mean."""
    rng = np.random.default_rng(0)
    raw = np.full(2000, 1 / 2000)
    value = rng.pareto(1 / 0.65, size=(2000, 40))
    assert (tails_of(raw, value) > TAIL).mean() > 0.7
    assert (tails_of(raw, 50 + value) == -np.inf).all()
    spread = (50 + value).mean(0).std() / 50
    assert spread < 0.02
    assert (tails_of(raw, 50 + rng.pareto(1 / 2.5, size=(2000, 40))) > 1).all()
