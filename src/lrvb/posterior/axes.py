"""Axes: the names that a model gives to the dimensions of its arrays, and to the places along them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Axes(NamedTuple):
    """Dimensions of each block by name, and the labels of some dimensions."""

    dims: Mapping[str, tuple[str, ...]] = {}
    coords: Mapping[str, list[Any]] = {}

    def of(self, name: str, shape: tuple[int, ...], taken: Any) -> tuple[str, ...]:
        """Dimensions of an array of this shape; names that variables have already are told apart."""
        known = self.dims.get(name, ())
        if len(known) != len(shape):
            known = tuple(f"{name}_dim_{i}" for i in range(len(shape)))
        return tuple(f"{dim}_dim" if dim in taken else dim for dim in known)

    def labels(self, sizes: Mapping[Any, int]) -> dict[str, list[Any]]:
        """The labels of dimensions that have so many places."""
        return {
            dim: list(places)
            for dim, places in self.coords.items()
            if sizes.get(dim) == len(places)
        }
