"""Poisson counts whose log rates are normal around βx: the paper's first model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.tables import counts, squarable, vector
from ..errors import InvalidModel
from ..families import Gamma, Normal, Tilted
from ..likelihoods import POISSON
from ..numerics.special import JAX
from ..statement.model import Model
from .densities import gamma_log_density, normal_log_density, positive

HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


def poisson_log_likelihood(z: Any, row: Any) -> Any:
    """log Poisson(y | e^z)."""
    return POISSON.log_p(row.y, z, xp=JAX)


class NormalPoisson(Model):
    """z_n ~ N(βx_n, 1/τ), y_n ~ Poisson(e^{z_n}), β ~ N(0, σ²_β), τ ~ Gamma(shape, rate).

    `local="tilted"` uses the optimal q(z_n), with the Poisson likelihood as its base measure;
    `local="gaussian"` restricts q(z_n) to a Gaussian, as the paper does.
    Paper: eq:pn_model, app:np_details
    """

    columns = ("x", "y")
    prepares_rows = True
    global_blocks = {"beta": Normal(), "tau": Gamma()}

    def __init__(
        self,
        beta_var: float = 10.0,
        tau_shape: float = 1.0,
        tau_rate: float = 1.0,
        local: str = "tilted",
    ):
        if local not in ("tilted", "gaussian"):
            raise InvalidModel(f"local={local!r} must be 'tilted' or 'gaussian'.")
        self.beta_var = positive("beta_var", beta_var)
        self.tau_shape = positive("tau_shape", tau_shape)
        self.tau_rate = positive("tau_rate", tau_rate)
        self.local = local

    def local_blocks(self, rows: Any) -> dict[str, Any]:
        """One z per row."""
        return {"z": Tilted(poisson_log_likelihood) if self.local == "tilted" else Normal()}

    def prepare(self, data: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Check that x is numeric and y counts."""
        y = counts("y", data["y"])
        return {"x": squarable("x", vector("x", data["x"])), "y": y}

    def global_term(self, m: Any) -> Any:
        """E_q[log p(β) + log p(τ)]."""
        return normal_log_density(m.beta, 0.0, self.beta_var) + gamma_log_density(
            m.tau, self.tau_shape, self.tau_rate
        )

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E_q[log p(y_n, z_n | β, τ)], less log p(y_n | z_n) where that is z's base measure."""
        residual_sq = z.xx - 2 * row.x * m.beta.x * z.x + row.x**2 * m.beta.xx
        term = (m.tau.log_x - m.tau.x * residual_sq) / 2 - HALF_LOG_2PI
        if self.local == "tilted":
            return term
        return term + POISSON.expected_log_p(row.y, z.x, z.xx - z.x**2, JAX)
