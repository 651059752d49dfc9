"""Special functions at full precision for tiny and huge arguments, cheap to compile.

Differences that cancel for large arguments, such as ψ′(a) − 1/a, are computed as themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .functions import Functions
from .lazy import jnp, lax, special

#: The functions of a formula for traced values; `functions.NUMPY` has the same names.
JAX = Functions(jnp, special)

_SHIFT = 10  # asymptotic series are used from a + 10 on: their first omitted term is below 1e-16


def gammaln(a: Any) -> Any:
    """log Γ(a)."""
    return lax.lgamma(a)


def digamma(a: Any) -> Any:
    """ψ(a)."""
    return lax.digamma(a)


def _series(x: Any, coefficients: list[float]) -> Any:
    """Σ_j c_j x^j by Horner's rule."""
    total = 0.0 * x
    for c in reversed(coefficients):
        total = total * x + c
    return total


def trigamma_excess(a: Any) -> Any:
    """ψ′(a) − 1/a for a > 0, to full relative precision.

    Recurrence up to a + 10, then the Bernoulli series without its leading 1/a. NumPy arrays stay so.
    """
    a = a if isinstance(a, np.ndarray) else jnp.asarray(a)
    b = a + _SHIFT
    x = 1 / b
    x2 = x * x
    # ψ′(b) − 1/b = 1/(2b²) + Σ B_2j / b^(2j+1)
    bernoulli = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6]
    tail = x2 / 2 + x2 * x * _series(x2, bernoulli)
    # 1/(a+j)² − [1/(a+j) − 1/(a+j+1)] = 1/((a+j)²(a+j+1)): every term positive, nothing cancels
    c = a[..., None] + np.arange(float(_SHIFT))
    return tail + (1 / (c * c * (c + 1))).sum(axis=-1)


def trigamma(a: Any) -> Any:
    """ψ′(a) for a > 0."""
    a = a if isinstance(a, np.ndarray) else jnp.asarray(a)
    return 1 / a + trigamma_excess(a)


def gamma_entropy(a: Any) -> Any:
    """Entropy of Gamma(a, 1), a + log Γ(a) + (1 − a) ψ(a); a series where that would cancel."""
    a = jnp.asarray(a)
    direct = a + gammaln(a) + (1 - a) * digamma(a)
    x = 1 / jnp.maximum(a, 64.0)
    coefficients = [0.0, -1 / 3, -1 / 12, -1 / 90, 1 / 120, 1 / 210, -1 / 252, -1 / 210]
    series = 0.5 * jnp.log(2 * jnp.pi * jnp.e / x) + _series(x, coefficients)
    return jnp.where(a < 64.0, direct, series)
