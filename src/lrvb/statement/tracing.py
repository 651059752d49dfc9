"""Tracing: the two terms and the families' own functions as JAX sees them, and a key made of that.

Compilation bakes in whatever a model has read: attributes, closures, modules, other classes. So a
model is traced at every fit, and programs are shared by their jaxprs. Models and families of this
package read nothing but their own attributes, which are their key without tracing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..data.tables import Row
from ..errors import InvalidModel, LrvbError
from ..families.base import Family
from ..numerics.fingerprint import Digest, fingerprint, is_plain
from ..numerics.lazy import jax, jnp
from .expectation import specs
from .model import derived, split
from .structure import Structure


def _concrete() -> tuple[type[Exception], ...]:
    """What JAX raises where a traced value is asked for a number."""
    errors = jax.errors
    return (
        errors.ConcretizationTypeError,
        errors.TracerArrayConversionError,
        errors.TracerBoolConversionError,
        errors.TracerIntegerConversionError,
    )


class Traced(NamedTuple):
    """The terms as jaxprs of (numbers, m) and of (numbers, m, z, row), and the key of it all."""

    key: Any
    global_term: Any
    local_term: Any
    used: frozenset[str]


class NeedsValue(Exception):
    """A term has asked for the value of something that is traced."""

    def __init__(self, term: str):
        self.term = term


def spec(value: Any) -> jax.ShapeDtypeStruct:
    """Shape and type of an array."""
    return jax.ShapeDtypeStruct(np.shape(value), value.dtype)


def key_of(structure: Structure) -> Any:
    """The key of a model and its families as they are now."""
    own = own_attributes(structure)
    return own_key(structure, own) if own is not None else trace_terms(structure).key


def own_key(structure: Structure, own: Any) -> Any:
    """The key of a model and families of this package, from `own_attributes`."""
    return own, layout(structure)


def own_attributes(structure: Structure) -> Any:
    """What a model and families of this package hold, hashable; None of others."""
    model = structure.model
    fixed, _ = split(model, trace=bool(structure.numbers))
    blocks = (structure.alpha.blocks, structure.local.blocks)
    if not (is_plain(type(model)) and is_plain(fixed) and all(map(is_plain, blocks))):
        return None
    return type(model), fingerprint(fixed), fingerprint(blocks)


def layout(structure: Structure) -> Any:
    """Names, shapes and types of the traced numbers and of a row's columns."""
    return tuple(
        tuple((name, s.shape, str(s.dtype)) for name, s in specs.items())
        for specs in (structure.numbers, structure.columns)
    )


def trace_terms(structure: Structure) -> Traced:
    """Both terms and the user's own families, traced anew with abstract numbers, moments and rows."""
    digest = Digest()
    used: set[str] = set()
    m, z = structure.alpha.specs(), structure.local.specs()
    numbers, columns = structure.numbers, dict(structure.columns)

    # Functions are made anew each time: JAX remembers what an old one has done.
    def global_term(numbers: Any, m: Any) -> Any:
        return structure.global_term(numbers, m)

    if derived(structure.model, "global_term"):

        def log_prior(numbers: Any, values: Any) -> Any:
            return structure.log_prior(numbers)(values)

        variables = specs(structure.alpha.blocks)
        of_all = _traced(structure, "log_prior", log_prior, numbers, variables)
    else:
        of_all = _traced(structure, "global_term", global_term, numbers, m)
    of_row = _row_term(structure, used)
    digest.add(of_all)
    digest.add(of_row)
    digest.text(sorted(structure.plans.items()))
    if digest.custom:  # rules of differentiation are seen in the derivatives only

        def second(term: Callable[[Any], Any], at: Any) -> Any:
            return jax.jvp(jax.grad(term), (at,), (at,))

        def second_of_all(numbers: Any, at: Any) -> Any:
            if derived(structure.model, "global_term"):
                return second(structure.log_prior(numbers), at)
            return second(functools.partial(structure.global_term, numbers), at)

        def second_of_row(numbers: Any, at: Any, row: Any) -> Any:
            if derived(structure.model, "local_term"):
                return second(structure.log_row((numbers, structure.row(row))), at)
            own = structure.row(row, used)
            return second(lambda both: structure.local_term(numbers, both[0], both[1], own), at)

        at = specs(structure.alpha.blocks) if derived(structure.model, "global_term") else m
        both = structure.alpha.blocks | structure.local.blocks
        of_both = specs(both) if derived(structure.model, "local_term") else (m, z)
        digest.add(_traced(structure, "global_term", second_of_all, numbers, at))
        digest.add(_traced(structure, "local_term", second_of_row, numbers, of_both, columns))
    if structure.model.features is not None:

        def features(numbers: Any, row: Any) -> Any:
            return structure.features(numbers, structure.row(row))

        digest.add(_traced(structure, "features", features, numbers, columns))
    families = []
    for name, family in (*structure.alpha.blocks.items(), *structure.local.blocks.items()):
        plain = is_plain(family)
        families.append((name, fingerprint(family) if plain else (type(family).__qualname__)))
        if not plain or (name in structure.local.blocks and not is_the_same_for_every_row(family)):
            _add_family(structure, digest, name, family, used)
    key = (digest.hexdigest(), tuple(families), layout(structure))
    return Traced(key, of_all, of_row, frozenset(used))


