"""Model: what a user states. Blocks of the posterior, and two expectations in mean parameters."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..data.tables import Rows
from ..errors import InvalidModel, LrvbError
from ..families.base import Family
from ..numerics.fingerprint import attributes
from ..numerics.lazy import jax
from .meanfield import MeanField


class Model:
    """L(m) = global_term(m) + Σ_n local_term(m, z_n, row_n), everything in mean parameters.

    `global_blocks` and `local_blocks` map names to families; either may instead be a method
    `(self, rows)` when sizes depend on the data. Numbers and arrays stored on the model are traced
    by JAX, so that models which differ only in them share one compilation.

    Instead of an expectation, log p itself may be stated: `log_prior(self, t)` for `global_term`, and
    `log_row(self, t, z, row)` for `local_term`.
    """

    global_blocks: Any = {}
    local_blocks: Any = {}
    #: Columns the model reads; None lets the engine find out from `local_term` itself.
    columns: tuple[str, ...] | None = None
    #: φ(row), shape (F,), for models whose local_term is linear in z and in features of the row:
    #: local_term then receives φ in place of the row, and row sums become weighted Gram matrices.
    features: Any = None
    #: Whether `prepare` treats each row by itself, so that columns too large for memory may be
    #: prepared a part at a time. True for those who leave `prepare` as it is.
    prepares_rows: bool = False

    def global_term(self, m: Any) -> Any:
        """E_q of the log prior, and of anything else that is not per row."""
        return 0.0

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E_q of one row's log density, from moments only."""
        return 0.0

    #: log p of everything that is not per row, `(self, t)`, and of one row, `(self, t, z, row)`, in the
    #: raw variables (`t.beta`, `z.u`): in place of the terms above, whose expectations are then derived.
    log_prior: Any = None
    log_row: Any = None

    def elsewhere(
        self, params: Mapping[str, Any], rows: Rows | None
    ) -> Sequence[Mapping[str, Any]]:
        """Usual parameters of the global blocks from which fits may find optima far from those `params`.

        A certificate looks there too; by default it has only its own far starts.
        """
        return ()

    def prepare(self, data: Mapping[str, Any]) -> Mapping[str, Any] | Rows:
        """The rows of the model's plate from the user's columns; by default they are the rows."""
        return data


def overrides(model: Model, method: str) -> bool:
    """Whether a model states this method itself."""
    return method in vars(model) or getattr(type(model), method) is not getattr(Model, method)


def derived(model: Model, term: str) -> bool:
    """Whether a term is to be derived from log p: where that is stated, and the term is not."""
    stated = {"global_term": "log_prior", "local_term": "log_row"}[term]
    return getattr(model, stated) is not None and not overrides(model, term)


def mean_fields(model: Model, rows: Rows | None) -> tuple[MeanField, MeanField]:
    """The products of global and of local blocks, with the sizes that the data ask for."""
    name = type(model).__name__
    fields = []
    for kind in ("global_blocks", "local_blocks"):
        blocks = getattr(model, kind)
        if callable(blocks):
            blocks = asked(f"{kind} of {name}", blocks, rows)
        if not isinstance(blocks, Mapping):
            raise InvalidModel(f"{kind} of {name} is {blocks!r}; it must map names to families.")
        for block in blocks:
            if not isinstance(block, str) or not block:
                raise InvalidModel(f"{kind} of {name} has the key {block!r}; a name must be text.")
        fields.append(MeanField(blocks))
    alpha, local = fields
    if not alpha.blocks:
        raise InvalidModel(
            f'{name} has no global_blocks; name at least one, such as {{"beta": lrvb.Normal()}}.'
        )
    both = set(alpha.blocks) & set(local.blocks)
    if both:
        raise InvalidModel(f"Block '{both.pop()}' is both global and local; rename one of them.")
    repeated = [q for q, n in Counter(alpha.names()).items() if q is not None and n > 1]
    if repeated:
        raise InvalidModel(f"Two blocks have a quantity '{repeated[0]}'; rename one of the blocks.")
    for block, family in local.blocks.items():
        if len(local.blocks) == 1 and block in family.Stats._fields:
            raise InvalidModel(
                f"Local block '{block}' is named like its own moment, so that z.{block} could mean "
                "either; rename the block."
            )
    return alpha, local


def asked(what: str, method: Callable[[Any], Any], argument: Any) -> Any:
    """What a model's own method answers; an error of its own is reported with the method's name."""
    try:
        return method(argument)
    except LrvbError:
        raise
    except Exception as error:
        raise InvalidModel(f"{what} failed ({type(error).__name__}: {error}).") from error


def split(model: Model, *, trace: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is fixed in a model's attributes, and the numbers that are traced.

    Floats and arrays on the instance, in slots too, are traced; anything else is fixed.
    """
    fixed, traced = {}, {}
    for name, value in sorted((attributes(model) or {}).items()):
        number = isinstance(value, float | np.floating | np.ndarray | jax.Array)
        if trace and number and np.asarray(value).dtype.kind in "biuf":
            traced[name] = np.asarray(value)
        else:
            fixed[name] = value
    return fixed, traced


def join(model: Model, traced: Mapping[str, Any]) -> Model:
    """A copy of the model with its numbers replaced by traced ones."""
    joined = copy.copy(model)
    for name, value in traced.items():
        object.__setattr__(joined, name, value)
    return joined


__all__ = ["Family", "Model", "asked", "derived", "join", "mean_fields", "overrides", "split"]
