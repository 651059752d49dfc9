"""Structure: what compiled programs depend on, with the two terms as functions of flat vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..data.tables import Row
from ..errors import InvalidModel
from ..numerics.lazy import jax, jnp
from .expectation import Plan, Raw, Values, at_points, expected
from .meanfield import MeanField
from .model import Model, derived, join

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
    plans: Mapping[str, Plan] = field(compare=False, default_factory=dict)
    programs: dict[Any, Any] = field(compare=False, repr=False, default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"programs": {}}  # they are made where they are used

    def at_points(self) -> Structure:
        """The same for moments T(α) of single points: log p is asked itself where it is stated.

        Without a key, unless there is nothing to change.
        """
        if not self.plans:
            return self
        plans = {name: at_points(plan, self.alpha.blocks) for name, plan in self.plans.items()}
        return replace(self, key=None, plans=plans, programs={})

    def log_prior(self, rest: Any) -> Raw:
        """log p of what is not per row as a function of raw variables; `rest` are the numbers."""
        model = join(self.model, rest)
        return lambda values: _scalar(model.log_prior(Values(values)), "log_prior")

    def log_row(self, rest: Any) -> Raw:
        """log p of one row as a function of raw variables; `rest` are the numbers and the row."""
        model, row = join(self.model, rest[0]), rest[1]
        row = row if isinstance(row, Row) else self.row(row)

        def at(values: Mapping[str, Any]) -> Any:
            t = Values({name: values[name] for name in self.alpha.blocks})
            z = Values({name: values[name] for name in self.local.blocks})
            return _scalar(model.log_row(t, z, row), "log_row")

        return at

    def global_term(self, numbers: Any, m: Any) -> Any:
        """The model's global term at m, flat or by the names of the blocks."""
        if derived(self.model, "global_term"):
            return self._derived("log_prior", self._expected_prior, numbers, m)
        value = join(self.model, numbers).global_term(self.alpha.moments(m))
        return _scalar(value, "global_term")

    def local_term(self, numbers: Any, m: Any, z: Any, row: Row | Any) -> Any:
        """The model's local term of one row, or of its features, at m and z."""
        if derived(self.model, "local_term"):
            columns = {name: row[name] for name in self.columns}
            return self._derived("log_row", self._expected_row, numbers, m, z, columns)
        model = join(self.model, numbers)
        datum = row if model.features is None or not isinstance(row, Row) else model.features(row)
        value = model.local_term(self.alpha.moments(m), self.local.moments(z), datum)
        return _scalar(value, "local_term")

    def _expected_prior(self, numbers: Any, m: Any) -> Any:
        plan = self.plans.get("log_prior")
        return expected(self.log_prior(numbers), self.alpha.blocks, self.alpha.moments(m), plan)

    def _expected_row(self, numbers: Any, m: Any, z: Any, columns: Any) -> Any:
        moments, own = self.alpha.moments(m), self.local.moments(z)
        both = {k: moments[k] for k in moments} | {k: own[k] for k in own}
        blocks = self.alpha.blocks | self.local.blocks
        return expected(self.log_row((numbers, columns)), blocks, both, self.plans.get("log_row"))

    def _derived(self, name: str, term: Callable[..., Any], *arguments: Any) -> Any:
        """A derived term, whose rules are traced once for all that is asked of it."""
        leaves, tree = jax.tree.flatten(arguments)
        key = (name, tree, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves))
        if key not in self.programs:
            self.programs[key] = jax.make_jaxpr(term)(*arguments)
        closed = self.programs[key]
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *leaves)[0]

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
