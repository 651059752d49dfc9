"""Chains are integrated out as filters do it, and wide rows without matrices as narrow ones with them."""

from __future__ import annotations

import runpy
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

import lrvb
from lrvb.collapsed import autodiff, row_optimum
from lrvb.engine.density import CollapsedDensity

STATED = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "time_series.py"))


def data(name: str, length: int, rows: int = 2) -> dict[str, np.ndarray]:
    series = [STATED["simulated"](STATED[name], length, seed) for seed in range(rows)]
    return {"y": np.concatenate(series)}


def test_levels_are_integrated_out_as_a_kalman_filter_does():
    """log ∫ p(y, x | τ, ω) dx up to its constants, at points and in their differences."""
    columns = data("LocalLevel", 15)
    fit = lrvb.fit(STATED["LocalLevel"](), columns)
    tau, omega = np.array([1.0, 3.0, 0.5]), np.array([5.0, 40.0, 1.0])
    ours = CollapsedDensity(fit).at(np.stack([tau, np.log(tau), omega, np.log(omega)], axis=1))
    expected = np.log(tau) - tau + np.log(omega) - 0.1 * omega
    for y in columns["y"]:
        mean, variance = 0.0, 100.0
        for value in y:
            spread = variance + 1 / tau
            expected = expected - (np.log(spread) + (value - mean) ** 2 / spread) / 2
            mean = mean + variance / spread * (value - mean)
            variance = variance / tau / spread + 1 / omega
    # constants: ½ log 2π a state and the variance of the first
    constant = 2 * (15 * np.log(2 * np.pi) / 2 + np.log(10.0))
    assert_allclose(ours.value, expected + constant, rtol=1e-12)


def test_hidden_states_are_summed_out_as_a_forward_pass_does():
    """log Σ over all sequences of states, at a point."""
    columns = data("HiddenMarkov", 15)
    fit = lrvb.fit(STATED["HiddenMarkov"](), columns)
    mu, tau, A = np.array([0.1, 1.7]), 1.3, np.array([[0.9, 0.1], [0.3, 0.7]])
    point = np.concatenate(
        [[mu[0], mu[0] ** 2, mu[1], mu[1] ** 2, tau, np.log(tau)], np.log(A).ravel()]
    )
    ours = CollapsedDensity(fit).at(point[None]).value[0]
    expected = -2 * np.sum(mu**2 - 2 * mu * [0.0, 2.0]) + np.log(tau) - tau + np.log(A).sum()
    for y in columns["y"]:
        seen = (np.log(tau) - tau * (y[:, None] - mu) ** 2) / 2
        mass = seen[0]
        for t in range(1, len(y)):
            mass = logsumexp(mass[:, None] + np.log(A), axis=0) + seen[t]
        expected += logsumexp(mass)
    assert_allclose(ours, expected, rtol=1e-12)


class Repeated(lrvb.Model):
    """Seven measurements a row with states of their own, and with `bend` a normal q of a non-normal."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}
    local_blocks = {"z": lrvb.MultivariateNormal(7)}  # 35 coordinates

    def __init__(self, bend: bool, constant: int):
        self.bend, self.constant = bend, constant

    def global_term(self, m):
        return -m.mu.xx / 20 + m.tau.log_x - m.tau.x + self.constant

    def local_term(self, m, z, row):
        xx = jnp.diagonal(z.xx)
        spread = xx - 2 * z.x * m.mu.x + m.mu.xx
        mean = jnp.exp(z.x + (xx - z.x**2) / 2) if self.bend else xx
        return jnp.sum((m.tau.log_x - m.tau.x * spread) / 2 + row.y * z.x - mean)


@pytest.mark.parametrize("bend", [False, True])
def test_rows_without_matrices_agree_with_those_with_them(bend, monkeypatch):
    """ELBO, means, Σ̂ and local answers: 32 local coordinates are no border for the answer."""
    columns = {"y": np.random.default_rng(3).poisson(2.0, size=(4, 7)).astype(float)}

    def inferred(constant: int):
        model = Repeated(bend, constant)  # another constant is another program
        return lrvb.summarize(lrvb.respond(lrvb.linearize(lrvb.fit(model, columns))))

    wide = inferred(0)
    for module in (autodiff, row_optimum):
        monkeypatch.setattr(module, "WIDE", 100)
    narrow = inferred(1)
    assert_allclose(wide.elbo, narrow.elbo - 1, rtol=1e-12)
    assert_allclose(wide.mean(), narrow.mean(), rtol=1e-8)
    assert_allclose(wide.cov(), narrow.cov(), rtol=1e-7, atol=1e-9)
    for part in ("mean", "sd", "cov"):
        ours, theirs = wide.local("z")[part], narrow.local("z")[part]
        assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)
