"""Problem: a model met with its data. Checked rows, block layouts, and the two terms as functions.

Everything after this file sees flat vectors: m for the global blocks, z for one row's local ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..data.tables import Row, Rows, as_columns, length, missing_column, numeric, require
from ..errors import InvalidData, InvalidModel, LrvbError
from ..numerics.double import in_double
from ..numerics.fingerprint import fingerprint
from ..numerics.program import Program
from .meanfield import MeanField
from .model import Model, asked, join, mean_fields, split

_CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
)


@dataclass(frozen=True)
class Structure:
    """What compiled programs depend on; two problems with equal structure share them."""

    key: Any
    model: Model = field(compare=False)
    alpha: MeanField = field(compare=False)
    local: MeanField = field(compare=False)
    conjugate: bool = field(compare=False, default=True)

    def global_term(self, traced: Any, m: Any) -> Any:
        """The model's global term at a flat m."""
        value = join(self.model, traced).global_term(self.alpha.moments(m))
        return _scalar(value, "global_term")

    def local_term(self, traced: Any, m: Any, z: Any, row: Row | Any) -> Any:
        """The model's local term of one row at flat m and z."""
        model = join(self.model, traced)
        datum = row if model.features is None or not isinstance(row, Row) else model.features(row)
        value = model.local_term(self.alpha.moments(m), self.local.moments(z), datum)
        return _scalar(value, "local_term")


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
def state_problem(model: Model, data: Any) -> Problem:
    """Check the data, lay out the blocks, and make sure that both terms can be traced."""
    if isinstance(model, type):
        raise InvalidModel(f"{model.__name__} is a class; pass an instance, {model.__name__}().")
    if not isinstance(model, Model):
        raise InvalidModel(f"The model is a {type(model).__name__}; subclass lrvb.Model.")
    name, has_local_term = type(model).__name__, _overrides(model, "local_term")
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
    problem = None
    for trace in (True, False):
        key, traced = split(model, trace=trace)
        layout = fingerprint((alpha.blocks, local.blocks, sorted(traced)))
        structure = Structure((key, layout), model, alpha, local)
        problem = Problem(model, structure, traced, rows, columns)
        try:
            problem = _check_terms(problem)
            break
        except _NeedsValue as error:
            # The terms use a number of the model concretely: fix it instead of tracing it.
            if not trace or not traced:
                raise InvalidModel(
                    f"{error.term} of {name} needs the value of a moment or of a row while JAX "
                    f"traces it ({type(error.__cause__).__name__}); use jax.numpy in place of numpy "
                    "and math, and jnp.where in place of if."
                ) from error.__cause__
    assert problem is not None
    return problem


def _overrides(model: Model, method: str) -> bool:
    return method in vars(model) or getattr(type(model), method) is not getattr(Model, method)


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


def _check_terms(problem: Problem) -> Problem:
    """Find and check the columns that the terms use, and see whether z is conjugate."""
    structure, rows = problem.structure, problem.rows
    signature = (structure.key, _signature(rows))
    if signature not in _ANALYSES:
        if len(_ANALYSES) >= 256:
            _ANALYSES.clear()
        _ANALYSES[signature] = _analyse(problem)
    used, conjugate = _ANALYSES[signature]
    if rows is None:
        return problem
    columns = {name: numeric(name, c) for name, c in rows.columns.items() if name in used}
    if not columns:  # a term that reads no data still needs to know how many rows there are
        columns = {"_row": np.zeros(rows.n)}
    checked = Rows(columns, rows.labels, rows.dim, rows.weights)
    key = (structure.key, conjugate, tuple(columns))
    structure = Structure(key, structure.model, structure.alpha, structure.local, conjugate)
    given = {k: v for k, v in (problem.data or {}).items() if k in used or problem.model.columns}
    return Problem(problem.model, structure, problem.traced, checked, given)


#: What tracing has found about terms: the columns they read, and whether they are linear in z.
_ANALYSES: dict[Any, tuple[frozenset[str], bool]] = {}


