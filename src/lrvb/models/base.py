"""Model: what a user states. Blocks of the posterior, and two expectations in mean parameters."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ..errors import InvalidModel
from ..families.base import Family
from ..meanfield import MeanField
from ..tables import Rows


class Model:
    """L(m) = global_term(m) + Σ_n local_term(m, z_n, row_n), everything in mean parameters.

    `global_blocks` and `local_blocks` map names to families; either may instead be a method
    `(self, rows)` when sizes depend on the data. Numbers and arrays stored on the model are traced
    by JAX, so that models which differ only in them share one compilation.
    """

    global_blocks: Any = {}
    local_blocks: Any = {}
    #: Columns the model reads; None lets the engine find out from `local_term` itself.
    columns: tuple[str, ...] | None = None
    #: φ(row), shape (F,), for models whose local_term is linear in z and in features of the row:
    #: local_term then receives φ in place of the row, and row sums become weighted Gram matrices.
    features: Any = None

    def global_term(self, m: Any) -> Any:
        """E_q of the log prior, and of anything else that is not per row."""
        return 0.0

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E_q of one row's log density, from moments only."""
        return 0.0

    def prepare(self, data: Mapping[str, Any]) -> Mapping[str, Any] | Rows:
        """The rows of the model's plate from the user's columns; by default they are the rows."""
        return data


def mean_fields(model: Model, rows: Rows | None) -> tuple[MeanField, MeanField]:
    """The products of global and of local blocks, with the sizes that the data ask for."""
    fields = []
    for kind in ("global_blocks", "local_blocks"):
        blocks = getattr(model, kind)
        if callable(blocks):
            blocks = blocks(rows)
        if not isinstance(blocks, Mapping):
            raise InvalidModel(
                f"{kind} of {type(model).__name__} is {blocks!r}; it must map names to families."
            )
        fields.append(MeanField(blocks))
    if not fields[0].blocks:
        raise InvalidModel(
            f"{type(model).__name__} has no global_blocks; name at least one, "
            'such as {"beta": lrvb.Normal()}.'
        )
    both = set(fields[0].blocks) & set(fields[1].blocks)
    if both:
        raise InvalidModel(f"Block '{both.pop()}' is both global and local; rename one of them.")
    return fields[0], fields[1]


def split(model: Model, *, trace: bool = True) -> tuple[Any, dict[str, np.ndarray]]:
    """A hashable key of what is fixed in a model, and the numbers that are traced.

    Floats and arrays on the instance are traced; anything else belongs to the key. What cannot be
    hashed makes the instance its own key.
    """
    fixed, traced = [], {}
    for name, value in sorted(vars(model).items()):
        if trace and isinstance(value, float | np.floating | np.ndarray | jax.Array):
            traced[name] = np.asarray(value)
        elif isinstance(value, np.ndarray | jax.Array):
            array = np.asarray(value)
            fixed.append((name, (array.shape, str(array.dtype), array.tobytes())))
        else:
            fixed.append((name, value))
    try:
        hash(tuple(fixed))
    except TypeError:
        return (type(model), _Identity(model)), traced
    return (type(model), tuple(fixed)), traced


class _Identity:
    """Compares by identity, and keeps its model alive so that the identity stays unique."""

    def __init__(self, model: Any):
        self.model = model

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.model is other.model

    def __hash__(self) -> int:
        return id(self.model)


def join(model: Model, traced: Mapping[str, Any]) -> Model:
    """A copy of the model with its numbers replaced by traced ones."""
    joined = copy.copy(model)
    for name, value in traced.items():
        object.__setattr__(joined, name, value)
    return joined


__all__ = ["Family", "Model", "join", "mean_fields", "split"]
