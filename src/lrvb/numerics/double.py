"""Double precision inside our own calls, whatever the user's JAX configuration says."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ..errors import ForkedProcess
from .lazy import jax

F = TypeVar("F", bound=Callable[..., Any])

_forked = False  # in a process that was forked after JAX had started its threads


def _after_fork() -> None:
    global _forked
    _forked = _forked or _started()


def _started() -> bool:
    """Whether JAX runs threads in this process, which a fork does not copy."""
    if "jax" not in sys.modules:
        return False
    from jax._src import xla_bridge

    return bool(getattr(xla_bridge, "_backends", True))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def double() -> Any:
    """Context in which JAX computes in 64 bits; the global configuration is never touched."""
    if _forked:
        raise ForkedProcess(
            "This process was forked from one in which JAX was already running, and JAX would wait "
            "for ever for threads that a fork does not copy. Start workers anew: "
            "multiprocessing.get_context('spawn').Pool(), or loky's pool, which is joblib's default."
        )
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # pragma: no cover - JAX before 0.8

    return enable_x64(True)  # pragma: no cover


def in_double(function: F) -> F:
    """Run a function of ours in the double-precision context."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with double():
            return function(*args, **kwargs)

    return cast(F, wrapped)
