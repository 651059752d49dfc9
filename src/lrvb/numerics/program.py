"""Compilation that is paid once a machine: executables kept in the user's cache folder.

JAX's own persistent cache is a global setting, which is the user's and not ours. So each function
of ours is lowered, looked up by the hash of its lowered text, and compiled only when not found.
See: `numerics.cache`
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cache import open_cache
from .double import in_double
from .lazy import jax


class Program:
    """A function of arrays, compiled in double precision for each combination of shapes.

    Functions that are known to compute the same may share `executables`; `check` is called before
    the function is traced. A `brief` one runs for less time than it takes to compile, and is compiled so.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        executables: dict[Any, Any] | None = None,
        check: Callable[[], None] | None = None,
        *,
        brief: bool = False,
    ):
        self._function = function
        self._executables = {} if executables is None else executables
        self._check, self._brief = check, brief
        self._lock = threading.Lock()

    @in_double
    def __call__(self, *args: Any) -> Any:
        """The function's value, compiled on the first call with arguments of these shapes."""
        leaves, tree = jax.tree.flatten(args)
        signature = (tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves))
        executable = self._executables.get(signature)
        if executable is None:
            with self._lock:
                executable = self._executables.get(signature)
                if executable is None:
                    if self._check is not None:
                        self._check()
                    executable = _executable(jax.jit(self._function), args, self._brief)
                    self._executables[signature] = executable
        return executable(*args)


def _executable(jitted: Any, args: tuple[Any, ...], brief: bool = False) -> Any:
    """The executable for these arguments, from disk where possible."""
    from jax.experimental import serialize_executable

    lowered = jitted.lower(*args)
    # A stored executable asks for one part of its arguments a device, where there are several.
    cache = open_cache() if jax.device_count() == 1 else None
    if cache is None:
        return _compiled(lowered, brief)
    text = hashlib.sha256(lowered.as_text().encode())
    # The text leaves out arguments that are not used, but the executable insists on their shapes.
    text.update(repr(lowered.in_avals).encode())
    text.update(_machine().encode())
    text.update(b"brief" * brief)
    name = f"{text.hexdigest()}-signed.xla"
    # The cache only saves time: whatever goes wrong with a file of it, we compile.
    with contextlib.suppress(Exception):
        return serialize_executable.deserialize_and_load(
            cache.read(name), lowered.in_tree, lowered.out_tree
        )
    executable = _compiled(lowered, brief)
    with contextlib.suppress(Exception):
        cache.write(name, serialize_executable.serialize(executable)[0])
    return executable


#: How XLA compiles in 40 to 70 % of the time programs that are as fast: without its newer way to fuse
#: operations, and in one piece.
BRIEF = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}


def _compiled(lowered: Any, brief: bool) -> Any:
    """The executable; a version of XLA that has no such options compiles as it always does."""
    if brief and jax.devices()[0].platform == "cpu":
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            return lowered.compile(compiler_options=BRIEF)
    return lowered.compile()


@functools.cache
def _machine() -> str:
    """What an executable depends on beside its text: versions, device, processor and flags."""
    import jaxlib

    flags = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next((line for line in lines if line.startswith("flags")), "")
    device = jax.devices()[0]
    parts = [
        jax.__version__,
        jaxlib.__version__,
        device.platform,
        device.device_kind,
        platform.machine(),
        platform.processor(),
        flags,
        os.environ.get("XLA_FLAGS", ""),
        str(jax.device_count()),
    ]
    return "\n".join(parts)
