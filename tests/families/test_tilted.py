"""Tilted: accuracy of its quadrature, robustness of its mode search, and its rows."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from lrvb import InvalidModel, Normal, Tilted
from lrvb.numerics.double import double


class Row(NamedTuple):
    """One row of data."""

    y: float


def poisson(z, row):
    """Log likelihood of a count with log rate z."""
    return row.y * z - jnp.exp(z)


def bernoulli(z, row):
    """Log likelihood of an outcome with logit z."""
    return row.y * z - jax.nn.softplus(z)


def binomial(z, row):
    """Log likelihood of y successes in 20 trials."""
    return row.y * z - 20 * jax.nn.softplus(z)


def negative_binomial(z, row):
    """Log likelihood of a count with log mean z and size 2.5."""
    return row.y * z - (row.y + 2.5) * jnp.logaddexp(z, jnp.log(2.5))


def by_rows(family, y, precision, loc):
    """(A, m, C, S) of many rows at once."""

    def one(y, precision, loc):
        eta = Normal.Stats(precision * loc, -precision / 2)
        A, m, C, S = family.at(Row(y)).evaluate(eta)
        return jnp.stack([A, m.x, m.xx, C[0, 0], C[1, 0], C[1, 1], S])

    with double():
        return np.asarray(jax.jit(jax.vmap(one))(y, precision, loc))


def grid(*axes):
    return np.array(list(itertools.product(*axes)), dtype=float).T


@pytest.mark.parametrize(
    ("likelihood", "counts"),
    [
        (poisson, [0, 1, 5, 100, 1e4]),
        (bernoulli, [0, 1]),
        (binomial, [0, 7, 20]),
        (negative_binomial, [0, 3, 1e3]),
    ],
)
def test_nodes_have_converged(likelihood, counts):
    """64 nodes agree with 1024 to eleven digits; that 1024 are right, the laws check elsewhere."""
    points = grid(counts, [0.05, 0.3, 2.0, 50.0, 1e4], [-5.0, -1.0, 0.0, 3.0, 10.0])
    ours = by_rows(Tilted(likelihood), *points)
    fine = by_rows(Tilted(likelihood, nodes=1024), *points)
    unit = np.abs(fine)
    unit[:, 1] = np.maximum(unit[:, 1], fine[:, 3])  # a mean may be zero: measure it in sds,
    unit[:, 4] = np.hypot(fine[:, 4], fine[:, 5])  # and a covariance in units of its sds
    unit[:, [0, 6]] = np.maximum(unit[:, [0, 6]], 1)
    assert np.max(np.abs(ours - fine) / unit) < 1e-11


def test_quadrature_agrees_with_scipy():
    """A and E z of a negative binomial row by adaptive quadrature."""
    row = Row(3.0)
    A, mean = by_rows(Tilted(negative_binomial), *np.array([[3.0], [0.5], [0.2]]))[0, :2]

    def density(z):
        likelihood = row.y * z - (row.y + 2.5) * np.logaddexp(z, np.log(2.5))
        return np.exp(0.1 * z - 0.25 * z**2 + likelihood)

    mass = quad(density, -15, 15, epsabs=0, epsrel=1e-12)[0]
    first = quad(lambda z: z * density(z), -15, 15, epsabs=0, epsrel=1e-12)[0]
    assert_allclose([A, mean], [np.log(mass), first / mass], rtol=1e-10)


@pytest.mark.parametrize("loc", [-1e8, -3.0, 0.0, 1e8])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e8])
def test_without_a_likelihood_it_is_normal(loc, scale):
    """ℓ = 0 gives back the Gaussian part, at any location and scale."""
    flat, normal = Tilted(lambda z: 0.0 * z), Normal()
    eta = normal.from_params(loc=loc, scale=scale)
    with double():
        A, m, C, S = jax.jit(flat.evaluate)(eta)
        expected = normal.evaluate(eta)
    assert_allclose([A, S], [expected[0], expected[3]], rtol=1e-11, atol=1e-11)
    assert_allclose(m.x, loc, rtol=1e-14, atol=1e-13 * scale)
    assert_allclose(m.xx, expected[1].xx, rtol=1e-11)
    assert_allclose(C, expected[2], rtol=1e-11, atol=1e-11 * scale**2)


def test_far_from_the_mode():
    """Overflowing likelihoods, flat priors and locations of 1e8 neither fail nor lose the mode.

    The mode solves y − eᶻ = precision (z − loc); the mean is near it in units of the sd.
    """
    y, precision, loc = grid([0, 1, 1e4], [1e-8, 1e-3, 1.0], [-1e8, -50.0, 30.0, 1e3, 1e8])
    out = by_rows(Tilted(poisson), y, precision, loc)
    assert np.all(np.isfinite(out))
    lo, hi = np.minimum(loc, -1e9), np.full_like(loc, 40.0)
    for _ in range(200):
        middle = (lo + hi) / 2
        rising = y - np.exp(middle) > precision * (middle - loc)
        lo, hi = np.where(rising, middle, lo), np.where(rising, hi, middle)
    assert np.all(np.abs(out[:, 1] - lo) < np.sqrt(3) * out[:, 3] + 1e-7)


def test_expected_slope_vanishes():
    """E[f′(z)] = 0, exactly: for Poisson rows E[eᶻ] = y + precision (loc − E z)."""
    points = grid([0, 2, 40], [0.1, 1.0, 20.0], [-2.0, 1.0, 4.0])

    def expected_rate(y, precision, loc):
        eta = Normal.Stats(precision * loc, -precision / 2)
        family = Tilted(poisson).at(Row(y))
        shifted = Normal.Stats(eta.x + 1, eta.xx)  # E[eᶻ] = exp(A(η₁ + 1) − A(η₁))
        rate = jnp.exp(family.log_partition(shifted) - family.log_partition(eta))
        return rate - y - precision * (loc - family.mean(eta).x)

    with double():
        assert_allclose(jax.jit(jax.vmap(expected_rate))(*points), 0.0, atol=1e-9)


@pytest.mark.parametrize("likelihood", [poisson, bernoulli])
def test_nodes_of_another_member_are_right_or_say_that_they_are_not(likelihood):
    """A at every η of a wide grid by the nodes of its middle: a billionth of it, or NaN far away."""
    family = Tilted(likelihood)
    grid = np.meshgrid(np.linspace(-6, 6, 41), np.linspace(-4, 2, 41), [0.0, 1.0, 30.0])
    loc, log_sd, y = (v.ravel() for v in grid)

    def both(y, loc, precision):
        own, eta = family.at(Row(y)), Normal.Stats(precision * loc, -precision / 2)
        middle = own.near(Normal.Stats(jnp.asarray(0.5), jnp.asarray(-2.0)))
        return middle.log_partition(eta), own.log_partition(eta)

    with double():
        found, exact = (np.asarray(A) for A in jax.jit(jax.vmap(both))(y, loc, np.exp(-2 * log_sd)))
    known = np.isfinite(found)
    assert_allclose(found[known], exact[known], rtol=0, atol=2e-9)
    close = (np.abs(loc - 0.25) < 0.5) & (np.abs(log_sd - np.log(0.5)) < 0.5) & (y < 2)
    assert known[close].all()
    assert not known.all()


def test_outside_the_domain_and_for_missing_data_it_is_nan():
    """No precision, no integral; a NaN in the row cannot hang the search."""
    out = by_rows(Tilted(poisson), *np.array([[1.0, 1.0, np.nan], [0.0, -1.0, 1.0], [0.0] * 3]))
    assert np.all(np.isnan(out))


def test_a_row_must_be_bound():
    """ℓ(z, row) has no density of its own; ℓ(z) needs no row."""
    family = Tilted(poisson)
    for use in (family.log_partition, family.mean, family.factor, family.entropy, family.evaluate):
        with pytest.raises(InvalidModel, match=r"bind a row first: family\.at\(row\)"):
            use(family.start())
    with pytest.raises(InvalidModel, match="bind a row"):
        family.sample(family.start(), np.random.default_rng(0), 3)
    alone = Tilted(lambda z: -jnp.exp(z))
    assert alone.at(Row(1.0)) is alone


def test_equality_is_that_of_the_function():
    """Two families are equal when they share function, nodes and batch; neither can be saved."""
    assert Tilted(poisson) == Tilted(poisson)
    assert hash(Tilted(poisson)) == hash(Tilted(poisson))
    assert Tilted(poisson) != Tilted(bernoulli)
    assert Tilted(poisson, nodes=40) != Tilted(poisson)
    assert repr(Tilted(poisson, batch=3)) == "Tilted(poisson, nodes=64, batch=(3,))"
    with pytest.raises(InvalidModel, match="cannot be saved"):
        Tilted(poisson).describe()


@pytest.mark.parametrize("function", [lambda: 0.0, lambda a, b, c: 0.0, 3.0])
def test_likelihood_must_take_z_and_perhaps_a_row(function):
    """One sentence says what a log likelihood takes."""
    with pytest.raises(InvalidModel, match=r"\(z\) or \(z, row\)"):
        Tilted(function)


@pytest.mark.parametrize("nodes", [0, 7, 40.5])
def test_nodes_must_be_a_whole_number(nodes):
    """Fewer than eight nodes integrate nothing."""
    with pytest.raises(InvalidModel, match=r"nodes=.* must be a whole number, at least 8\.$"):
        Tilted(poisson, nodes=nodes)
