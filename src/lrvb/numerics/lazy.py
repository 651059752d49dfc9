"""JAX, and what of SciPy is slow to import, when first used: they take longer than a small mixed model.

from ..numerics.lazy import jax, jnp
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["core", "interpolate", "jax", "jnp", "lax", "linalg", "special"]


class Lazy:
    """A module that is imported at the first question for one of its names."""

    def __init__(self, name: str):
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"<lazy module {self.__name__}>"


if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.extend import core
    from jax.scipy import linalg, special
    from scipy import interpolate
else:
    jax, jnp, lax = Lazy("jax"), Lazy("jax.numpy"), Lazy("jax.lax")
    core = Lazy("jax.extend.core")
    interpolate = Lazy("scipy.interpolate")
    linalg, special = Lazy("jax.scipy.linalg"), Lazy("jax.scipy.special")
