"""Problem: a model met with its data. Checked rows, block layouts, and the two terms as functions.

Everything after this file sees flat vectors: m for the global blocks, z for one row's local ones.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.tables import Rows, as_columns, kind_of, length, missing_column, numeric, require
from ..errors import InvalidData, InvalidModel, LrvbError
from ..numerics.double import in_double
from ..numerics.lazy import jnp
from .expectation import planned
from .indices import check_indices
from .meanfield import MeanField
from .model import Model, asked, derived, mean_fields, overrides, split
from .programs import global_program
from .structure import Structure
from .tracing import (
    NeedsValue,
    Traced,
    attempt,
    columns_read,
    is_conjugate,
    key_of,
    layout,
    own_attributes,
    own_key,
    require_differentiable,
    spec,
    trace_terms,
)


@dataclass(frozen=True)
class Problem:
    """A model and its checked rows; `traced` holds the numbers stored on the model."""

    model: Model
    structure: Structure
    traced: dict[str, np.ndarray]
    rows: Rows | None
    data: dict[str, Any] | None = None
    total: int | None = None  # rows in all, where `rows` holds only a sample of them

    @property
    def alpha(self) -> MeanField:
        """The product of the global blocks."""
        return self.structure.alpha

    @property
    def local(self) -> MeanField:
        """The product of one row's local blocks."""
        return self.structure.local

    @property
    def n(self) -> int:
        """Number of rows."""
        if self.total is not None:
            return self.total
        return self.rows.n if self.rows is not None else 0


@in_double
def at_points(problem: Problem) -> Problem:
    """The problem, to be asked at moments T(α) of single points only. See: `Structure.at_points`."""
    structure = problem.structure.at_points()
    if structure is problem.structure:
        return problem
    return replace(problem, structure=replace(structure, key=key_of(structure)))


@in_double
def state_problem(model: Model, data: Any) -> Problem:
    """Check the data, lay out the blocks, and make sure that both terms can be traced."""
    if isinstance(model, type):
        raise InvalidModel(f"{model.__name__} is a class; pass an instance, {model.__name__}().")
    if not isinstance(model, Model):
        own = (
            "it has a fit of its own, model.fit(data)"
            if hasattr(model, "fit")
            else "subclass lrvb.Model"
        )
        raise InvalidModel(f"The model is {kind_of(model)}; {own}.")
    name = type(model).__name__
    has_local_term = overrides(model, "local_term") or model.log_row is not None
    if data is None and (has_local_term or model.columns):
        raise InvalidData(
            f"{name} has terms for rows, but the data are None; give a mapping of columns"
            + (f": {', '.join(model.columns)}." if model.columns else ".")
        )
    rows, columns = _rows(model, data)
    alpha, local = mean_fields(model, rows)
    if not has_local_term and (local.blocks or rows is not None):
        what = f"the local block '{next(iter(local.blocks))}'" if local.blocks else "the data"
        raise InvalidModel(f"{name} has no local_term, so {what} would not be used; write one.")
    for trace in (True, False):
        _, numbers = split(model, trace=trace)
        specs = {k: spec(v) for k, v in numbers.items()}
        try:
            stated = Structure(None, model, alpha, local, specs)
            structure, checked = _traced(stated, numbers, rows)
            break
        except NeedsValue as error:
            # The terms use a number of the model concretely: fix it instead of tracing it.
            if not trace or not numbers:
                raise InvalidModel(
                    f"{error.term} of {name} needs the value of a moment or of a row while JAX "
                    f"traces it ({type(error.__cause__).__name__}); use jax.numpy in place of numpy "
                    "and math, and jnp.where in place of if."
                ) from error.__cause__
    check_indices(structure, numbers, checked)
    if checked is not None and columns is not None:
        columns = {k: v for k, v in columns.items() if k in checked.columns or model.columns}
    return Problem(model, structure, numbers, checked, columns)


def _rows(model: Model, data: Any) -> tuple[Rows | None, dict[str, Any] | None]:
    """The model's plate from the user's data, and the user's columns that it may use."""
    if data is None:
        return None, None
    if isinstance(data, Rows):
        return data, dict(data.columns)
    columns, labels = as_columns(data)
    if model.columns is not None:
        require(columns, model.columns)
        columns = {name: columns[name] for name in model.columns}
    length(columns)
    prepared = asked(f"prepare of {type(model).__name__}", model.prepare, _Columns(columns))
    if isinstance(prepared, Rows):
        return prepared, columns
    if not isinstance(prepared, Mapping):
        raise InvalidModel(
            f"prepare of {type(model).__name__} returned a {type(prepared).__name__}; "
            "it must return a mapping of columns, or lrvb.Rows."
        )
    kept = labels if labels is not None and len(labels) == length(prepared) else None
    return Rows(dict(prepared), labels=kept), columns


