"""Values as JSON has them, with their kind where JSON has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....errors import InvalidModel


def coded(value: Any) -> Any:
    """A value as JSON has it, with its kind where JSON has none."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return {"array": [coded(part) for part in value.tolist()], "kind": value.dtype.kind}
    if isinstance(value, list):
        return [coded(part) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [coded(part) for part in value]}
    if isinstance(value, Mapping):
        return {"mapping": [[coded(k), coded(v)] for k, v in value.items()]}
    raise InvalidModel(f"The model cannot be saved: a file does not hold {type(value).__name__}.")


def decoded(value: Any) -> Any:
    """What `coded` was given."""
    if isinstance(value, list):
        return [decoded(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    if "array" in value:
        parts = [decoded(part) for part in value["array"]]
        if value["kind"] == "O":
            made = np.empty(len(parts), dtype=object)
            made[:] = parts
            return made
        return np.array(parts, dtype={"i": np.int64, "f": np.float64, "b": bool}.get(value["kind"]))
    if "tuple" in value:
        return tuple(decoded(part) for part in value["tuple"])
    return {decoded(k): decoded(v) for k, v in value["mapping"]}


def put(state: Any, kept: Mapping[Any, Any]) -> None:
    """A transform's state in place of what the skeleton made of it."""
    for key in list(state):
        if key not in kept:
            raise ValueError(f"the state of '{key}' is not in the file")
        state[key] = kept[key]
