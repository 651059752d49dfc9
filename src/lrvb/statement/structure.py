"""Structure: what compiled programs depend on, with the two terms as functions of flat vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..data.tables import Row
from ..errors import InvalidModel
from ..numerics.lazy import jax, jnp
from ..numerics.program import Program
from .meanfield import MeanField
from .model import Model, join

Specs = Mapping[str, "jax.ShapeDtypeStruct"]


@dataclass(frozen=True)
class Structure:
    """A model's blocks, its traced numbers and the columns of a row; equal ones share programs."""

    key: Any
    model: Model = field(compare=False)
    alpha: MeanField = field(compare=False)
    local: MeanField = field(compare=False)
    numbers: Specs = field(compare=False, default_factory=dict)
    columns: Specs = field(compare=False, default_factory=dict)
    conjugate: bool = field(compare=False, default=True)
    programs: dict[Any, Program] = field(compare=False, repr=False, default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"programs": {}}  # they are made where they are used

    def global_term(self, numbers: Any, m: Any) -> Any:
        """The model's global term at m, flat or by the names of the blocks."""
        value = join(self.model, numbers).global_term(self.alpha.moments(m))
        return _scalar(value, "global_term")

    def local_term(self, numbers: Any, m: Any, z: Any, row: Row | Any) -> Any:
        """The model's local term of one row, or of its features, at m and z."""
        model = join(self.model, numbers)
        datum = row if model.features is None or not isinstance(row, Row) else model.features(row)
        value = model.local_term(self.alpha.moments(m), self.local.moments(z), datum)
        return _scalar(value, "local_term")

    def features(self, numbers: Any, row: Row) -> Any:
        """φ(row) of a model that declares features."""
        return join(self.model, numbers).features(row)

    def row(self, columns: Mapping[str, Any], used: set[str] | None = None) -> Row:
        """A row with the columns in the order in which they were given; JAX sorts its mappings."""
        return Row({name: columns[name] for name in self.columns}, used)

    def named(self, columns: Specs) -> Structure:
        """The same with other columns, and without a key as yet."""
        return replace(self, key=None, columns=columns, programs={})


def _scalar(value: Any, term: str) -> Any:
    """The value of a term as one real number."""
    if value is None:
        raise InvalidModel(f"{term} returned None; it must return one number. Is a return missing?")
    value = jnp.asarray(value)
    if value.shape != ():
        raise InvalidModel(
            f"{term} returned an array of shape {value.shape}; it must return one number. "
            "Sum over its entries."
        )
    if value.dtype == bool or jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise InvalidModel(
            f"{term} returned a value of type {value.dtype}; it must return a real number."
        )
    return value.astype(jnp.float64)
