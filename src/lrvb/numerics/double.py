"""Double precision inside our own calls, whatever the user's JAX configuration says."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax

F = TypeVar("F", bound=Callable[..., Any])

if hasattr(jax, "enable_x64"):
    _enable_x64 = jax.enable_x64
else:  # pragma: no cover - JAX before 0.8
    from jax.experimental import enable_x64 as _enable_x64


def double() -> Any:
    """Context in which JAX computes in 64 bits; the global configuration is never touched."""
    return _enable_x64(True)


def in_double(function: F) -> F:
    """Run a function of ours in the double-precision context."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with double():
            return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]
