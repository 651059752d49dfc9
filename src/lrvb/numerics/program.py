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
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cache import open_cache
from .double import in_double
from .lazy import jax

_SHARE = (
    0.5  # of the pieces of memory that Linux grants a process, what it may have when older ones go
)
_EVERY = 32  # new executables between two looks: each is made of up to some three hundred pieces


class Executables(dict[Any, Any]):
    """Executables by the shapes of their arguments; a dictionary that can be referred to weakly."""

    __slots__ = ("__weakref__",)


class Recent:
    """The executables of a process in the order of their last use.

    Linux grants a process some 65,000 mapped pieces of memory and aborts one that asks for more. Where half
    of them are used, the older half of the executables goes; one that is asked for again is read from disk.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: OrderedDict[tuple[int, Any], weakref.ref[Executables]] = OrderedDict()
        self._new = 0

    def use(self, executables: Executables, signature: Any) -> None:
        """Note that one is used now."""
        key = id(executables), signature
        with self._lock:
            known = self._used.get(key)
            if known is not None and known() is executables:
                self._used.move_to_end(key)
                return
            self._used.pop(key, None)
            self._used[key] = weakref.ref(executables)
            self._new += 1
            if self._new % _EVERY == 0 and crowded():
                self._let_go(len(self._used) // 2)

    def _let_go(self, count: int) -> None:
        for _ in range(count):
            (_, signature), owner = self._used.popitem(last=False)
            found = owner()
            if found is not None:
                found.pop(signature, None)


def crowded() -> bool:
    """Whether half of the pieces of memory that a process is granted are mapped; never but on Linux."""
    try:
        granted = int(Path("/proc/sys/vm/max_map_count").read_text())
        mapped = Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return False
    return mapped > _SHARE * granted


_recent = Recent()


class Program:
    """A function of arrays, compiled in double precision for each combination of shapes.

    Functions that are known to compute the same may share `executables`; `check` is called before
    the function is traced. A `brief` one runs for less time than it takes to compile, and is compiled so.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        executables: Executables | None = None,
        check: Callable[[], None] | None = None,
        *,
        brief: bool = False,
    ):
        self._function = function
        self._executables = Executables() if executables is None else executables
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
        _recent.use(self._executables, signature)
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
