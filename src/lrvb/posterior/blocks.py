"""Blocks of an estimate: how some flat coordinates are seen, named, and drawn from.

A block is an exponential family's statistics, or a plain array of real numbers that has no family.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg

from ..families.base import Family
from ..numerics.packing import Slot
from ..statement.parameters import require_methods


class Support(NamedTuple):
    """Where a quantity lies: "real", "positive" or "negative".

    `log` is the flat coordinate that holds its own logarithm, where there is one.
    """

    kind: str = "real"
    log: int | None = None

    def moved(self, by: int) -> Support:
        """The same among coordinates of which `by` come first."""
        return self if self.log is None else Support(self.kind, self.log + by)


class Coordinates(NamedTuple):
    """Coordinates u of a block that range over all of ℝᵏ.

    u = mean + W(T − m) + a part uncorrelated with T of covariance R: mean (k,), W (k, size), R (k, k).
    """

    mean: np.ndarray
    W: np.ndarray
    R: np.ndarray


class Block(Protocol):
    """What an estimate asks of some of its flat coordinates."""

    @property
    def size(self) -> int:
        """Flat coordinates."""

    def names(self, block: str) -> list[str | None]:
        """The plain name of every coordinate; None for those that are not reported by name."""

    def supports(self) -> list[Support]:
        """The support of every coordinate, counted from the block's first."""

    def moments(self, flat: Any) -> Any:
        """Named moments from flat ones, (size,)."""

    def unconstrained(self, m: np.ndarray) -> Coordinates:
        """Coordinates without bounds at the flat means m."""

    def constrain(self, u: np.ndarray) -> np.ndarray:
        """Values (n, *shape) from coordinates without bounds (n, k)."""

    def at_scores(
        self, score: np.ndarray, mean: np.ndarray, sd: np.ndarray, *, own_mean: bool
    ) -> np.ndarray:
        """Values where those coordinates have these means and sds (k,) and normal scores (n, k).

        See `Family.at_scores` for `own_mean`.
        """

    def in_units(self, M: np.ndarray) -> Block:
        """The block of T = M T′ + c."""


class RealMoments(NamedTuple):
    """The moments of plain real numbers: their means."""

    x: Any