def _row_term(structure: Structure, used: set[str]) -> Any:
    """The term of a row, traced anew; the columns that it reads are added to `used`."""
    numbers, columns = structure.numbers, dict(structure.columns)
    if derived(structure.model, "local_term"):

        def log_row(numbers: Any, values: Any, row: Any) -> Any:
            return structure.log_row((numbers, structure.row(row, used)))(values)

        variables = specs(structure.alpha.blocks | structure.local.blocks)
        return _traced(structure, "log_row", log_row, numbers, variables, columns)

    def local_term(numbers: Any, m: Any, z: Any, row: Any) -> Any:
        return structure.local_term(numbers, m, z, structure.row(row, used))

    m, z = structure.alpha.specs(), structure.local.specs()
    return _traced(structure, "local_term", local_term, numbers, m, z, columns)


def _add_family(
    structure: Structure, digest: Digest, name: str, family: Family, used: set[str]
) -> None:
    """All of a family that is compiled: A, m, C, S and the domain at η, and the start.

    A family of this package derives them itself from the likelihood that it was given.
    """
    columns = dict(structure.columns)

    def bound(row: Any) -> Any:
        local = name in structure.local.blocks
        return family.at(structure.row(row, used)) if local else family

    def evaluate(flat: Any, row: Any) -> Any:
        q = bound(row)
        eta = q.unflatten(flat, natural=True)
        A, m, C, S = q.evaluate(eta)
        return A, q.flatten(m), C, S, q.valid(eta)

    def likelihood(z: Any, row: Any) -> Any:
        return bound(row).log_likelihood(z)

    def curvature(z: Any, row: Any) -> Any:
        return jax.jvp(jax.grad(lambda z: likelihood(z, row)), (z,), (z,))

    digest.text(family.batch, [(s.shape, s.symmetric, s.label) for s in family.slots])
    digest.text(np.asarray(family.flatten(family.start(), natural=True)).tolist())
    what = f"the log partition of block '{name}'"
    if is_plain(type(family)) and hasattr(family, "log_likelihood"):
        held = {k: v for k, v in vars(family).items() if k != "log_likelihood"}
        digest.text(sorted(held.items()))
        z = jax.ShapeDtypeStruct((), np.dtype(np.float64))
        digest.add(_traced(structure, what, likelihood, z, columns))
        if digest.custom:
            digest.add(_traced(structure, what, curvature, z, columns))
    else:
        digest.add(_traced(structure, what, evaluate, _flat(family.size), columns))


