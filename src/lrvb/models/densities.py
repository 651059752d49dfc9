"""Expected log densities of the usual priors, from moments, with their normalising constants."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ..errors import InvalidModel
from ..numerics.lazy import jnp, special

LOG_2PI = float(np.log(2 * np.pi))


def normal_log_density(beta: Any, loc: Any, variance: Any) -> Any:
    """E_q[log N(β | loc, variance)] of a scalar, from E β and E β²."""
    square = beta.xx - 2 * loc * beta.x + loc**2
    return -0.5 * (square / variance + jnp.log(variance) + LOG_2PI)


def spherical_log_density(beta: Any, variance: Any) -> Any:
    """E_q[log N(β | 0, variance · I)] of a vector, from E ββᵀ."""
    P = beta.x.shape[-1]
    return -0.5 * (jnp.trace(beta.xx) / variance + P * (jnp.log(variance) + LOG_2PI))


def gamma_log_density(tau: Any, shape: Any, rate: Any) -> Any:
    """E_q[log Gamma(τ | shape, rate)], from E τ and E log τ."""
    return shape * jnp.log(rate) - special.gammaln(shape) + (shape - 1) * tau.log_x - rate * tau.x


def wishart_log_density(Lambda: Any, dof: Any, inverse_scale: Any, *, proper: bool = True) -> Any:
    """E_q[log Wishart(Λ | dof, scale)] summed over copies, from E Λ and E log|Λ|.

    An improper prior leaves its normalising constant out.
    """
    P = inverse_scale.shape[-1]
    term = 0.5 * (dof - P - 1) * jnp.sum(Lambda.logdet_x) - 0.5 * jnp.sum(inverse_scale * Lambda.x)
    if not proper:
        return term
    half, logdet = 0.5 * dof, jnp.linalg.slogdet(inverse_scale)[1]
    copies = jnp.size(Lambda.logdet_x)
    return term + copies * (half * (logdet - P * jnp.log(2.0)) - special.multigammaln(half, P))


def positive(name: str, value: Any) -> float:
    """A hyperparameter that must be a positive number."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0 < float(value) < np.inf:
        raise InvalidModel(f"{name}={value!r} must be a positive number.")
    return float(value)
