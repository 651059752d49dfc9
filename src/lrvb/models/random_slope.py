"""Linear regression with a random slope per group: the paper's second model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data.tables import Rows, invalid_value, numeric, refuse_masked, squarable, vector
from ..errors import InvalidData
from ..families import Gamma, MultivariateNormal, Normal
from ..numerics.lazy import jnp
from ..statement.model import Model
from .densities import LOG_2PI, gamma_log_density, positive, spherical_log_density


class RandomSlope(Model):
    """y_n ~ N(βᵀx_n + r_n z_{k(n)}, 1/τ), z_k ~ N(0, 1/ν), β ~ N(0, σ²_β I), Gamma priors of τ, ν.

    A row of the plate is a group, held as its sufficient statistics.
    Paper: sec:random_effects_model, app:re_details
    """

    columns = ("x", "r", "y", "group")
    local_blocks = {"z": Normal()}

    def __init__(
        self,
        beta_var: float = 10.0,
        tau_shape: float = 2.0,
        tau_rate: float = 2.0,
        nu_shape: float = 2.0,
        nu_rate: float = 2.0,
    ):
        self.beta_var = positive("beta_var", beta_var)
        self.tau_shape = positive("tau_shape", tau_shape)
        self.tau_rate = positive("tau_rate", tau_rate)
        self.nu_shape = positive("nu_shape", nu_shape)
        self.nu_rate = positive("nu_rate", nu_rate)

    def global_blocks(self, rows: Rows) -> dict[str, Any]:
        """β has one entry per column of x."""
        p = rows.columns["xy"].shape[1]
        return {"beta": MultivariateNormal(p), "tau": Gamma(), "nu": Gamma()}

    def prepare(self, data: Mapping[str, Any]) -> Rows:
        """Sums over each group's rows: n, Σy², Σxy, Σxxᵀ, Σry, Σrx, Σr²."""
        x = squarable("x", numeric("x", data["x"]))
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or x.shape[1] == 0:
            raise InvalidData(
                f"Column 'x' has shape {x.shape}; give an array of shape (N, p), p at least 1.",
                column="x",
            )
        r, y = (squarable(name, vector(name, data[name])) for name in ("r", "y"))
        codes, labels = _groups(data["group"])
        sums = {
            "n": np.ones_like(y),
            "yy": y * y,
            "xy": x * y[:, None],
            "xx": x[:, :, None] * x[:, None, :],
            "ry": r * y,
            "rx": x * r[:, None],
            "rr": r * r,
        }
        columns = {name: _sum_by(codes, len(labels), values) for name, values in sums.items()}
        return Rows(columns, labels=labels, dim="group")

    def global_term(self, m: Any) -> Any:
        """E_q[log p(β) + log p(τ) + log p(ν)]."""
        return (
            spherical_log_density(m.beta, self.beta_var)
            + gamma_log_density(m.tau, self.tau_shape, self.tau_rate)
            + gamma_log_density(m.nu, self.nu_shape, self.nu_rate)
        )

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E_q[log p(y_k | β, z_k, τ) + log p(z_k | ν)] of one group."""
        residual_sq = (
            row.yy
            - 2 * row.xy @ m.beta.x
            + jnp.sum(row.xx * m.beta.xx)
            - 2 * (row.ry - row.rx @ m.beta.x) * z.x
            + row.rr * z.xx
        )
        likelihood = 0.5 * (row.n * (m.tau.log_x - LOG_2PI) - m.tau.x * residual_sq)
        return likelihood + 0.5 * (m.nu.log_x - LOG_2PI - m.nu.x * z.xx)


def _groups(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Integer codes and sorted labels of the groups; a missing label is an error."""
    if np.ndim(column) != 1:
        raise InvalidData(
            f"Column 'group' has shape {np.shape(column)}; give one label per row.", column="group"
        )
    refuse_masked("group", column)
    try:
        import pandas as pd

        codes, labels = pd.factorize(np.asarray(column), sort=True)
    except TypeError as error:
        raise InvalidData(
            f"Column 'group' holds labels that cannot be compared ({error}); use numbers or text.",
            column="group",
        ) from error
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise invalid_value(
            "group",
            (row,),
            np.asarray(column)[row],
            "is a missing label",
            "Drop the row or name its group",
        )
    return codes, np.asarray(labels)


def _sum_by(codes: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
    """Sums of values over the rows of each group."""
    flat = values.reshape(len(values), -1)
    sums = np.stack([np.bincount(codes, weights=c, minlength=groups) for c in flat.T], axis=-1)
    return sums.reshape(groups, *values.shape[1:])