def _flat(size: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((size,), np.dtype(np.float64))


def _traced(structure: Structure, what: str, function: Callable[..., Any], *args: Any) -> Any:
    return attempt(structure, what, lambda: jax.make_jaxpr(function)(*args))


def columns_read(structure: Structure, columns: Mapping[str, Callable[[], Any]]) -> frozenset[str]:
    """Names of the columns that the term of a row and its families read; each gives an example row."""
    used: set[str] = set()
    row = _RecordingRow(columns, used)
    m, z = jnp.zeros(structure.alpha.size), jnp.zeros(structure.local.size)

    def term() -> Any:
        # A new function each time: JAX remembers what an old one has done.
        return jax.eval_shape(lambda n, m, z: structure.local_term(n, m, z, row), *arguments)

    def log_row() -> Any:
        variables = specs(structure.alpha.blocks | structure.local.blocks)
        return jax.eval_shape(lambda n, v: structure.log_row((n, row))(v), arguments[0], variables)

    arguments = (structure.numbers, m, z)
    if derived(structure.model, "local_term"):
        attempt(structure, "log_row", log_row)
    else:
        attempt(structure, "local_term", term)
    for name, family in structure.local.blocks.items():

        def log_partition(flat: Any, family: Any = family) -> Any:
            bound = family.at(row)
            return bound.log_partition(bound.unflatten(flat, natural=True))

        what = f"the log partition of block '{name}'"
        start = jnp.asarray(family.flatten(family.start(), natural=True))
        attempt(structure, what, functools.partial(jax.eval_shape, log_partition, start))
    return frozenset(used)


class _RecordingRow(Row):
    """An example row, noting which columns are read."""

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name)()


def is_the_same_for_every_row(family: Family) -> bool:
    """Whether a family's base measure is the same for all rows."""
    return type(family).at is Family.at and "at" not in vars(family)


def require_differentiable(structure: Structure) -> None:
    """The global term has a gradient."""
    gradient = jax.grad(lambda m, numbers: structure.global_term(numbers, m))
    m = _flat(structure.alpha.size)
    attempt(structure, "global_term", lambda: jax.eval_shape(gradient, m, structure.numbers))


def is_conjugate(structure: Structure) -> bool:
    """Whether ∂ℓ/∂m_z does not depend on z."""
    if not structure.local.size:
        return True

    def gradient(numbers: Any, m: Any, row: Any, z: Any) -> Any:
        return jax.grad(lambda z: structure.local_term(numbers, m, z, structure.row(row)))(z)

    m, z = _flat(structure.alpha.size), _flat(structure.local.size)
    columns = dict(structure.columns)
    jaxpr = _traced(structure, "local_term", gradient, structure.numbers, m, columns, z).jaxpr
    return id(jaxpr.invars[-1]) not in _needed(jaxpr)


def numbers_read(structure: Structure) -> frozenset[str]:
    """The numbers of the model on which the term of a row may depend; traced once for a structure."""
    if numbers_read not in structure.programs:
        inputs = _row_term(structure, set()).jaxpr
        needed = _needed(inputs)
        names = zip(sorted(structure.numbers), inputs.invars, strict=False)
        structure.programs[numbers_read] = frozenset(name for name, v in names if id(v) in needed)
    return structure.programs[numbers_read]


def _needed(jaxpr: Any) -> set[int]:
    """The variables on which outputs of a jaxpr depend; may be too many, never too few."""
    needed = {id(v) for v in jaxpr.outvars}
    for equation in reversed(jaxpr.eqns):
        if any(id(v) in needed for v in equation.outvars):
            needed.update(id(v) for v in equation.invars)
    return needed


def attempt(structure: Structure, term: str, action: Callable[[], Any]) -> Any:
    """Run a user's term under tracing; what it raises is reported with the term's name."""
    try:
        return action()
    except LrvbError:
        raise
    except _concrete() as error:
        raise NeedsValue(term) from error
    except Exception as error:
        hint = ""
        if isinstance(error, AttributeError):
            hint = _hint(structure, term)
        raise InvalidModel(
            f"{term} of {type(structure.model).__name__} cannot be evaluated "
            f"({type(error).__name__}: {error}).{hint}"
        ) from error


def _hint(structure: Structure, term: str) -> str:
    """What a term may ask for."""
    if term in ("log_prior", "log_row"):
        names = [f"t.{b}" for b in structure.alpha.blocks]
        names += [f"z.{b}" for b in structure.local.blocks] if term == "log_row" else []
        return f" The variables are: {', '.join(names)}."
    return f" The moments are: {', '.join(_moments(structure, term))}."


def _moments(structure: Structure, term: str) -> list[str]:
    """The names by which a term may ask for moments."""
    names = [f"m.{b}.{f}" for b, q in structure.alpha.blocks.items() for f in q.Stats._fields]
    if term == "global_term":
        return names
    local = structure.local.blocks
    only = len(local) == 1
    return names + [
        f"z.{f}" if only else f"z.{b}.{f}" for b, q in local.items() for f in q.Stats._fields
    ]
