"""What a model's data must be: arrays of numbers, whose entries meet their own distribution."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InvalidModel


def require_numbers(site: str, value: Any) -> None:
    """A sentence where what a site observes is a column of a table, a list, or text."""
    if isinstance(value, list | tuple):
        raise InvalidModel(
            f"Site '{site}' observes a {type(value).__name__}; give it as an array: obs=np.array(...)."
        )
    if hasattr(value, "to_numpy"):
        raise InvalidModel(
            f"Site '{site}' observes a {type(value).__name__}, with which JAX cannot compute; give it, and "
            "every other column of a table, as an array: obs=data['column'].to_numpy()."
        )
    kind = getattr(value, "dtype", None)
    if kind is not None and not (isinstance(kind, np.dtype) and kind.kind in "biufc"):
        raise InvalidModel(
            f"Site '{site}' observes values of type {kind}, not numbers; give them as codes, such as "
            "those of pandas.factorize."
        )


def require_shape(site: str, data: tuple[int, ...], stated: tuple[int, ...]) -> None:
    """A sentence where entries would meet the distributions of others.

    Data of one shape and distributions of another are broadcast; (30, 1) and (30,) become (30, 30), each
    entry with every distribution, which is no error to any sampler.
    """
    try:
        both = np.broadcast_shapes(data, stated)
    except ValueError:
        raise InvalidModel(
            f"Site '{site}' observes data of shape {data}, but its distribution has shape {stated}; "
            "give one entry for each."
        ) from None
    if both not in (data, stated):
        raise InvalidModel(
            f"Site '{site}' observes data of shape {data}, but its distribution has shape {stated}: each "
            f"entry would meet every distribution, {both} in all. Give both the same shape."
        )