@dataclass(frozen=True)
class RealBlock:
    """Real numbers of some shape, known by their means and covariances alone."""

    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Flat coordinates."""
        return Slot(self.shape).size

    def names(self, block: str) -> list[str | None]:
        """`beta` of a number, `beta[i]` and `beta[i,j]` of arrays."""
        if not self.shape:
            return [block]
        return [f"{block}[{','.join(map(str, index))}]" for index in np.ndindex(*self.shape)]

    def supports(self) -> list[Support]:
        """Real."""
        return [Support()] * self.size

    def moments(self, flat: Any) -> RealMoments:
        """E x."""
        return RealMoments(flat.reshape(self.shape))

    def unconstrained(self, m: np.ndarray) -> Coordinates:
        """x itself."""
        return Coordinates(np.asarray(m), np.eye(self.size), np.zeros((self.size, self.size)))

    def constrain(self, u: np.ndarray) -> np.ndarray:
        """x = u."""
        return u.reshape(len(u), *self.shape)

    def at_scores(
        self, score: np.ndarray, mean: np.ndarray, sd: np.ndarray, *, own_mean: bool
    ) -> np.ndarray:
        """Normal."""
        return self.constrain(mean + sd * score)

    def in_units(self, M: np.ndarray) -> RealBlock:
        """Real numbers stay real numbers."""
        return self


@dataclass(frozen=True)
class DerivedBlock(RealBlock):
    """Functions of the other blocks: they have moments, and draws of the others give their draws."""

    def unconstrained(self, m: np.ndarray) -> Coordinates:
        """None of its own."""
        return Coordinates(np.zeros(0), np.zeros((0, self.size)), np.zeros((0, 0)))


@dataclass(frozen=True, eq=False)
class FamilyBlock:
    """All copies of a family, with their flat natural parameters η."""

    family: Family
    eta: np.ndarray

    @property
    def size(self) -> int:
        """Flat coordinates of all copies."""
        return self.family.copies * self.family.size

    def names(self, block: str) -> list[str | None]:
        """As the family names its statistics."""
        return self.family.names(block)

    def supports(self) -> list[Support]:
        """As the slots say; a statistic x beside log x has its own log among the coordinates."""
        one = [s for slot in self.family.slots for s in _supports(slot)]
        if set(self.family.Stats._fields) == {"x", "log_x"}:
            one[0] = Support(one[0].kind, 1)
        return [s.moved(k * len(one)) for k in range(self.family.copies) for s in one]

    def moments(self, flat: Any) -> Any:
        """The family's own named statistics, batch axes in front."""
        return self.family.unflatten(flat.reshape(*self.family.batch, self.family.size))

    def unconstrained(self, m: np.ndarray) -> Coordinates:
        """The family's coordinates, copy by copy."""
        require_methods(self.family, ("unconstrained", "constrain"), "draws")
        parts = [self.family.unconstrained(natural) for natural in self._copies()]
        means, loadings, rests = zip(*parts, strict=True)
        return Coordinates(
            np.concatenate([np.asarray(mean, dtype=float) for mean in means]),
            scipy.linalg.block_diag(*loadings),
            scipy.linalg.block_diag(*rests),
        )

    def constrain(self, u: np.ndarray) -> np.ndarray:
        """The variable, copy by copy."""
        copies = np.split(u, self.family.copies, axis=1)
        return self._stacked(map(self.family.constrain, self._copies(), copies))

    def at_scores(
        self, score: np.ndarray, mean: np.ndarray, sd: np.ndarray, *, own_mean: bool
    ) -> np.ndarray:
        """The variable, copy by copy, with margins of the family's own shape."""
        copies = (np.split(part, self.family.copies, axis=-1) for part in (score, mean, sd))
        one = partial(self.family.at_scores, own_mean=own_mean)
        return self._stacked(map(one, self._copies(), *copies))

    def carried(self, eta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Contrasts here of the variables that have contrasts v (n, j) where the flat parameters are η."""
        there = FamilyBlock(self.family, eta)._copies()
        pairs = zip(there, self._copies(), self._split(v), strict=True)
        return np.concatenate([self.family.carried(a, b, own) for a, b, own in pairs], axis=1)

    def contrasts(self, k: int) -> np.ndarray:
        """Linear functions (j, k) of the k coordinates of all copies, none of them redundant."""
        one = self.family.contrasts()
        return np.eye(k) if one is None else np.kron(np.eye(self.family.copies), one)

    def statistics(self, v: np.ndarray) -> np.ndarray:
        """T (n, size) of the values at contrasts v (n, j), copy by copy."""
        require_methods(self.family, ("unconstrained", "constrain", "statistics"), "certificates")
        parts = []
        for eta, own in zip(self._copies(), self._split(v), strict=True):
            x = np.asarray(self.family.constrain(eta, self.family.lift(own)))
            parts.append(np.asarray(self.family.flatten(self.family.statistics(x))))
        return np.concatenate(parts, axis=1)

    def statistics_of(self, values: np.ndarray) -> np.ndarray:
        """T (n, size) of values (n, *batch, *shape)."""
        require_methods(self.family, ("statistics",), "leave-one-out densities")
        n, lead = len(values), 1 + len(self.family.batch)
        x = values.reshape(n * self.family.copies, *values.shape[lead:])
        T = np.asarray(self.family.flatten(self.family.statistics(x)))
        return T.reshape(n, self.size)

    def log_measure(self, v: np.ndarray) -> np.ndarray:
        """log h(θ) + log |∂θ/∂v| at contrasts v (n, j), (n,), summed over the copies."""
        total = np.zeros(len(v))
        for eta, own in zip(self._copies(), self._split(v), strict=True):
            u = self.family.lift(own)
            x = np.asarray(self.family.constrain(eta, u))
            total += self.family.log_jacobian(eta, u) + self.family.log_base_measure(x)
        return total

    def values(self, flat: np.ndarray) -> np.ndarray:
        """The variable (n, *batch, *shape) from its statistics (n, size)."""
        copies = np.split(flat, self.family.copies, axis=1)
        return self._stacked(
            self.family.from_statistics(self.family.unflatten(copy)) for copy in copies
        )

    def _split(self, v: np.ndarray) -> list[np.ndarray]:
        return np.split(v, self.family.copies, axis=1)

    def _stacked(self, copies: Iterable[Any]) -> np.ndarray:
        """Values (n, *shape) of every copy as one array (n, *batch, *shape)."""
        values = np.stack([np.asarray(copy) for copy in copies], axis=1)
        return values.reshape(len(values), *self.family.batch, *values.shape[2:])

    def in_units(self, M: np.ndarray) -> FamilyBlock:
        """η·T is the same in all units, so that η = M⁻ᵀη′."""
        if np.array_equal(M, np.eye(len(M))):
            return self
        if np.triu(M, 1).any():
            return FamilyBlock(self.family, np.linalg.solve(M.T, self.eta))
        return FamilyBlock(self.family, scipy.linalg.solve_triangular(M.T, self.eta))

    def _copies(self) -> Iterator[Any]:
        """Natural parameters of each copy, as NumPy arrays."""
        for flat in self.eta.reshape(self.family.copies, self.family.size):
            natural = self.family.unflatten(np.asarray(flat), natural=True)
            yield type(natural)(*(np.asarray(part) for part in natural))


def _supports(slot: Slot) -> list[Support]:
    """Of a symmetric matrix the slot's support speaks of the diagonal."""
    indices = slot.indices()
    if slot.symmetric:
        return [Support(slot.support) if i == j else Support() for i, j in indices]
    return [Support(slot.support)] * len(indices)
