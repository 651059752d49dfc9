"""The functions a formula is written with, so that one statement serves NumPy and a tracer alike."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import scipy.special

from .lazy import jax, jnp

_LARGEST = 700.0  # whose exponential is a number


class Functions:
    """Names looked up in one module after another: `xp.exp`, `xp.logaddexp`, `xp.gammaln`."""

    def __init__(self, *modules: ModuleType):
        self._modules = modules

    def __getattr__(self, name: str) -> Any:
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)


#: NumPy and SciPy's special functions; `special.JAX` has the same names for traced values.
NUMPY = Functions(np, scipy.special)


def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + eˣ) of arrays, several times quicker than `np.logaddexp`."""
    if not x.max(initial=0.0) < _LARGEST:
        return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    found = np.exp(x, out=np.empty(x.shape))
    return np.log1p(found, out=found)


def module_of(x: Any) -> Any:
    """`jax.numpy` for a traced value, NumPy for anything else."""
    return jnp if not isinstance(x, np.ndarray | float) and isinstance(x, jax.Array) else np
