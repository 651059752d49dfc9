"""Indices: `m.b.x[row.g]` must point at an entry that is there, for every row.

JAX clamps an index that is too large and counts a negative one from the end, so that groups would
merge in silence. The index of every gather is therefore computed for all rows before any work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.tables import Rows, invalid_value
from ..errors import InvalidModel
from ..numerics.lazy import core, jax, jnp
from ..numerics.program import Program
from .structure import Structure
from .tracing import trace_terms

_CHUNK = 2**16
_INLINED = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
_SHAPED = {
    "convert_element_type",
    "broadcast_in_dim",
    "reshape",
    "squeeze",
    "concatenate",
    "transpose",
}
_SCATTERS = {"scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max", "scatter_add"}


@dataclass(frozen=True)
class _Value:
    """A number known before the fit, the columns it comes from, and what it was before wrapping."""

    now: Any
    columns: frozenset[str] = frozenset()
    raw: Any = None
    below: Any = None  # of a comparison with zero: what was compared

    @property
    def asked(self) -> Any:
        return self.now if self.raw is None else self.raw


@dataclass(frozen=True)
class _Index:
    """One index into an axis: its values, the number of places, and the columns it comes from."""

    values: Any
    places: int
    columns: frozenset[str]


def _followed(
    closed: core.ClosedJaxpr, inputs: list[_Value | None]
) -> tuple[list[_Value | None], list[_Index]]:
    """What a function gives from the inputs that are known, and every index that they decide."""
    known: dict[Any, _Value] = {}
    found: list[_Index] = []

    def read(v: Any) -> _Value | None:
        return _Value(v.val) if isinstance(v, core.Literal) else known.get(v)

    jaxpr = closed.jaxpr
    for v, constant in zip(jaxpr.constvars, closed.consts, strict=True):
        known[v] = _Value(constant)
    for v, value in zip(jaxpr.invars, inputs, strict=True):
        if value is not None:
            known[v] = value
    for equation in jaxpr.eqns:
        values = [read(v) for v in equation.invars]
        inner = equation.params.get(_INLINED.get(equation.primitive.name))
        if isinstance(inner, core.ClosedJaxpr):
            outcome, more = _followed(inner, values)
        elif equation.primitive.name in _LOOPS:
            outcome, more = (
                [None] * len(equation.outvars),
                _LOOPS[equation.primitive.name](equation.params, values),
            )
        else:
            outcome, more = _computed(equation, values), _at(equation, values)
        found += more
        known.update({v: o for v, o in zip(equation.outvars, outcome, strict=True) if o})
    return [read(v) for v in jaxpr.outvars], found


def _in_scan(params: Any, values: list[_Value | None]) -> list[_Index]:
    """The indices of all steps of a scan; what is carried from one to the next is not known."""
    fixed, carried = params["num_consts"], params["num_carry"]
    steps = values[fixed + carried :]
    found: list[_Index] = []

    def step(slices: list[Any]) -> list[Any]:
        given = iter(slices)
        each = [None if v is None else _Value(next(given), v.columns) for v in steps]
        inputs = [*values[:fixed], *[None] * carried, *each]
        found[:] = _followed(params["jaxpr"], inputs)[1]
        return [jnp.asarray(index.values) for index in found]

    known = [v.asked for v in steps if v is not None]
    stacked = jax.vmap(step)(known) if known else step([])
    return [replace(i, values=v) for i, v in zip(found, stacked, strict=True)]


def _in_while(params: Any, values: list[_Value | None]) -> list[_Index]:
    """The indices that a loop takes from what does not change in it."""
    of_test, of_body = params["cond_nconsts"], params["body_nconsts"]
    carried: list[_Value | None] = [None] * (len(values) - of_test - of_body)
    test = _followed(params["cond_jaxpr"], [*values[:of_test], *carried])[1]
    body = values[of_test : of_test + of_body]
    return test + _followed(params["body_jaxpr"], [*body, *carried])[1]


def _in_branches(params: Any, values: list[_Value | None]) -> list[_Index]:
    """The indices of each branch where it is taken; where that is decided by q nothing is known."""
    which, *given = values
    if which is None:
        return []
    found = []
    for b, branch in enumerate(params["branches"]):
        taken = jnp.asarray(which.asked) == b
        for index in _followed(branch, list(given))[1]:
            inside = jnp.where(taken, jnp.asarray(index.values), 0)
            found.append(replace(index, values=inside, columns=index.columns | which.columns))
    return found


_LOOPS = {"scan": _in_scan, "while": _in_while, "cond": _in_branches}


def _computed(equation: Any, values: list[_Value | None]) -> list[_Value | None]:
    """The results of one operation, where all that it needs is known."""
    if any(value is None for value in values) or equation.effects:
        return [None] * len(equation.outvars)
    given = [value for value in values if value is not None]
    columns = frozenset().union(*(value.columns for value in given))

    def apply(*arguments: Any) -> list[Any]:
        result = equation.primitive.bind(*arguments, **equation.params)
        return list(result) if equation.primitive.multiple_results else [result]

    outcome = apply(*(value.now for value in given))
    name = equation.primitive.name
    raw, below = None, None
    if name == "lt" and not np.ndim(given[1].now) and _is_zero(given[1].now):
        below = given[0].asked
    if name == "select_n" and given[0].below is not None:
        raw = given[0].below  # JAX's own wrapping of a negative index: what was asked for
    elif name in _SHAPED and any(value.raw is not None for value in given):
        raw = apply(*(value.asked for value in given))[0]
    return [_Value(one, columns, raw, below) for one in outcome]


def _is_zero(value: Any) -> bool:
    return not isinstance(value, jax.core.Tracer) and bool(np.asarray(value) == 0)


def _at(equation: Any, values: list[_Value | None]) -> list[_Index]:
    """The indices of an operation that reads or writes at places of an array."""
    name, params = equation.primitive.name, equation.params
    shape = equation.invars[0].aval.shape if equation.invars else ()
    if name == "dynamic_slice":
        places = [n - s + 1 for n, s in zip(shape, params["slice_sizes"], strict=True)]
        pairs = zip(values[1:], places, strict=True)
        return [_Index(v.asked, n, v.columns) for v, n in pairs if v is not None]
    index = values[1] if len(values) > 1 else None
    if index is None or not (name == "gather" or name in _SCATTERS):
        return []
    numbers = params["dimension_numbers"]
    if name == "gather":
        fill = params.get("fill_value")
        if fill is not None and not np.isnan(fill):
            return []  # the user has said what stands for a place that is not there
        axes, widths = numbers.start_index_map, params["slice_sizes"]
    else:
        axes, widths = numbers.scatter_dims_to_operand_dims, [1] * len(shape)
    return [
        _Index(index.asked[..., i], shape[axis] - widths[axis] + 1, index.columns)
        for i, axis in enumerate(axes)
    ]


@dataclass(frozen=True)
class _Check:
    """The indices of a model's terms: whence each comes, and a program that looks at all rows."""

    places: tuple[int, ...]
    columns: tuple[tuple[str, ...], ...]
    program: Program


