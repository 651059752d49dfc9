"""Estimate: names, m, V, Σ̂ and supports. All that a posterior is made of, whoever made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..engine.functions import covariance, covariance_of
from ..engine.response import Response
from ..errors import InvalidModel
from ..numerics.lazy import jnp
from ..statement.meanfield import MeanField, Moments
from .blocks import Block, FamilyBlock, Support


@dataclass(frozen=True, eq=False)
class Estimate:
    """Statistics of named blocks, flat and one after another.

    Means m (a,), mean-field covariance V and linear-response covariance Σ̂ (a, a); of every
    coordinate its label (None where it is not reported by name) and its support.
    """

    blocks: Mapping[str, Block]
    m: np.ndarray
    V: np.ndarray
    Sigma: np.ndarray
    labels: tuple[str | None, ...]
    supports: tuple[Support, ...]

    def __post_init__(self) -> None:
        a = sum(block.size for block in self.blocks.values())
        for name, shape in {"m": (a,), "V": (a, a), "Sigma": (a, a)}.items():
            found = getattr(self, name).shape
            if found != shape:
                raise ValueError(f"{name} has shape {found}, not {shape}")
        if not len(self.labels) == len(self.supports) == a:
            raise ValueError(f"there must be {a} labels and supports")

    @classmethod
    def of_blocks(
        cls,
        blocks: Mapping[str, Block],
        m: np.ndarray,
        V: np.ndarray,
        Sigma: np.ndarray,
        labels: Sequence[str | None] | None = None,
    ) -> Estimate:
        """The estimate with the blocks' own supports and, unless others are given, their own names."""
        names = _plain_names(blocks)
        supports: list[Support] = []
        for block in blocks.values():
            start = len(supports)
            supports += [support.moved(start) for support in block.supports()]
        return cls(
            dict(blocks), m, V, Sigma, tuple(names if labels is None else labels), tuple(supports)
        )

    # ---- coordinates ----------------------------------------------------------------------

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The flat coordinates of every block."""
        found, start = {}, 0
        for name, block in self.blocks.items():
            found[name] = slice(start, start + block.size)
            start += block.size
        return found

    @cached_property
    def index(self) -> dict[str, int]:
        """The flat coordinate of every label."""
        return {label: i for i, label in enumerate(self.labels) if label is not None}

    @cached_property
    def logarithms(self) -> np.ndarray:
        """Coordinates whose label is the logarithm, or log determinant, of what their block holds.

        A coefficient of a column `log(x)` is none, because it is one of a block of another name.
        """
        found = []
        for name, place in self.slices.items():
            for i in range(place.start, place.stop):
                kind, opened, inside = (self.labels[i] or "").partition("(")
                own = name == self.labels[i] or name == inside.rstrip(")").partition("[")[0]
                if opened and kind in ("log", "logdet") and own:
                    found.append(i)
        return np.array(found, dtype=int)

    def plain_names(self) -> list[str | None]:
        """The blocks' own names of every coordinate, whatever the labels are."""
        return _plain_names(self.blocks)

    # ---- moments and functions ------------------------------------------------------------

    def moments(self, m: Any) -> Moments:
        """Named moments of a flat vector."""
        named = {name: block.moments(m[self.slices[name]]) for name, block in self.blocks.items()}
        return Moments(named, next(iter(named)) if len(named) == 1 else None)

    def covariance(self, method: str = "lrvb") -> np.ndarray:
        """Σ̂ for "lrvb", V for "mfvb"."""
        if not isinstance(method, str):
            raise InvalidModel(f"method={method!r} must be text, 'lrvb' or 'mfvb'.")
        return covariance(self, method)

    def of(
        self, f: Callable[[Any], Any], g: Callable[[Any], Any] | None = None, method: str = "lrvb"
    ) -> Any:
        """Covariance ∇fᵀ Σ̂ ∇g of quantities with E_q[φ] = f(m) and E_q[γ] = g(m); see `Response.of`."""
        return covariance_of(self, f, g, method)

    def flat(self, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function of named moments as one of flat moments, with a flat value."""
        return lambda m: jnp.ravel(jnp.asarray(f(self.moments(m)), dtype=jnp.float64))

    # ---- the families among the blocks ----------------------------------------------------

    @cached_property
    def alpha(self) -> MeanField:
        """The product of the families among the blocks."""
        return MeanField({name: block.family for name, block in self._families.items()})

    @property
    def eta(self) -> np.ndarray:
        """Their natural parameters."""
        return np.concatenate([np.zeros(0), *(block.eta for block in self._families.values())])

    @property
    def family_coordinates(self) -> np.ndarray:
        """Where the families' coordinates are among all."""
        every = np.arange(len(self.m))
        parts = [every[self.slices[name]] for name in self._families]
        return np.concatenate([every[:0], *parts])

    @property
    def _families(self) -> dict[str, FamilyBlock]:
        return {name: b for name, b in self.blocks.items() if isinstance(b, FamilyBlock)}


def estimate_of(response: Response) -> Estimate:
    """The estimate in the coordinates of a fit."""
    alpha, eta = response.alpha, response.eta
    blocks = {
        name: FamilyBlock(family, eta[alpha.slices[name]]) for name, family in alpha.blocks.items()
    }
    return Estimate.of_blocks(blocks, response.m, response.V, response.Sigma)


def _plain_names(blocks: Mapping[str, Block]) -> list[str | None]:
    return [label for name, block in blocks.items() for label in block.names(name)]
