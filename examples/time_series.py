r"""Three models of a sequence: a local level, stochastic volatility, and hidden states.

Each series is one row of the data, and its states are one local block: a chain, in which neighbours stay
correlated under q. The parameters are global. Where a row is linear in the chain's moments (levels, hidden
states) the chain is integrated out exactly, as a Kalman filter or a forward pass would.
"""

from __future__ import annotations

import sys
from typing import Any

import jax.numpy as jnp
import numpy as np

import lrvb


class LocalLevel(lrvb.Model):
    """y_t ~ N(x_t, 1/τ), x_{t+1} ~ N(x_t, 1/ω), x_1 ~ N(0, 100); τ ~ Gamma(2, 1), ω ~ Gamma(2, 0.1)."""

    global_blocks = {"tau": lrvb.Gamma(), "omega": lrvb.Gamma()}

    def local_blocks(self, rows: Any) -> Any:
        """One chain a series, as long as the series."""
        return {"level": lrvb.GaussianChain(rows.columns["y"].shape[1])}

    def global_term(self, m: Any) -> Any:
        """E[log p(τ) + log p(ω)]."""
        return m.tau.log_x - m.tau.x + m.omega.log_x - 0.1 * m.omega.x

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E[log p(y | x) + log p(x)] of one series, from E x_t, E x_t² and E x_t x_{t+1}."""
        misfit = row.y**2 - 2 * row.y * z.x + z.xx
        step = z.xx[1:] - 2 * z.xy + z.xx[:-1]
        data = jnp.sum(m.tau.log_x - m.tau.x * misfit) / 2
        return data + jnp.sum(m.omega.log_x - m.omega.x * step) / 2 - z.xx[0] / 200


class Volatility(lrvb.Model):
    """y_t ~ N(0, exp h_t), h_{t+1} ~ N(γ + φh_t, 1/ω), h_1 ~ N(0, 4).

    (γ, φ) are one block, since they compete: γ ~ N(0, 1), φ ~ N(0.9, 0.1²); ω ~ Gamma(5, 0.25).
    """

    global_blocks = {"ar": lrvb.MultivariateNormal(2), "omega": lrvb.Gamma()}

    def local_blocks(self, rows: Any) -> Any:
        """One chain of log variances a series."""
        return {"h": lrvb.GaussianChain(rows.columns["y"].shape[1])}

    def global_term(self, m: Any) -> Any:
        """E[log p(γ) + log p(φ) + log p(ω)]."""
        phi = (m.ar.xx[1, 1] - 2 * 0.9 * m.ar.x[1]) / 0.1**2
        return -(m.ar.xx[0, 0] + phi) / 2 + 4 * m.omega.log_x - 0.25 * m.omega.x

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E exp(−h) of a normal h is in no family's moments: q(h) is the best normal chain."""
        variance = z.xx - z.x**2
        data = -(z.x + row.y**2 * jnp.exp(-z.x + variance / 2)) / 2
        step = (
            z.xx[1:]
            - 2 * (m.ar.x[0] * z.x[1:] + m.ar.x[1] * z.xy)
            + (m.ar.xx[0, 0] + 2 * m.ar.xx[0, 1] * z.x[:-1] + m.ar.xx[1, 1] * z.xx[:-1])
        )
        return jnp.sum(data) + jnp.sum(m.omega.log_x - m.omega.x * step) / 2 - z.xx[0] / 8


class HiddenMarkov(lrvb.Model):
    """y_t ~ N(μ_k, 1/τ) in state k, and state j follows i with probability A_ij.

    μ_1 ~ N(0, ½²) and μ_2 ~ N(2, ½²) tell the states apart, τ ~ Gamma(2, 1), A_i ~ Dirichlet(2, 2);
    the first state is either.
    """

    global_blocks = {
        "mu": lrvb.Normal(batch=2),
        "tau": lrvb.Gamma(),
        "A": lrvb.Dirichlet(2, batch=2),
    }

    def local_blocks(self, rows: Any) -> Any:
        """One chain of states a series."""
        return {"state": lrvb.MarkovChain(rows.columns["y"].shape[1], 2)}

    def global_term(self, m: Any) -> Any:
        """E of the log prior."""
        centre = jnp.array([0.0, 2.0])
        return (
            -2 * jnp.sum(m.mu.xx - 2 * centre * m.mu.x) + m.tau.log_x - m.tau.x + jnp.sum(m.A.log_x)
        )

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E[log p(y | states) + log p(states)], from probabilities of states and of neighbours."""
        misfit = row.y[:, None] ** 2 - 2 * row.y[:, None] * m.mu.x + m.mu.xx
        data = jnp.sum(z.x * (m.tau.log_x - m.tau.x * misfit)) / 2
        return data + jnp.sum(z.xy * m.A.log_x)


def simulated(model: type[lrvb.Model], length: int, seed: int) -> np.ndarray:
    """One series (1, length) that the model might have made."""
    rng = np.random.default_rng(seed)
    noise, shock = rng.normal(size=(2, length))
    if model is LocalLevel:
        return (np.cumsum(0.3 * shock) + 0.5 * noise)[None]
    state = np.zeros(length)
    for t in range(1, length):
        if model is Volatility:
            state[t] = -0.02 + 0.95 * state[t - 1] + 0.25 * shock[t]
        else:
            state[t] = state[t - 1] if rng.uniform() < 0.9 else 1 - state[t - 1]
    return (np.exp(state / 2) * noise if model is Volatility else 2 * state + noise)[None]


if __name__ == "__main__":  # python examples/time_series.py LocalLevel Volatility
    asked = [model for model in (LocalLevel, Volatility) if model.__name__ in sys.argv]
    for model in asked or [HiddenMarkov]:
        posterior = lrvb.infer(model(), {"y": simulated(model, 200, seed=1)})
        print(posterior.summary())