#: For each structure's key, the checks of the global and of the local term; None where nothing
#: is indexed by something known.
_CHECKS: dict[Any, tuple[_Check | None, _Check | None]] = {}


def check_indices(
    structure: Structure, numbers: Mapping[str, np.ndarray], rows: Rows | None
) -> None:
    """Every index that a term takes from the data, or from the model, is inside its array."""
    if structure.key not in _CHECKS:
        if len(_CHECKS) >= 256:
            _CHECKS.clear()
        traced = trace_terms(structure)
        _CHECKS[structure.key] = (
            _check_of(structure, traced.global_term, rowwise=False),
            _check_of(structure, traced.local_term, rowwise=True) if rows is not None else None,
        )
    of_all, of_rows = _CHECKS[structure.key]
    if of_all is not None:
        _require_inside(structure, of_all, of_all.program(dict(numbers), {}), {}, 0)
    if of_rows is not None and rows is not None:
        for start in range(0, rows.n, _CHUNK):
            part = {k: np.asarray(c[start : start + _CHUNK]) for k, c in rows.columns.items()}
            outside = of_rows.program(dict(numbers), part)
            _require_inside(structure, of_rows, outside, part, start)


def _check_of(structure: Structure, closed: core.ClosedJaxpr, *, rowwise: bool) -> _Check | None:
    """The check of one term, by following the numbers that are known before the fit."""
    found: list[_Index] = []

    def follow(numbers: Any, row: Any) -> Any:
        known = [_Value(v) for v in jax.tree.leaves(numbers)]
        unknown: list[_Value | None] = [None] * (len(closed.jaxpr.invars) - len(known) - len(row))
        columns = [_Value(row[name], frozenset({name})) for name in sorted(row)]
        _, indices = _followed(closed, [*known, *unknown, *columns])
        found[:] = [i for i in indices if _is_whole(i.values)]
        return [_outside(i) for i in found]

    function = jax.vmap(follow, (None, 0)) if rowwise else follow
    numbers = dict(structure.numbers)
    columns = {
        name: jax.ShapeDtypeStruct((2, *s.shape), s.dtype) for name, s in structure.columns.items()
    }
    jax.eval_shape(function, numbers, columns if rowwise else {})
    if not found:
        return None
    places = tuple(i.places for i in found)
    whence = tuple(tuple(sorted(i.columns)) for i in found)
    return _Check(places, whence, Program(function))


def _is_whole(values: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(values), jnp.integer))


def _outside(index: _Index) -> tuple[Any, Any]:
    """Whether an index lies outside, and the first of its values that does.

    A negative one that is written in the model counts from the end, as in Python.
    """
    values = jnp.ravel(jnp.asarray(index.values))
    least = 0 if index.columns else -index.places
    bad = (values < least) | (values >= index.places)
    return bad.any(), values[jnp.argmax(bad)] if values.size else jnp.zeros((), values.dtype)


def _require_inside(
    structure: Structure, check: _Check, outside: Any, part: Mapping[str, np.ndarray], start: int
) -> None:
    for places, columns, (bad, values) in zip(check.places, check.columns, outside, strict=True):
        bad, values = np.atleast_1d(np.asarray(bad)), np.atleast_1d(np.asarray(values))
        if not bad.any():
            continue
        first = int(np.argmax(bad))
        index = int(values[first])
        if not columns:
            raise InvalidModel(
                f"A term of {type(structure.model).__name__} asks for entry {index} of {places}; "
                f"indices run from 0 to {places - 1}.",
                index=index,
            )
        whole = [name for name in columns if part[name].dtype.kind in "iub"]
        name = (whole or list(columns))[0]
        value = part[name][first]
        same = np.ndim(value) == 0 and value == index
        raise invalid_value(
            name,
            (start + first,),
            value,
            ("is" if same else f"gives {index},")
            + f" an index into {places} entries, which run from 0 to {places - 1}",
            "Number the groups from 0, or give the block more copies",
        )