class _Columns(dict[str, Any]):
    """The user's columns, which say what there is when one is missing."""

    def __missing__(self, name: str) -> Any:
        raise InvalidData(missing_column(name, self), column=name)


def _traced(
    structure: Structure, numbers: Mapping[str, np.ndarray], rows: Rows | None
) -> tuple[Structure, Rows | None]:
    """The structure with its key, and the rows with the columns that its terms read, checked."""
    own = own_attributes(structure)
    if rows is None:
        return _analysed(_with_plans(structure, numbers, None), own), None
    table = _NumericColumns(rows)
    hint = (own or type(structure.model), layout(structure), _signature(rows))
    used = _READ.get(hint)
    if (
        used is not None
    ):  # where other columns are read this time, all is looked at again, and says why
        with contextlib.suppress(LrvbError, NeedsValue):
            found = structure.named(table.specs(used))
            found = _with_plans(found, numbers, table.checked(used))
            traced = None if own is not None else trace_terms(found)
            if traced is None or traced.used == used:
                return _analysed(found, own, traced), table.checked(used)
    used = columns_read(structure, table.examples())
    if len(_READ) >= 256:
        _READ.clear()
    _READ[hint] = used
    found, checked = structure.named(table.specs(used)), table.checked(used)
    return _analysed(_with_plans(found, numbers, checked), own), checked


def _with_plans(
    structure: Structure, numbers: Mapping[str, np.ndarray], rows: Rows | None
) -> Structure:
    """The structure with the rules by which the expectations of its log p are taken."""
    model, plans, values = structure.model, {}, dict(numbers)
    name, blocks = type(model).__name__, structure.alpha.blocks
    if derived(model, "global_term"):
        plans["log_prior"] = attempt(
            structure,
            "log_prior",
            lambda: planned(structure.log_prior, blocks, [values], f"log_prior of {name}"),
        )
    if derived(model, "local_term") and rows is not None:
        places = sorted({0, rows.n // 3, rows.n // 2, rows.n - 1})
        rests = [(values, {k: np.asarray(c[i]) for k, c in rows.columns.items()}) for i in places]
        plans["log_row"] = attempt(
            structure,
            "log_row",
            lambda: planned(
                structure.log_row, blocks | structure.local.blocks, rests, f"log_row of {name}"
            ),
        )
    return replace(structure, plans=plans)


#: The columns that a model has read before, from which the next tracing starts.
_READ: dict[Any, frozenset[str]] = {}


def _analysed(structure: Structure, own: Any, traced: Traced | None = None) -> Structure:
    """The structure with its key, and whether its local variables are conjugate."""
    key = own_key(structure, own) if own is not None else (traced or trace_terms(structure)).key
    if key not in _CONJUGATE:
        if len(_CONJUGATE) >= 256:
            _CONJUGATE.clear()
        require_differentiable(structure)
        _CONJUGATE[key] = is_conjugate(structure)
    return replace(structure, key=key, conjugate=_CONJUGATE[key])


_CONJUGATE: dict[Any, bool] = {}


class _NumericColumns:
    """Columns as finite numbers, each checked when a term first asks for it."""

    def __init__(self, rows: Rows):
        self.rows = rows
        self.known: dict[str, np.ndarray] = {}

    def column(self, name: str) -> np.ndarray:
        if name not in self.known:
            self.known[name] = numeric(name, self.rows.columns[name])
        return self.known[name]

    def examples(self) -> dict[str, Callable[[], Any]]:
        """For every column, a function that gives its first row."""
        return {
            name: functools.partial(lambda name: jnp.asarray(self.column(name)[0]), name)
            for name in self.rows.columns
        }

    def chosen(self, used: frozenset[str]) -> dict[str, np.ndarray]:
        columns = {name: self.column(name) for name in self.rows.columns if name in used}
        # A term that reads no data still needs to know how many rows there are.
        return columns or {"_row": np.zeros(self.rows.n)}

    def specs(self, used: frozenset[str]) -> dict[str, Any]:
        """Shape and type of a row's columns."""
        return {name: spec(c[0]) for name, c in self.chosen(used).items()}

    def checked(self, used: frozenset[str]) -> Rows:
        """The rows with these columns only."""
        rows = self.rows
        return Rows(self.chosen(used), rows.labels, rows.dim, rows.weights)


def _signature(rows: Rows) -> Any:
    return tuple(
        (k, str(getattr(c, "dtype", None) or np.asarray(c).dtype), np.shape(c)[1:])
        for k, c in rows.columns.items()
    )


__all__ = ["Problem", "at_points", "global_program", "state_problem"]
