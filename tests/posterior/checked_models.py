"""Models whose posteriors are known, which certificates are tried on."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np

import lrvb
from cases import CASES

BY_NAME = {case.name: case for case in CASES}


class Regression(lrvb.Model):
    """A Gaussian posterior: y ~ N(x·β, 1), β ~ N(0, I)."""

    global_blocks = {"beta": lrvb.MultivariateNormal(2)}

    def global_term(self, m):
        return -jnp.trace(m.beta.xx) / 2

    def local_term(self, m, z, row):
        return row.y * row.x @ m.beta.x - row.x @ m.beta.xx @ row.x / 2


class Squared(lrvb.Model):
    """y ~ N(θ², 0.1²): two modes, at ±√y."""

    global_blocks = {"theta": lrvb.Normal()}

    def global_term(self, m):
        fourth = 3 * m.theta.xx**2 - 2 * m.theta.x**4
        return -(fourth - 2 * 4.0 * m.theta.xx) / (2 * 0.1) - m.theta.xx / 50


class Product(lrvb.Model):
    """y ~ N(ab, 1): the signs of a and b are not known, and the two optima are about two sds apart."""

    global_blocks = {"a": lrvb.Normal(), "b": lrvb.Normal()}

    def global_term(self, m):
        return -(m.a.xx + m.b.xx) / 8

    def local_term(self, m, z, row):
        return row.y * m.a.x * m.b.x - m.a.xx * m.b.xx / 2


class StudentT(lrvb.Model):
    """A t posterior with two degrees of freedom: no variance."""

    global_blocks = {"theta": lrvb.Normal()}

    def global_term(self, m):
        return -1.5 * jnp.log1p(m.theta.xx / 2)


@functools.cache
def regression() -> lrvb.Posterior:
    """Thirty rows of it, certified."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 2)) + np.array([0.0, 1.0])
    data = {"x": x, "y": x @ [1.0, -1.0] + rng.normal(size=30)}
    return lrvb.infer(Regression(), data, certify=True)


@functools.cache
def counts() -> lrvb.Posterior:
    """Normal–Poisson of the cases, certified."""
    posterior = lrvb.summarize(BY_NAME["NormalPoisson-tilted"].response())
    posterior.certify()
    return posterior
