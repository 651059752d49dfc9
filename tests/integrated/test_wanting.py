"""Where more draws are wanted: errors too large, or an sd that few draws decide."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.integrated.effort import FEWEST, LAST, PATIENT, WORK, TooMuchWork, affordable, enough
from lrvb.integrated.importance import Budget, Weighted, integrate, tails_of
from lrvb.integrated.proposals import Gaussian, Mixture, SplitT, fit_blocks
from lrvb.integrated.wanting import (
    OUTER,
    SD_ERROR,
    TAIL,
    WANTED,
    for_squares,
    in_sds,
    in_variances,
    uncertain,
)


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


def log_normal(s, limit=16384, growth=0.5):
    """Draws of x ~ N(0, 1) for the sd of e^{sx}, whose kurtosis is 8.9 with s = ½; how many in a limit."""

    def values(x):
        return np.exp(s * x)

    start = Gaussian(np.zeros(1), np.eye(1))
    budget = Budget(final=1024, rounds=0, limit=limit, growth=growth)
    refit = for_squares(lambda x, w: fit_blocks(x, w, 0), values)
    wanting = uncertain(values, sparing=True)
    return values, integrate(lambda x: -(x[:, 0] ** 2) / 2, start, refit, budget, wanting=wanting)


def test_an_sd_of_much_kurtosis_takes_no_more_draws_than_its_error_asks_for():
    """From the posterior itself (κ − 1)/4·0.02² = 4900; from where the variance is at most 1/0.02²."""
    values, found = log_normal(0.5)
    truth = np.sqrt(np.expm1(0.25) * np.exp(0.25))
    error = found.sd_error(values(found.x))[0] / truth
    assert error < WANTED
    assert len(found.x) <= 1 / WANTED**2
    assert abs(found.sd(values(found.x))[0] / truth - 1) < 3 * error


def test_calibrated_draws_are_fewer():
    """A normal's mean and sd are known from so few draws that their own errors would ask for more."""

    def target(x):
        return -(x**2).sum(1) / 2

    start = SplitT(np.zeros(2), np.eye(2), np.ones(2), np.ones(2), 7.0)
    found = integrate(target, start, budget=Budget(256, rounds=0))
    assert uncertain(lambda x: x)(found) is not None
    assert uncertain(lambda x: x, sparing=True)(found) is None


def test_of_rough_values_less_is_asked():
    """600 draws by chance know a normal's sd to 0.03: enough for a verdict, not for what is wanted."""
    rng, n = np.random.default_rng(3), 600
    x = rng.standard_normal((n, 1))
    even = np.full(n, 1 / n)
    found = Weighted(x, -(x[:, 0] ** 2) / 2, -(x[:, 0] ** 2) / 2, even, even, -0.5, n, 0.0, 0.0)
    assert WANTED < found.sd_error(x)[0] / found.sd(x)[0] < SD_ERROR
    assert uncertain(lambda x: x)(found) is not None
    assert uncertain(lambda x: x[:, :0], rough=lambda x: x)(found) is None


def test_draws_grow_by_their_share_up_to_the_limit():
    """A limit that is not a multiple of what was drawn is reached nevertheless."""
    _, found = log_normal(1.5, limit=1536, growth=0.25)
    assert len(found.x) == 1024 + 256 + 256


def test_a_share_of_a_proposal_is_where_squares_are():
    """Of e^{sx}: fitted to p(f − μ)²/σ², which has its weights' mean."""
    x = Gaussian(np.zeros(1), np.eye(1)).draw(4096, 0)
    w = np.full(4096, 1 / 4096)

    def fit(x, w):
        return fit_blocks(x, w, 0)

    found = for_squares(fit, np.exp)(x, w)
    assert isinstance(found, Mixture)
    assert_allclose(found.weights, [1 - OUTER, OUTER])
    share = w * in_variances(np.exp(x), w)
    outer = fit(x, share / share.sum())
    assert_allclose(found.parts[1].log_density(x), outer.log_density(x), atol=1e-3)
    constant = for_squares(fit, np.ones_like)(x, w)
    assert_allclose(constant.log_density(x), fit(x, w).log_density(x))


def test_nothing_is_wanted_of_draws_that_do():
    """From itself a normal has equal weights; of a few draws the errors are too large, evenly."""

    def target(x):
        return -(x**2).sum(1) / 2

    start = Gaussian(np.zeros(2), np.eye(2))
    many, few = (integrate(target, start, budget=Budget(n, rounds=0)) for n in (4096, 256))
    wanting = uncertain(lambda x: x)
    assert wanting(many) is None
    assert_allclose(wanting(few), 0.0, atol=0)
    of_few, sparing = few.x[:, :1] ** 3, uncertain(lambda x: x[:, :1] ** 3, sparing=True)
    shares = in_variances(of_few, few.weights)
    assert_allclose(np.exp(sparing(few)), (1 + shares) / 2, rtol=1e-12)


def test_unreliable_weights_alone_want_draws_evenly():
    """Nothing is uncertain of a constant, though a few draws have most of the weight."""
    start = Gaussian(np.zeros(1), 0.5 * np.eye(1))
    found = integrate(lambda x: -(x[:, 0] ** 2) / 2, start, budget=Budget(2**16, rounds=0))
    assert found.k_hat > 0.7
    assert_allclose(uncertain(np.zeros_like)(found), 0.0, atol=0)


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


def test_what_is_doubted_is_less_than_what_is_wanted():
    """Of a normal's draws an sd is known to 1/√(2n): 4 % are wanted better, and not doubted; 8 % are both."""

    def target(x):
        return -(x**2).sum(1) / 2

    start = Gaussian(np.zeros(2), np.eye(2))
    some, few = (integrate(target, start, budget=Budget(n, rounds=0)) for n in (512, 64))
    wanting, doubted = uncertain(lambda x: x), uncertain(lambda x: x, doubted=True)
    assert wanting(some) is not None
    assert doubted(some) is None
    assert doubted(few) is not None


def test_draws_beyond_the_limit_cost_no_more_than_patience():
    """Of sums of 10⁵ evaluations a point WORK is the limit, PATIENT the most; LAST is of a last way."""
    budget = enough(8, 24)
    found = affordable(budget, 1e5)
    assert found.final <= found.limit < found.patience <= PATIENT / 1e5
    assert found.limit * 1e5 <= WORK
    with pytest.raises(TooMuchWork):
        affordable(budget, 1e7)
    last = affordable(budget, 1e7, last=True)
    assert last.final >= FEWEST
    assert (last.final + last.rounds * last.explore) * 1e7 <= LAST
    with pytest.raises(TooMuchWork):
        affordable(budget, 1e8, last=True)


def test_a_draw_beyond_all_numbers_that_has_no_weight_asks_for_nothing():
    """0 · ∞ is no number: log sds so far out have sds whose squares are numbers."""
    found = drawn(1e9)
    log = np.array([False, True])
    far = replace(
        found,
        x=np.vstack([found.x, [0.0, 1e4]]),
        weights=np.r_[found.weights, 0.0],
        raw=np.r_[found.raw, 0.0],
    )
    values = partial(in_sds, log=log)
    with np.errstate(invalid="raise"):
        assert_allclose(far.sd(values(far.x)), found.sd(values(found.x)), rtol=1e-12)
        asked, before = uncertain(values)(far), uncertain(values)(found)
    assert (asked is None) == (before is None)
