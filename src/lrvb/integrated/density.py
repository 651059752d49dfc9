"""Rows' log densities as the sums over levels ask for them: columns and dispersions by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..likelihoods import Dispersion, Given, Likelihood
from ..likelihoods.dispersion import labels_of
from .coordinates import Kind

Columns = tuple[np.ndarray, ...]  # of the rows: the response, the family's extras, any weights


class Density:
    """log p(y | η, φ) of a likelihood; columns, η and dispersions φ broadcast against each other.

    φ are values by their labels; θ has their coordinates. `dispersions` are the likelihood's own unless
    they depend on the data. If `weighted`, the last column has weights w, and a row's density is
    p(y | η, φ)^w: that of w such rows.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        extras: Sequence[str] = (),
        dispersions: tuple[Dispersion, ...] | None = None,
        weighted: bool = False,
    ):
        self.likelihood, self.extras, self.weighted = likelihood, tuple(extras), weighted
        self.dispersions = likelihood.dispersions if dispersions is None else dispersions
        self.labels = labels_of(self.dispersions)

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of the dispersions' coordinates in θ."""
        return [kind for dispersion in self.dispersions for kind in dispersion.range.kinds]

    @property
    def concave(self) -> bool:
        """Whether a level's effects have one mode."""
        return self.likelihood.concave

    @property
    def exponential(self) -> str:
        """How log p depends on e^η, as the class says that states log p itself; or nothing."""
        return self.likelihood.exponential if self._states("exponential") else ""

    def _states(self, name: str) -> bool:
        """Whether a class that states log p, or one derived from it, says this too."""
        for base in type(self.likelihood).__mro__:
            if name in vars(base):
                return True
            if "log_p" in vars(base) or "kernel" in vars(base):
                return False
        return False

    @property
    def moving(self) -> np.ndarray:
        """How η moves with each coordinate of the dispersions, in whose place it may be, (k,)."""
        found = np.zeros(len(self.kinds))
        for at, dispersion in self._coordinates():
            if dispersion.name == self.likelihood.moves:
                found[at.start] = -1.0
        return found

    @property
    def apart(self) -> np.ndarray:
        """Which coordinates of the dispersions have a part of log p without η, (k,)."""
        found = np.zeros(len(self.kinds), dtype=bool)
        for at, dispersion in self._coordinates():
            found[at] = dispersion.name == self.likelihood.apart
        return found

    def part(self, y: np.ndarray, phi: Sequence[Any]) -> np.ndarray:
        """That part, of rows that count once."""
        return np.asarray(self.likelihood.part(y, self._given((y,), phi)))

    def _coordinates(self) -> list[tuple[slice, Dispersion]]:
        """Each dispersion with its place among all coordinates."""
        ends = np.cumsum([dispersion.range.size for dispersion in self.dispersions])
        return [
            (slice(end - d.range.size, end), d)
            for end, d in zip(ends, self.dispersions, strict=True)
        ]

    def counting(self) -> Density:
        """The same of rows with weights."""
        return Density(self.likelihood, self.extras, self.dispersions, True)

    def constant(self, columns: Columns) -> float:
        """Σ_n of what depends neither on η nor on φ."""
        return float(np.sum(self.constants(columns)))

    def constants(self, columns: Columns) -> np.ndarray:
        """What depends neither on η nor on φ, of every row (N,)."""
        each = self.likelihood.constant(columns[0], self._given(columns))
        return np.broadcast_to(self._counted(columns, each), columns[0].shape)

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any] = ()) -> Any:
        """log p(y | η, φ) but for the constant."""
        found = self.likelihood.kernel(columns[0], eta, self._given(columns, phi))
        return self._counted(columns, found)

    def linear(self, columns: Columns) -> np.ndarray | None:
        """w (N,) with log p = wη + `rest`; None where log p has no such form."""
        if not self._states("rest"):
            return None
        found = self.likelihood.linear(columns[0])
        return None if found is None else np.asarray(self._counted(columns, found))

    def rest(self, columns: Columns, e: np.ndarray, phi: Sequence[Any] = ()) -> np.ndarray:
        """log p less wη at e^η (…, N), which may be written over."""
        found = self.likelihood.rest(columns[0], e, self._given(columns, phi))
        return np.asarray(self._counted(columns, found))

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any] = ()) -> tuple[Any, Any]:
        """Score ∂/∂η and information −∂²/∂η²."""
        score, information = self.likelihood.derivatives(columns[0], eta, self._given(columns, phi))
        return self._counted(columns, score), self._counted(columns, information)

    def _counted(self, columns: Columns, each: Any) -> Any:
        """A row's number as often as the row counts."""
        return columns[-1] * each if self.weighted else each

    def _given(self, columns: Columns, phi: Sequence[Any] = ()) -> Given:
        own = columns[1:-1] if self.weighted else columns[1:]
        given = dict(zip(self.extras, own, strict=True))
        return given | dict(zip(self.labels, phi, strict=False))