def _signature(rows: Rows | None) -> Any:
    if rows is None:
        return None
    return tuple(
        (k, str(getattr(c, "dtype", None) or np.asarray(c).dtype), np.shape(c)[1:])
        for k, c in rows.columns.items()
    )


def _analyse(problem: Problem) -> tuple[frozenset[str], bool]:
    """Trace both terms once: which columns they read, and whether ∂ℓ/∂m_z depends on z."""
    structure, rows = problem.structure, problem.rows
    m = jnp.zeros(problem.alpha.size)
    gradient_of_global = jax.grad(structure.global_term, argnums=1)
    _trace("global_term", problem, lambda: jax.eval_shape(gradient_of_global, problem.traced, m))
    if rows is None:
        return frozenset(), True
    used: set[str] = set()
    columns = {name: _ColumnOnDemand(name, column) for name, column in rows.columns.items()}
    row = _RecordingRow(columns, used)

    def gradient(m: Any, z: Any) -> Any:
        return jax.grad(lambda z: structure.local_term(problem.traced, m, z, row))(z)

    z = jnp.zeros(problem.local.size)
    jaxpr = _trace("local_term", problem, lambda: jax.make_jaxpr(gradient)(m, z)).jaxpr
    for name, family in problem.local.blocks.items():
        start = jnp.asarray(family.flatten(family.start(), natural=True))

        def log_partition(flat: Any, family: Any = family) -> Any:
            bound = family.at(row)
            return bound.log_partition(bound.unflatten(flat, natural=True))

        what = f"the log partition of block '{name}'"
        _trace(what, problem, functools.partial(jax.eval_shape, log_partition, start))
    conjugate = not problem.local.size or not _depends(jaxpr, len(jaxpr.invars) - 1)
    return frozenset(used), conjugate


class _ColumnOnDemand:
    """A column of which only a numeric example is taken, when a term asks for it."""

    def __init__(self, name: str, column: Any):
        self.name, self.column = name, column

    def example(self) -> Any:
        return jnp.asarray(numeric(self.name, self.column)[0])


class _RecordingRow(Row):
    """The first row, noting which columns are read."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name).example()


class _NeedsValue(Exception):
    """A term has asked for the value of something that is traced."""

    def __init__(self, term: str):
        self.term = term


def _trace(term: str, problem: Problem, action: Callable[[], Any]) -> Any:
    """Run a user's term under tracing; what it raises is reported with the term's name."""
    try:
        return action()
    except LrvbError:
        raise
    except _CONCRETE as error:
        raise _NeedsValue(term) from error
    except Exception as error:
        hint = ""
        if isinstance(error, AttributeError):
            names = [f"m.{b}.{f}" for b, q in problem.alpha.blocks.items() for f in q.Stats._fields]
            hint = f" The moments are: {', '.join(names)}."
        raise InvalidModel(
            f"{term} of {type(problem.model).__name__} cannot be evaluated "
            f"({type(error).__name__}: {error}).{hint}"
        ) from error


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


def _depends(jaxpr: Any, index: int) -> bool:
    """Whether any output of a jaxpr depends on its input `index`; may say yes too often, never no."""
    needed = {id(v) for v in jaxpr.outvars}
    for equation in reversed(jaxpr.eqns):
        if any(id(v) in needed for v in equation.outvars):
            needed.update(id(v) for v in equation.invars)
    return id(jaxpr.invars[index]) in needed


@functools.lru_cache(maxsize=128)
def global_program(structure: Structure, order: int) -> Program:
    """(traced, η) → q(α) at η, with value, gradient and Hessian of the global term."""

    def at(traced: Any, eta: Any) -> Any:
        q = structure.alpha.evaluate(eta)
        term = functools.partial(structure.global_term, traced)
        value, gradient = jax.value_and_grad(term)(q.m)
        H = jax.hessian(term)(q.m) if order == 2 else jnp.zeros((q.m.size, q.m.size))
        return q, value, gradient, H

    return Program(at)
