"""Fingerprint: what a compiled program has read from Python, as one hashable value.

Compilation bakes in everything that is not traced: attributes, defaults, closures and globals. Two
models share a program only when all of these are equal in value, so that changing one of them, in
place or in a notebook's other cell, never meets a stale program.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_LIBRARIES = frozenset({"jax", "jaxlib", "numpy", "scipy", "math", "builtins", "lrvb"})
_ATOMS = (
    type(None),
    bool,
    int,
    complex,
    str,
    bytes,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
)
_MOST_OBJECTS = 10_000  # a model that holds more is compiled anew each time, which is always right


def fingerprint(value: Any) -> Any:
    """A hashable value that changes whenever `value` would compute differently."""
    return _Reader().read(value)


def class_fingerprint(cls: type, root: type) -> Any:
    """Everything that a class and its bases below `root` hold, methods included."""
    reader = _Reader()
    content = []
    for base in cls.__mro__[: cls.__mro__.index(root)]:
        held = {} if _is_library(base.__module__) else vars(base)
        names = (name for name in held if not (name.startswith("__") and name.endswith("__")))
        content.append((base, tuple((name, reader.read(held[name])) for name in names)))
    return tuple(content)


class _Reader:
    """One reading of a graph of objects: each is visited once."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}
        self.alive: list[Any] = []  # so that no two objects of one reading share an id

    def read(self, value: Any) -> Any:
        if isinstance(value, _ATOMS):
            return type(value), value
        if isinstance(value, float):
            return float, value.hex()  # 0.0 and −0.0 differ, and NaN equals itself
        if id(value) in self.known:
            return self.known[id(value)]
        if len(self.known) >= _MOST_OBJECTS:
            return object()
        self.alive.append(value)
        self.known[id(value)] = (type(value), "itself")  # what a cycle finds
        self.known[id(value)] = found = (type(value), self._content(value))
        return found

    def _content(self, value: Any) -> Any:
        if hasattr(value, "__array__"):
            return self._array(np.asarray(value))
        if isinstance(value, Mapping):
            return self._all(pair for pair in value.items())
        if isinstance(value, tuple | list):
            return self._all(value)
        if isinstance(value, set | frozenset):
            return frozenset(self._all(value))
        if isinstance(value, functools.partial):
            return self._all((value.func, value.args, value.keywords))
        if isinstance(value, types.MethodType):
            return self._all((value.__func__, value.__self__))
        if isinstance(value, staticmethod | classmethod):
            return self.read(value.__func__)
        if isinstance(value, property):
            return self.read(value.fget)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        return self._instance(value)

    def _all(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.read(value) for value in values)

    def _array(self, array: np.ndarray) -> Any:
        if array.dtype == object:
            return array.shape, self._all(array.ravel().tolist())
        content = array.tobytes()
        if len(content) > 64:
            content = hashlib.sha256(content).digest()
        return array.shape, str(array.dtype), content

    def _function(self, function: types.FunctionType) -> Any:
        """A function by its code and all that the code can see."""
        if _is_library(function.__module__ or ""):
            return function
        visible = function.__globals__
        names = (name for name in _globals_read(function.__code__) if name in visible)
        cells = [_cell_content(cell) for cell in function.__closure__ or ()]
        return (
            function.__code__,
            id(visible),
            self._all(cells),
            self._all((name, visible[name]) for name in names),
            self._all((function.__defaults__, function.__kwdefaults__, function.__dict__)),
        )

    def _instance(self, value: Any) -> Any:
        """An object by its attributes; one without any by its own equality, or by nothing."""
        if hasattr(value, "__dict__"):
            return self.read(dict(vars(value)))
        try:
            hash(value)
        except TypeError:
            return object()  # equal to nothing, so never taken for another
        return value


@functools.lru_cache(maxsize=1024)
def _globals_read(code: types.CodeType) -> tuple[str, ...]:
    """Names of the globals that a piece of code reads, functions inside it included."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names.update(_globals_read(constant))
    return tuple(sorted(names))


def _cell_content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES
