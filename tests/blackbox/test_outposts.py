"""Starts far out: a normal's conditional draws, in a funnel within its neck, never off the density."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import lrvb
from blackbox.densities import density, gaussian
from lrvb.blackbox.kernel import Kernel
from lrvb.blackbox.outposts import AWAY, LOW, outposts


def test_conditionals_of_a_normal():
    """x_d = m_d ± 6 sd_d; others are normal about S_d/S_dd times as far, with S less S_d S_dᵀ/S_dd."""
    target, m, S = gaussian(4)
    root = np.linalg.cholesky(S)
    found, good = outposts(Kernel(target), m, root, 64, np.random.default_rng(0))
    assert good.all()
    away = (found - m) / np.sqrt(np.diag(S))
    d = np.abs(np.abs(away) - AWAY).argmin(axis=1)
    assert sorted(np.unique(d)) == [0, 1, 2, 3]
    np.testing.assert_allclose(np.abs(away[np.arange(64), d]), AWAY, rtol=1e-10)
    for k in range(4):
        assert set(np.sign(away[d == k, k])) == {-1.0, 1.0}
    expected = S[d] / S[d, d][:, None] * (found - m)[np.arange(64), d][:, None]
    off = np.linalg.solve(root, (found - m - expected).T)
    # in coordinates of sd 1 three directions are free: their squares are χ² with 3 · 64 degrees
    assert abs((off**2).sum() / 192 - 1) < 4 * np.sqrt(2 / 192)


def test_within_the_neck_of_a_funnel():
    """Where v is far below its mean, the effects are as narrow as the neck is there, and not on its axis."""
    target = density(
        lambda x: -0.5 * x[0] ** 2 - 0.5 * (x[1:] ** 2).sum() * jnp.exp(-2 * x[0]) - 4 * x[0],
        np.zeros(5),
    )
    found, good = outposts(
        Kernel(target), np.array([0.0, 1, -1, 1, -1]), np.eye(5), 64, np.random.default_rng(0)
    )
    neck = found[good & (found[:, 0] < -2)]
    assert len(neck) >= 4
    squares = ((neck[:, 1:] * np.exp(-neck[:, :1])) ** 2).sum(axis=1)  # χ² with four degrees
    assert abs(squares.mean() - 4) < 4 * np.sqrt(8 / len(neck))


def test_they_come_nearer_where_the_density_ends():
    """Six sds above the mean of log Gamma(½) the density is e^−10000: no start is so low."""
    target = density(lambda x: (0.5 * x - jnp.exp(x)).sum(), np.zeros(2))
    kernel, mean = Kernel(target), np.full(2, -1.96)
    found, good = outposts(kernel, mean, 2.2 * np.eye(2), 64, np.random.default_rng(0))
    value, center = kernel(found)[0], kernel(mean[None])[0]
    assert good.all()
    assert (value >= center - LOW - 8).all()  # what one free coordinate takes is half a χ²
    assert found.max() > 1.0
    assert found.min() < -10.0


def test_a_neck_that_no_chain_of_the_first_run_has_met():
    """20 groups, τ near their errors: log τ has an sd of 0.51; short chains see 0.36 of it, and agree."""
    y = 3 * np.sin(np.arange(20))

    def log_density(v):
        theta, mu, t = v["theta"], v["mu"], v["log_tau"]
        found = -0.5 * (((y - theta) / 1.5) ** 2).sum() - 0.5 * (mu / 10) ** 2
        found -= 0.5 * ((theta - mu) ** 2).sum() * jnp.exp(-2 * t) + 20 * t
        return found + t - jnp.log1p((jnp.exp(t) / 5) ** 2)

    start = {"mu": 0.0, "log_tau": 0.0, "theta": np.zeros(20)}
    found = lrvb.from_log_density(log_density, start).infer().certificate
    row = found.summary().loc["log_tau"]
    assert found.polish.second is not None
    assert row["verdict"] != "trust" or abs(np.log(row["sd"] / 0.506)) < 0.15
