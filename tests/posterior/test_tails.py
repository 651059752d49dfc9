"""Tails: of the density on rays, and what of a variance lies beyond all draws."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import lrvb
from lrvb.posterior.tails import (
    ends,
    far_indices,
    hanging,
    product_tail,
    tail_index,
    unseen_square,
)


def index(log_density, statistic, spread):
    """Of one statistic of one coordinate with center 0 and sd 1."""
    one = np.ones(1)
    return far_indices(
        lambda x: log_density(x[:, 0]), lambda x: statistic(x), 0 * one, one, spread * one
    )[0]


@pytest.mark.parametrize("df", [1.0, 2.0, 4.0])
def test_a_t_has_the_index_of_its_degrees_of_freedom(df):
    """p ~ x^(−df−1): 1/df, to the 1 % that 20 sds are not yet infinity."""
    found = index(lambda x: -0.5 * (df + 1) * np.log1p(x**2 / df), lambda x: x, 1.0)
    assert found == pytest.approx(1 / df, rel=0.02)


@pytest.mark.parametrize(("depth", "expected"), [(3.0, 1.0), (50.0, 0.0)])
def test_a_tail_counts_where_its_squares_do(depth, expected):
    """Cauchy's tail below e^−depth of a normal: with e^−50 it moves no sd, with e^−3 there is none."""

    def log_density(x):
        return np.logaddexp(-0.5 * x**2, -depth - np.log1p(x**2))

    assert index(log_density, lambda x: x, 1.0) == pytest.approx(expected, abs=0.02)


def test_what_no_draw_has_seen():
    """Pareto's squares beyond the n-th part: n^(2k − 1) of them; none of what is constant."""
    k, n = 0.25, 4000
    x = ((np.arange(n) + 0.5) / n) ** -k
    away = x - x.mean()
    beyond = n ** (2 * k - 1) / (1 - 2 * k) / (away**2).mean()
    # the farthest draw stands in the middle of its nth part, 2^k beyond its edge, less the mean
    assert unseen_square(x, k) == pytest.approx(beyond * 2 ** (2 * k), rel=0.35)
    # where chance made the ten farthest no farther than the tenth, that one still foretells the farthest
    near = np.minimum(x, np.sort(x)[-10]) * np.where(np.arange(n) % 2, 1.0, -1.0)
    beyond = n ** (2 * k - 1) / (1 - 2 * k) / near.var()
    assert unseen_square(near, k) == pytest.approx(beyond, rel=0.05)
    assert unseen_square(np.ones(10), 0.3) == 0.0
    assert unseen_square(x, 0.6) > 1e3


def test_what_hangs_on_an_endless_quantity():
    """What is moved or widened by it hangs on it; what is alone, or hardly moved, does not."""
    rng = np.random.default_rng(0)
    n = 4000
    far, z = rng.standard_cauchy(n), rng.normal(size=(n, 4))
    moved = 0.5 * np.arctan(far) + 0.5 * z[:, 0]
    widened = (1 + 3 * (far > 1)) * z[:, 1]
    hardly = 0.15 * np.arctan(far) + z[:, 2]  # 2 % of its variance
    values = np.column_stack([far, moved, widened, hardly, z[:, 3]])
    endless = np.array([True, False, False, False, False])
    assert hanging(values, endless).tolist() == [True, True, True, False, False]
    assert not hanging(values, ~endless & endless).any()


def test_what_ends_has_no_tail():
    """A share of a half Cauchy's scale is in (0, 1), and nearly a Pareto's where draws are."""
    w = np.abs(np.random.default_rng(0).standard_cauchy(4000))
    share, equal = 1 / (1 + 0.005 * w), np.full(4000, 1 / 4000)
    assert tail_index(share, equal) > 0.4
    assert tail_index(share, equal, (False, True)) > 0.4
    assert tail_index(share, equal, (True, False)) < 0


def test_ends_of_functions_of_one_coordinate():
    """Below, above; of several coordinates none is known, nor of what ends far away or grows slowly."""

    def statistics(x):
        a, b = x.T
        bounded = 1 / (1 + np.exp(-a)), np.exp(b), -np.exp(a), np.exp(20 * np.tanh(a - 1.5))
        return np.stack([*bounded, a, np.sqrt(1 + b**2), a * b, np.tanh(a + b)], axis=1)

    x = np.random.default_rng(0).normal(size=(1000, 2)) + 0.3
    spread = statistics(x).std(axis=0)
    spread[3] = 1.0  # it ends e^20 away
    found = ends(statistics, x.mean(axis=0), x.std(axis=0), spread)
    both, below, above, neither = (True, True), (True, False), (False, True), (False, False)
    expected = [both, below, above, below, neither, below, neither, neither]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("k", [0.2, 0.5, 0.8])
def test_the_largest_of_products(k):
    """∫ of x^(−k) beyond 1/n of the draws, n of them: n^k/(1 − k), where the draws are Pareto throughout."""
    n = 4000
    product = ((np.arange(n) + 0.5) / n) ** -k
    found = product_tail(np.full(n, 1 / n), product)
    assert found.k_hat == pytest.approx(k, abs=0.06)
    assert found.largest == pytest.approx(n**k / (1 - k) / n, rel=0.3)
    halved = product_tail(np.full(n, 0.5 / n), product)
    assert halved.largest == pytest.approx(found.largest / 2, rel=1e-6)


def test_products_without_a_tail():
    """Equal ones have none; of an infinite mean none can be foretold."""
    assert product_tail(np.ones(100), np.ones(100)) == (-np.inf, 0.0)
    steep = ((np.arange(4000) + 0.5) / 4000) ** -1.5
    assert product_tail(np.ones(4000), steep).largest == np.inf


class LogVariance(lrvb.Model):
    """y ~ N(0, eˣ), x ~ N(0, v): the variance of y, e^(v/2), comes from x about v, where few draws are."""

    global_blocks = {"x": lrvb.Normal(), "y": lrvb.Normal()}

    def __init__(self, v: float):
        self.v = float(v)

    def log_prior(self, t):
        return -(t.x**2) / (2 * self.v) - t.x / 2 - t.y**2 * jnp.exp(-t.x) / 2


@pytest.mark.parametrize("v", [2.0, 4.0])
def test_a_variance_that_few_draws_decide_is_drawn_again(v):
    """What is repaired is right; where the squares cannot be averaged nothing is repaired."""
    posterior = lrvb.infer(LogVariance(v), None, certify=False)
    for seed in range(2):
        row = posterior.certify(seed=seed).summary().loc["y"]
        assert row["verdict"] != "trust"
        if v == 2.0:
            assert row["verdict"] == "repaired"
        if row["verdict"] == "repaired":
            assert row["sd"] == pytest.approx(np.exp(v / 4), rel=0.05)
