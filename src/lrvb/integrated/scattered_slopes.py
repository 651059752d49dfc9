"""One factor with two effects a level, its rows in parts: only sums of rows at known effects are made there.

Those at nodes that stay are asked for once, and then no rows. See: Held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from .regression import Regression
from .scattered import Parts
from .scattered_factor import ScatteredFactor
from .slopes import Slopes, first_nodes
from .terms import Term


class ScatteredSlopes(ScatteredFactor, Slopes):
    """The same sums of parts; `rows` and terms, of no rows, have the priors.

    bring(levels) gives the sums of some levels alone, in memory, with their numbers kept.
    """

    def __init__(
        self,
        rows: Regression,
        terms: Sequence[Term],
        parts: Parts,
        bring: Callable[[np.ndarray], Slopes],
    ):
        own, stand_ins = self._stand_in(rows, terms, parts, bring)
        super().__init__(own, stand_ins, merge=False, nodes=first_nodes(self.in_all))
        self._know_levels()

    def within_groups(self, size: np.ndarray | None = None) -> np.ndarray | None:
        """A (G, q, p) with X_g = R_g A_g in every group; None where there is none. See: Slopes."""
        return self._within

    @cached_property
    def _within(self) -> np.ndarray | None:
        size = np.max([np.abs(part.X).max(0) for part in self._portions], axis=0)
        found = [part for part in self.parts.map(partial(_within, size)) if part is not None]
        if any(len(A) == 0 for A in found):
            return None
        return self.joined([A[None] for A in found])[0]

    def at_nodes(self, center: np.ndarray, away: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Σ log p of each group's rows at η = R(center + v), of its own v (K, q) in `away`. See: Slopes."""
        own = self.split(np.arange(self.G), 0)
        asked = [(center[groups], [away[g] for g in groups]) for groups in own]
        found: list[np.ndarray] = [np.zeros(0)] * self.G
        for groups, sums in zip(own, self.parts.map(_at_nodes, asked), strict=True):
            for g, each in zip(groups, sums or (), strict=True):
                found[g] = each
        return found


# ---- where the rows are: a part is the sums of its levels, or None if it has no rows -----------


def _within(size: np.ndarray, _: int, part: Slopes | None) -> np.ndarray | None:
    """No groups where there is no A."""
    if part is None:
        return None
    found = part.within_groups(size)
    return np.zeros((0, part.q, part.p)) if found is None else found


def _at_nodes(
    _: int, part: Slopes | None, own: tuple[np.ndarray, list[np.ndarray]]
) -> list[np.ndarray] | None:
    return None if part is None else part.at_nodes(*own)
