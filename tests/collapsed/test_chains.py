"""Chains are integrated out as filters do it, and wide rows without matrices as narrow ones with them."""

from __future__ import annotations

import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy.special import logsumexp

import lrvb
from lrvb.collapsed.row_optimum import _newton, collapse, response
from lrvb.engine.density import CollapsedDensity
from lrvb.numerics.algebra import response_root
from lrvb.numerics.double import double
from lrvb.statement.meanfield import MeanField

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


def test_rows_without_matrices_agree_with_those_with_them():
    """Optimum, entropy and Σ̂_z|α r: 32 local coordinates are no border for the answer."""
    local = MeanField({"z": lrvb.GaussianChain(12)})  # 35 coordinates
    rng = np.random.default_rng(3)
    y, r = rng.poisson(2.0, size=12).astype(float), rng.normal(size=(35, 2))

    def term(flat):
        z = local.moments(flat)
        mean = jnp.exp(z.x + (z.xx - z.x**2) / 2)
        steps = jnp.sum(z.xx[1:] - 2 * z.xy + z.xx[:-1])
        return jnp.sum(y * z.x - mean) - 3 * steps - z.xx[0]

    def without():
        q = collapse(local, term, False)
        return q, response(local, term, q.z, r, False)

    def with_matrices():
        q = _newton(local, term)
        return q, response_root(q.C, jax.hessian(term)(q.z))

    with double():
        wide, ours = jax.jit(without)()
        narrow, W = jax.jit(with_matrices)()
    W = np.asarray(W)
    assert wide.found
    assert wide.C is None
    assert_allclose(wide.z, narrow.z, rtol=1e-9, atol=1e-10)
    assert_allclose(wide.S, narrow.S, rtol=1e-10)
    assert_allclose(ours, W.T @ (W @ r), rtol=1e-8, atol=1e-10)


def test_a_wide_row_at_no_strict_maximum_has_no_response():
    """Ten times the coupling that variances of ½ can bear: NaN, in place of the steps made until then."""
    local = MeanField({"z": lrvb.Normal(batch=40)})
    with double():

        def term(flat, coupling):
            z = local.moments(flat)
            return coupling * jnp.sum(z.x[1:] * z.x[:-1]) - jnp.sum(z.xx)

        moments = jnp.concatenate([jnp.zeros(40), jnp.full(40, 0.5)])
        r = jnp.eye(80)[:, :1]
        for coupling, known in ((0.5, True), (10.0, False)):
            found = response(local, lambda flat, c=coupling: term(flat, c), moments, r, False)
            assert np.isfinite(found).all() == known
