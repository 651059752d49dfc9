"""A log density on ℝᴰ with names: all that the methods here know of a model, whoever states it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InvalidModel, LrvbError
from ..numerics.double import in_double
from ..numerics.lazy import jax, jnp

LIKELIHOOD = "likelihood"


@dataclass(frozen=True, eq=False)
class Density:
    """log p up to a constant at points of ℝᴰ, and the named values that such a point stands for.

    `log_density` maps x (D,) to a number and `values` to named arrays, both in jax.numpy. `starts`
    (n, D) are points to search from and `coordinates` the names of the D entries of x. `dims` and
    `coords` are those of the model, `observed` its data, `source` what it is called in sentences. `parts`
    maps x to the log density of the data, "likelihood", and of every site's prior, without Jacobians;
    `entries` to the log densities of each observed site's entries.
    """

    log_density: Callable[[Any], Any]
    values: Callable[[Any], Mapping[str, Any]]
    starts: np.ndarray
    coordinates: tuple[str, ...]
    source: str
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    coords: Mapping[str, list[Any]] = field(default_factory=dict)
    observed: Mapping[str, Any] | None = None
    parts: Callable[[Any], Mapping[str, Any]] | None = None
    entries: Callable[[Any], Mapping[str, Any]] | None = None

    @property
    def size(self) -> int:
        """D."""
        return len(self.coordinates)

    def with_functions(self, functions: Mapping[str, Callable[[Any], Any]] | None) -> Density:
        """The same with functions of the named values beside them."""
        if functions is None:
            return self
        if not isinstance(functions, Mapping) or not all(
            isinstance(name, str) and callable(f) for name, f in functions.items()
        ):
            raise InvalidModel(
                f"functions={functions!r} must map names to functions of the model's values, such as "
                '{"ratio": lambda v: v["a"] / v["b"]}.'
            )
        known = self.shapes()
        for name in functions:
            if name in known:
                raise InvalidModel(f"functions has '{name}', which the model has already.")

        def values(x: Any) -> Mapping[str, Any]:
            found = dict(self.values(x))
            return found | {name: _applied(name, f, found) for name, f in functions.items()}

        return replace(self, values=values)

    @in_double
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every named value."""
        names: list[str] = []  # in the model's order, which a traced dictionary would lose

        def every(x: Any) -> list[Any]:
            found = self.values(x)
            names[:] = list(found)
            return [jnp.asarray(value) for value in found.values()]

        traced = _traced(every, self.size, f"The values of {self.source}")
        found = dict(zip(names, traced, strict=True))
        for name, value in found.items():
            if not np.issubdtype(value.dtype, np.number) and value.dtype != bool:
                raise InvalidModel(f"'{name}' is of {value.dtype}, not of numbers.")
            if np.issubdtype(value.dtype, np.complexfloating):
                raise InvalidModel(f"'{name}' is complex; give its real and imaginary parts.")
        return {name: tuple(value.shape) for name, value in found.items()}


def _traced(f: Callable[[Any], Any], size: int, what: str) -> Any:
    """Shapes of f at x (D,); what it raises is told in one sentence."""
    try:
        return jax.eval_shape(f, jax.ShapeDtypeStruct((size,), jnp.float64))
    except LrvbError:
        raise
    except Exception as error:
        raise InvalidModel(
            f"{what} could not be computed: {type(error).__name__}: {first_line(error)} "
            "They must be written in jax.numpy, without NumPy's functions or `if` on values."
        ) from error


def told(error: Exception) -> str:
    """What was raised, in a sentence, and the remedy where JAX met code that is not for it."""
    text = f"raised {type(error).__name__}: {first_line(error)}"
    foreign = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)
    if isinstance(error, foreign):
        text += (
            " Write it in jax.numpy: functions of NumPy, SciPy, pandas or math, and `if` or `while` on a "
            "value, cannot be differentiated; jax.numpy.where takes the place of `if`, and column.to_numpy() "
            "that of a table's column."
        )
    return text


def first_line(error: BaseException) -> str:
    """The first line of what an error says, with a full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else "no message"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _applied(name: str, f: Callable[[Any], Any], found: Mapping[str, Any]) -> Any:
    try:
        return jnp.asarray(f(dict(found)))
    except Exception as error:
        raise InvalidModel(
            f"functions['{name}'] {told(error)} It is called with a dictionary "
            f"of the model's values: {', '.join(list(found)[:8])}."
        ) from error
