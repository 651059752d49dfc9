"""MeanField: a product of families, with flat η and m and named moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidModel
from ..families.base import Family
from ..numerics.lazy import jax, jnp


class Moments:
    """Named moments of every block: `m.beta.x`, or `m["beta"].x`.

    With `direct` naming a single block, that block's moments are attributes too: `z.x`.
    """

    __slots__ = ("_blocks", "_direct")

    def __init__(self, blocks: Mapping[str, Any], direct: str | None = None):
        self._blocks = dict(blocks)
        self._direct = direct

    def __getitem__(self, name: str) -> Any:
        try:
            return self._blocks[name]
        except KeyError:
            raise AttributeError(
                f"there is no block '{name}'; the blocks are: {', '.join(self._blocks) or 'none'}"
            ) from None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        direct = None if self._direct is None else self._blocks[self._direct]
        if name not in self._blocks and hasattr(direct, name):
            return getattr(direct, name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks)

    def __repr__(self) -> str:
        return f"Moments({', '.join(f'{k}={v!r}' for k, v in self._blocks.items())})"


class Evaluated(NamedTuple):
    """A product family at η: flat mean m, blocks of C with V = CCᵀ, entropy S, domain check."""

    m: Any
    C: Any
    S: Any
    valid: Any


class MeanField:
    """q(θ) = Π_j q(θ_j) over named blocks; flat coordinates are the blocks' one after another."""

    def __init__(self, blocks: Mapping[str, Family]):
        for name, family in blocks.items():
            if not isinstance(family, Family):
                shown = f"the class {family.__name__}" if isinstance(family, type) else repr(family)
                raise InvalidModel(
                    f"Block '{name}' is {shown}; it must be a family such as lrvb.Normal()."
                )
        self.blocks = dict(blocks)
        self.slices: dict[str, slice] = {}
        start = 0
        for name, family in self.blocks.items():
            stop = start + family.copies * family.size
            self.slices[name] = slice(start, stop)
            start = stop
        self.size = start

    def moments(self, m: Any) -> Moments:
        """Named moments from the flat mean vector, or from the statistics of every block."""
        stats = m if isinstance(m, Mapping) else self._unflatten(m, natural=False)
        return Moments(stats, self._direct)

    def specs(self) -> dict[str, Any]:
        """Shape and type of every block's statistics."""
        return {
            name: f.Stats(
                *(
                    jax.ShapeDtypeStruct((*f.batch, *slot.shape), np.dtype(np.float64))
                    for slot in f.slots
                )
            )
            for name, f in self.blocks.items()
        }

    def natural(self, flat: Any) -> dict[str, Any]:
        """Named natural parameters from the flat natural vector."""
        return self._unflatten(flat, natural=True)

    def flat_moments(self, moments: Mapping[str, Any]) -> Any:
        """The flat mean vector of named moments."""
        parts = [f.flatten(moments[name]).reshape(-1) for name, f in self.blocks.items()]
        return jnp.concatenate(parts) if parts else jnp.zeros(0)

    def _unflatten(self, flat: Any, *, natural: bool) -> dict[str, Any]:
        return {
            name: f.unflatten(flat[self.slices[name]].reshape(*f.batch, f.size), natural=natural)
            for name, f in self.blocks.items()
        }

    @property
    def _direct(self) -> str | None:
        return next(iter(self.blocks)) if len(self.blocks) == 1 else None

    def at(self, row: Any) -> MeanField:
        """The same product with every base measure belonging to one row of data."""
        return MeanField({name: family.at(row) for name, family in self.blocks.items()})

    def near(self, eta: Any) -> MeanField:
        """The same product, told that A is asked for at η nearby; copies of a block are not told."""
        blocks = {
            name: f.near(f.unflatten(eta[self.slices[name]], natural=True)) if f.copies == 1 else f
            for name, f in self.blocks.items()
        }
        return MeanField(blocks)

    def start(self) -> np.ndarray:
        """Flat natural parameters of every family's own start."""
        parts = [
            np.tile(np.asarray(f.flatten(f.start(), natural=True)), f.copies)
            for f in self.blocks.values()
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def member(self, m: np.ndarray) -> np.ndarray:
        """Flat natural parameters of the member with these flat moments, NaN where there is none."""
        parts = []
        for name, family in self.blocks.items():

            def one(flat: Any, family: Family = family) -> Any:
                eta = family.natural(family.unflatten(flat))
                return family.flatten(eta, natural=True)

            copies = m[self.slices[name]].reshape(family.copies, family.size)
            parts.append(np.asarray(jax.vmap(one)(copies)).reshape(-1))
        return np.concatenate(parts)

    def evaluate(self, eta: Any) -> Evaluated:
        """Means, covariance factors (one array (copies, size, size) a block) and entropy at η."""
        means, factors = [], {}
        S, valid = jnp.zeros(()), jnp.asarray(True)
        for name, family in self.blocks.items():

            def one(flat: Any, family: Family = family) -> Any:
                eta = family.unflatten(flat, natural=True)
                _, m, C, S = family.evaluate(eta)
                return family.flatten(m), C, S, family.valid(eta)

            copies = eta[self.slices[name]].reshape(family.copies, family.size)
            if family.copies == 1:
                m, C, s, ok = jax.tree.map(lambda leaf: leaf[None], one(copies[0]))
            else:
                m, C, s, ok = jax.vmap(one)(copies)
            means.append(m.reshape(-1))
            factors[name] = C
            S, valid = S + s.sum(), valid & ok.all()
        return Evaluated(jnp.concatenate(means) if means else jnp.zeros(0), factors, S, valid)

    def profile(self, eta: Any) -> tuple[Any, Any, Any]:
        """Flat mean, entropy and domain check at η, as `evaluate` gives them, without the factor C."""
        means = []
        S, valid = jnp.zeros(()), jnp.asarray(True)
        for name, family in self.blocks.items():

            def one(flat: Any, family: Family = family) -> Any:
                m, s, ok = family.profile(family.unflatten(flat, natural=True))
                return family.flatten(m), s, ok

            m, s, ok = jax.vmap(one)(eta[self.slices[name]].reshape(family.copies, family.size))
            means.append(m.reshape(-1))
            S, valid = S + s.sum(), valid & ok.all()
        return jnp.concatenate(means) if means else jnp.zeros(0), S, valid

    def log_partition(self, eta: Any) -> tuple[Any, Any]:
        """A(η) of all blocks together, and whether η lies in their domains."""
        A, valid = jnp.zeros(()), jnp.asarray(True)
        for name, family in self.blocks.items():

            def one(flat: Any, family: Family = family) -> Any:
                eta = family.unflatten(flat, natural=True)
                return family.log_partition(eta), family.valid(eta)

            a, ok = jax.vmap(one)(eta[self.slices[name]].reshape(family.copies, family.size))
            A, valid = A + a.sum(), valid & ok.all()
        return A, valid

    def dense(self, C: Mapping[str, Any]) -> Any:
        """The factor C of all blocks as one block-diagonal matrix."""
        numpy_like = np if all(isinstance(c, np.ndarray) for c in C.values()) else jnp
        if len(C) == 1 and next(iter(C.values())).shape[0] == 1:
            return next(iter(C.values()))[0]
        dense = numpy_like.zeros((self.size, self.size))
        for name, block in C.items():
            start, t = self.slices[name].start, self.blocks[name].size
            for k in range(block.shape[0]):
                here = slice(start + k * t, start + (k + 1) * t)
                if numpy_like is np:
                    dense[here, here] = block[k]
                else:
                    dense = dense.at[here, here].set(block[k])
        return dense

    def whiten(self, C: Mapping[str, np.ndarray], r: np.ndarray) -> np.ndarray:
        """Cᵀr from the blocks of C."""
        parts = []
        for name, block in C.items():
            copies = r[self.slices[name]].reshape(block.shape[:2])
            parts.append(np.einsum("kij,ki->kj", block, copies).reshape(-1))
        return np.concatenate(parts)

    def names(self) -> list[str | None]:
        """Name of every flat coordinate; None for those that are not reported by name."""
        return [label for name, family in self.blocks.items() for label in family.names(name)]

    def parts(self) -> Iterator[tuple[str, str, slice]]:
        """Each copy of each block: the block, the copy's name (`mu[2]`), its flat coordinates."""
        for name, family in self.blocks.items():
            for k, copy in enumerate(np.ndindex(*family.batch)):
                start = self.slices[name].start + k * family.size
                label = f"{name}[{','.join(map(str, copy))}]" if copy else name
                yield name, label, slice(start, start + family.size)

    def block_of(self, index: int) -> str:
        """The block to which a flat coordinate belongs."""
        return next(name for name, s in self.slices.items() if s.start <= index < s.stop)
