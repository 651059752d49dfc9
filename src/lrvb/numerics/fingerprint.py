"""Fingerprint: two values, or two traced functions, that compute alike have one hashable value.

A compiled program is used again only where its fingerprint is the same. Of a function it is that of
its jaxpr: every operation with its constants, so that whatever the function has read, from
attributes, closures, modules or other classes, is in it by what it did.
"""

from __future__ import annotations

import hashlib
import types
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .lazy import core, jax

_ATOMS = (type(None), bool, int, complex, str, bytes, type, np.dtype)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_OWN = __name__.partition(".")[0]
_CUSTOM = ("custom_jvp_call", "custom_vjp_call")


def fingerprint(value: Any) -> Any:
    """A hashable value that is equal for equal content; functions and the like are themselves."""
    if isinstance(value, _ATOMS):
        return type(value), value
    if isinstance(value, float):
        return float, value.hex()  # 0.0 and −0.0 differ, and NaN equals itself
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.dtype != object:
            return array.shape, str(array.dtype), hashlib.sha256(array.tobytes()).digest()
        return array.shape, tuple(fingerprint(v) for v in array.ravel().tolist())
    if isinstance(value, Mapping):
        return type(value), tuple((fingerprint(k), fingerprint(v)) for k, v in value.items())
    if isinstance(value, tuple | list):
        return type(value), tuple(fingerprint(v) for v in value)
    if isinstance(value, set | frozenset):
        return type(value), frozenset(fingerprint(v) for v in value)
    held = attributes(value)
    if held is not None and not isinstance(value, _FUNCTIONS):
        return type(value), fingerprint(held)
    return type(value), value


def attributes(value: Any) -> dict[str, Any] | None:
    """What an object holds, in `__dict__` and in slots; None when it has neither."""
    slots = [s for c in type(value).__mro__ for s in _slots(c) if hasattr(value, s)]
    if not slots and not hasattr(value, "__dict__"):
        return None
    held = dict(getattr(value, "__dict__", {}))
    return held | {slot: getattr(value, slot) for slot in slots}


def _slots(cls: type) -> tuple[str, ...]:
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def is_plain(value: Any) -> bool:
    """Whether the fingerprint decides what `value` computes: numbers, text, and what is `lrvb`'s."""
    if isinstance(value, type | types.FunctionType):
        return _is_own(value.__module__) and "<locals>" not in value.__qualname__
    if isinstance(value, (*_ATOMS, float)):
        return True
    if hasattr(value, "__array__"):
        return bool(np.asarray(value).dtype != object)
    if isinstance(value, Mapping):
        return all(is_plain(k) and is_plain(v) for k, v in value.items())
    if isinstance(value, tuple | list | set | frozenset):
        return all(is_plain(v) for v in value)
    held = attributes(value)
    return held is not None and _is_own(type(value).__module__) and is_plain(held)


def _is_own(module: str | None) -> bool:
    return (module or "").partition(".")[0] == _OWN


def _is_rule_of_jax(parameters: Mapping[str, Any]) -> bool:
    """Whether a derivative of its own is one of JAX's functions', such as slogdet's, which nobody changes.

    What `defjvps` makes is written in JAX too, but for whoever calls it.
    """
    rule = getattr(parameters.get("jvp_jaxpr_fun"), "debug_info", None)
    path = str(getattr(rule, "func_src_info", "")).rpartition(" at ")[2]
    home = str(Path(jax.__file__).parent)
    return path.startswith(home) and "custom_derivatives" not in path


@dataclass
class Digest:
    """The digest of traced functions; `custom` says that some have derivatives of their own."""

    sha: Any = field(default_factory=hashlib.sha256)
    custom: bool = False
    opaque: bool = False

    def add(self, closed: core.ClosedJaxpr) -> None:
        """Take in one more function."""
        self._jaxpr(closed.jaxpr)
        for constant in closed.consts:
            self._array(constant)

    def hexdigest(self) -> str:
        """The digest; unlike any other where a function calls back into Python."""
        return uuid.uuid4().hex if self.opaque else self.sha.hexdigest()

    def text(self, *parts: Any) -> None:
        """Take in plain values."""
        self.sha.update(repr(parts).encode())

    def _jaxpr(self, jaxpr: core.Jaxpr) -> None:
        number: dict[Any, int] = {}
        given: list[Any] = [*jaxpr.constvars, *jaxpr.invars]
        for v in given:
            self._define(v, number)
        for equation in jaxpr.eqns:
            self.text(equation.primitive.name)
            for read in equation.invars:
                self._read(read, number)
            if equation.primitive.name in _CUSTOM and not _is_rule_of_jax(equation.params):
                self.custom = True
            for name, value in sorted(equation.params.items()):
                if equation.primitive.name not in ("jit", "pjit") or name == "jaxpr":
                    self._parameter(name, value, equation.primitive.name in _CUSTOM)
            for v in equation.outvars:
                self._define(v, number)
        for out in jaxpr.outvars:
            self._read(out, number)

    def _define(self, v: Any, number: dict[Any, int]) -> None:
        number[v] = len(number)
        aval = v.aval
        kind = (str(aval.dtype), aval.shape, aval.weak_type) if hasattr(aval, "dtype") else aval
        self.text(number[v], kind)

    def _read(self, v: Any, number: dict[Any, int]) -> None:
        if isinstance(v, core.Literal):
            self._array(v.val)
        else:
            self.text(number[v])

    def _array(self, value: Any) -> None:
        array = np.asarray(value)
        self.text(array.shape, str(array.dtype))
        self.sha.update(array.tobytes())

    def _parameter(self, name: str, value: Any, of_custom: bool) -> None:
        if isinstance(value, core.ClosedJaxpr):
            self.add(value)
        elif isinstance(value, core.Jaxpr):
            self._jaxpr(value)
        elif isinstance(value, np.ndarray):
            self._array(value)
        elif isinstance(value, tuple | list) and not hasattr(value, "_fields"):
            self.text(name, len(value))
            for part in value:
                self._parameter(name, part, of_custom)
        elif callable(value) and of_custom:
            pass  # a rule: seen by what it does, in the derivatives
        else:
            shown = repr(value)
            self.opaque |= " at 0x" in shown
            self.text(name, shown)
