"""The exact posterior of the normal–Poisson model."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from ...errors import InvalidData
from .poisson_rows import RowMoments, row_moments
from .posterior import ExactPosterior, Marginal, Mixture, assemble, local_moments
from .quadrature import DEPTH, integrate, step_kernel

ROWS = 250  # rows at a time
NAMES = ("beta", "tau", "log(tau)")


def exact(
    x: np.ndarray,
    y: np.ndarray,
    *,
    beta_var: float = 10.0,
    tau_shape: float = 1.0,
    tau_rate: float = 1.0,
    refine: float = 1.0,
    depth: float = DEPTH,
) -> ExactPosterior:
    r"""Posterior of β, τ and z by quadrature over (β, log τ) and, within each row, over z_n.

    The model is z_n ~ N(βx_n, 1/τ), y_n ~ Poisson(exp z_n) with β ~ N(0, beta_var) and
    τ ~ Gamma(shape, rate); x and y have shape (N,). Quantities beta, tau, log(tau). `refine`
    divides every step and `depth` says how far down the tails go, in nats; with the defaults the
    moments are good to about 1e-9 and the quantiles to 1e-6 of an sd.

    See: sec:normal_poisson_model, eq:pn_model
    """
    x, y = _check(x, y)

    def rows(u: np.ndarray, part: slice) -> RowMoments:
        mu, tau = u[:, :1] * x[part], np.exp(u[:, 1:])
        return row_moments(mu, tau, y[part], refine=refine, depth=depth)

    parts = [slice(first, first + ROWS) for first in range(0, len(x), ROWS)]

    def log_joint(u: np.ndarray) -> np.ndarray:
        beta, log_tau = u.T
        log_prior = (
            -0.5 * beta**2 / beta_var
            - 0.5 * np.log(2 * np.pi * beta_var)
            + tau_shape * (np.log(tau_rate) + log_tau)  # the Jacobian of log τ is included
            - tau_rate * np.exp(log_tau)
            - gammaln(tau_shape)
        )
        return log_prior + sum(rows(u, part).log_integral.sum(1) for part in parts)

    slope = x @ np.log(y + 0.5) / max(x @ x, 1e-300)
    grid = integrate(log_joint, np.array([slope, 0.0]), refine=refine, depth=depth)

    seen = grid.weight > np.exp(-depth) * grid.weight.max()
    u, weight = grid.points[seen], grid.weight[seen] / grid.weight[seen].sum()
    quantities = np.stack([u[:, 0], np.exp(u[:, 1]), u[:, 1]], axis=1)
    mixture = Mixture(weight, quantities, np.zeros((len(u), 3, 3)))
    chunks = []
    for part in parts:
        moments = rows(u, part)
        chunks.append(local_moments(mixture, moments.mean, moments.var))
    mean, sd, cov = (np.concatenate(pieces) for pieces in zip(*chunks, strict=True))
    marginals = {
        name: Marginal(grid.weight, grid.points[:, k], grid.spacing[k], step_kernel)
        for k, name in enumerate(("beta", "log(tau)"))
    }
    return assemble(
        NAMES, mixture, (mean, sd, cov), np.arange(len(x)), grid.log_integral, marginals
    )


def _check(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both columns as floats, or what is wrong with them."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if x.ndim != 1 or x.shape != y.shape or not len(x):
        raise InvalidData(f"x and y must be equally long columns, not {x.shape} and {y.shape}.")
    for name, column in (("x", x), ("y", y)):
        wrong = ~np.isfinite(column)
        if name == "y":
            wrong |= (column < 0) | (column != np.round(column))
        if wrong.any():
            row = int(wrong.argmax())
            kind = "a count" if name == "y" else "finite"
            raise InvalidData(
                f"Column {name}, row {row}: {column[row]} is not {kind}.", column=name, row=row
            )
    return x, y
