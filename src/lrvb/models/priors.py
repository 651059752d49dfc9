"""Expected log densities of the usual priors, from moments, with their normalising constants."""

from __future__ import annotations

import numbers
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from ..errors import InvalidModel

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
    return shape * jnp.log(rate) - gammaln(shape) + (shape - 1) * tau.log_x - rate * tau.x


def positive(name: str, value: Any) -> float:
    """A hyperparameter that must be a positive number."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not 0 < float(value) < np.inf:
        raise InvalidModel(f"{name}={value!r} must be a positive number.")
    return float(value)
