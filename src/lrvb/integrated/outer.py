"""The outer of two nested factors as a factor by itself: its rows' density has the inner levels summed out.

Σ_m log ∫ Π_n p(y_n | η_n + o + e) N(e; 0, sd²) de over the inner levels m of an outer one is a
concave function of its effect o if log p is one of η, and the inner sd is a dispersion of it.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from .coordinates import FREE, LOG, Kind
from .factor_nodes import TOLERANCE
from .inner import InnerSums
from .inside import Evaluated
from .levels import Levels, first_nodes
from .nested import Nested
from .nested_sums import STEPS
from .regression import Regression
from .row_sums import OneEffect, RowSums
from .surrogate import NotSmooth

_PLACES = np.linspace(0.3, 0.7, 5)  # between the ends of an outer level's grid
_LOT = 2**22  # nodes at which moments of inner levels are asked for together


class Outer(Levels):
    """θ = (β, log sd of outer, log sd of inner, dispersions), with tables of the outer levels in mind."""

    extra = 1

    def __init__(self, nested: Nested):
        self.nested = nested
        nodes = first_nodes(nested.rows.likelihood, nested.N)
        super().__init__(nested.given, nested.outer, merge=False, nodes=nodes)
        # groups here have more rows first: which of them each of the nested sums' own is, and back
        self.order = self.groups.group[nested.outer_level]
        self.place = np.argsort(self.order)

    def _arrange(self, rows: Regression, R: np.ndarray) -> None:
        super()._arrange(rows, R)
        self.N, self._exponential = self.nested.N, None

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return FREE * self.p + 2 * LOG + self.rows.likelihood.kinds

    @property
    def exact(self) -> Outer:
        """The same from the rows, with inner nodes twice as dense."""
        finer, nested = copy(self), copy(self.nested)
        nested.step = self.nested.step / 2
        finer.nested, finer.table = nested, None
        return finer

    def choose_step(self, theta: np.ndarray) -> None:
        """The widest step of inner nodes that suffices where the outer levels' effects are at θ (d,).

        `NotSmooth` where there would be too many of them.
        """
        nested = self.nested
        nested.information, nested._center = nested._informations(theta), theta[self.p :]
        nested.single = nested.is_rough
        ends = self._ends(theta[None])
        self._center, self._start = theta.copy(), ends.z[0]
        Z = ends.z + ends.C[..., 0] * (ends.low + (ends.high - ends.low) * _PLACES)
        for step in STEPS:
            found = []
            for nested.step in (step / 2, step):
                found.append(self._rows_at(theta[None]).line(Z)[0])
            if not np.isfinite(found).all():
                raise NotSmooth("Rows know inner levels too well for nodes that all of them share.")
            if np.abs(found[0] - found[1]).sum(0).max() < TOLERANCE:
                break

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z and E z² of outer levels, then inner ones, (n, G + M)."""
        few = max(1, _LOT // (self.G * self.nodes))
        lots = [self._evaluated(theta[i : i + few]) for i in range(0, len(theta), few)]
        return lots[0] if len(lots) == 1 else self.nested.stacked(lots)

    def _evaluated(self, theta: np.ndarray) -> Evaluated:
        n, nested = len(theta), self.nested
        value, (Z, P) = np.full(n, -np.inf), np.zeros((2, n, self.G, self.nodes))
        for at, sums in self._run(theta, self._possible(self._covered(theta))):
            value[at], Z[at] = sums.value, sums.grid[:, self.order]
            P[at] = (sums.P / sums.total[..., None])[:, self.order]
        value[~nested.shares(theta)] = -np.inf
        first, second = nested.around(theta, Z, P)
        return Evaluated(value, first, second)

    def start(self) -> np.ndarray:
        """A first θ."""
        return self.nested.start()

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        return self.nested._log_prior(theta)

    def _log_hyperprior(self, theta: np.ndarray) -> np.ndarray:
        return self.nested._log_hyperprior(theta)

    def _rows_at(self, theta: np.ndarray) -> RowSums:
        if self.table is not None:
            return self.table.at(theta)
        return OuterSums(self, self.nested.inner_sums(theta))


class OuterSums(OneEffect):
    """Sums over inner levels at outer effects. See: RowSums."""

    def __init__(self, outer: Outer, inner: InnerSums):
        self.outer, self.inner = outer, inner

    def take(self, points: np.ndarray) -> RowSums:
        """At some of the points."""
        return OuterSums(self.outer, self.inner.take(points))

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of the outer effect, (n, G, Q); −∞ where there would be too many inner nodes."""
        return self.inner.line(Z[:, self.outer.order])[:, self.outer.place]

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at effects (n, G, 1)."""
        gradient, information = self.inner.slopes(z[:, self.outer.order])
        return gradient[:, self.outer.place], information[:, self.outer.place]
