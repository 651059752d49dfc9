"""Rows' log densities as the sums over levels ask for them: columns and dispersions by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..likelihoods import Dispersion, Given, Likelihood
from ..likelihoods.dispersion import labels_of
from .coordinates import Kind

Columns = tuple[np.ndarray, ...]  # of the rows: the response, and the family's extras


class Density:
    """log p(y | η, φ) of a likelihood; columns, η and dispersions φ broadcast against each other.

    φ are values by their labels; θ has their coordinates. `dispersions` are the likelihood's own unless
    they depend on the data.
    """

    def __init__(
        self,
        likelihood: Likelihood,
        extras: Sequence[str] = (),
        dispersions: tuple[Dispersion, ...] | None = None,
    ):
        self.likelihood, self.extras = likelihood, tuple(extras)
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
        kind = type(self.likelihood)
        for base in kind.__mro__:
            if "exponential" in vars(base):
                return kind.exponential
            if "log_p" in vars(base) or "kernel" in vars(base):
                return ""
        return ""

    def constant(self, columns: Columns) -> float:
        """Σ_n of what depends neither on η nor on φ."""
        return float(np.sum(self.likelihood.constant(columns[0], self._given(columns))))

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any] = ()) -> Any:
        """log p(y | η, φ) but for the constant."""
        return self.likelihood.kernel(columns[0], eta, self._given(columns, phi))

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any] = ()) -> tuple[Any, Any]:
        """Score ∂/∂η and information −∂²/∂η²."""
        return self.likelihood.derivatives(columns[0], eta, self._given(columns, phi))

    def _given(self, columns: Columns, phi: Sequence[Any] = ()) -> Given:
        given = dict(zip(self.extras, columns[1:], strict=True))
        return given | dict(zip(self.labels, phi, strict=False))
