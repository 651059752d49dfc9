"""Compilation that is paid once a machine: executables kept in the user's cache folder.

JAX's own persistent cache is a global setting, which is the user's and not ours. So each function
of ours is lowered, looked up by the hash of its lowered text, and compiled only when not found.
`LRVB_CACHE_DIR` moves the folder; `LRVB_CACHE_DIR=off` keeps nothing on disk.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jaxlib
from jax.experimental import serialize_executable

from .double import in_double

_MAX_FILES = 256  # about 30 kB each; the oldest go first


class Program:
    """A function of arrays, compiled in double precision for each combination of shapes.

    Functions that are known to compute the same may share `executables`; `check` is called before
    the function is traced.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        executables: dict[Any, Any] | None = None,
        check: Callable[[], None] | None = None,
    ):
        self._jitted = jax.jit(function)
        self._executables = {} if executables is None else executables
        self._check = check
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
                    executable = _executable(self._jitted, args)
                    self._executables[signature] = executable
        return executable(*args)


def _executable(jitted: Any, args: tuple[Any, ...]) -> Any:
    """The executable for these arguments, from disk where possible."""
    lowered = jitted.lower(*args)
    folder = cache_folder()
    if folder is None:
        return lowered.compile()
    text = hashlib.sha256(lowered.as_text().encode())
    text.update(_machine().encode())
    path = folder / f"{text.hexdigest()}.xla"
    # The cache only saves time: whatever goes wrong with a file of it, we compile.
    with contextlib.suppress(Exception):
        content = _read(path)
        loaded = serialize_executable.deserialize_and_load(
            content, lowered.in_tree, lowered.out_tree
        )
        path.touch()
        return loaded
    executable = lowered.compile()
    with contextlib.suppress(Exception):
        _store(path, serialize_executable.serialize(executable)[0])
    return executable


def cache_folder() -> Path | None:
    """Where executables are kept; None when switched off."""
    chosen = os.environ.get("LRVB_CACHE_DIR", "")
    if chosen.lower() in {"off", "none", "0"}:
        return None
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "lrvb"


def _read(path: Path) -> bytes:
    """The content of a file, if it is what was written: damaged machine code must not run."""
    digest, content = (stored := path.read_bytes())[:32], stored[32:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError(f"{path} is damaged")
    return content


def _store(path: Path, content: bytes) -> None:
    """Write under a temporary name, then rename; let the oldest files go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
    temporary.write_bytes(hashlib.sha256(content).digest() + content)
    temporary.replace(path)
    files = sorted(path.parent.glob("*.xla"), key=lambda f: f.stat().st_mtime)
    for old in files[:-_MAX_FILES]:
        old.unlink(missing_ok=True)


@functools.cache
def _machine() -> str:
    """What an executable depends on beside its text: versions, device, processor and flags."""
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
