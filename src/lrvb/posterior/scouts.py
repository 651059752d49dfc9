"""What a few points say of a density before it is drawn from: whether it is normal, and how far it reaches.

A quantity such as log π, of which the data allow all small values, has a long exponential tail on one
side. Draws around the optimum seldom come there, and their weights do not know what they have missed; the
density itself, asked far out along each coordinate, does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..integrated.importance import Earlier
from ..integrated.proposals import Gaussian, Mixture, Proposal, SplitT
from ..numerics.pareto import EQUAL
from ..numerics.sobol import normal_points
from .proposal import Around
from .target import Target

PILOTS = 64  # normal draws that tell a normal density
STEPS = np.array([5.0, 13.0])  # sds from the center where the fall of log density is seen
LONG = 1.5  # times a normal's length, from which a side has draws of its own
LONGEST = 4.0
TAILS = 0.5  # share of the draws that long sides have between them, 0.25 once a proposal is fitted
FITTED = 0.25
DEGREES = 7.0


class Scouted(NamedTuple):
    """Whether the density is the normal of its place to rounding, and one t for every long coordinate.

    `pilots` are the normal's points and the density there; `along` is whether sides were looked along at all.
    """

    normal: bool = False
    tails: tuple[SplitT, ...] = ()
    pilots: Earlier | None = None
    along: bool = False

    def beside(self, proposal: Proposal, share: float = TAILS) -> Proposal:
        """The proposal, and the long sides with a share of the draws."""
        if not self.tails:
            return proposal
        each = share / len(self.tails)
        weights = np.array([1 - share, *[each] * len(self.tails)])
        return Mixture((proposal, *self.tails), weights)


def cost(d: int, few: bool) -> int:
    """Points that are asked for in d coordinates, of few the far ones too."""
    return PILOTS + 1 + (2 * len(STEPS) * d if few else 0)


def scout(target: Target, place: Around, few: bool) -> Scouted:
    """Ask the density at pilot draws, and where coordinates are few along each of them."""
    d = len(place.center)
    sd = np.sqrt(np.einsum("ij,ij->i", place.root, place.root))
    pilots = place.center + normal_points(PILOTS, d) @ place.root.T
    rays = np.stack([-np.diag(sd), np.diag(sd)], axis=1)  # (coordinate, side, d)
    far = place.center + STEPS[:, None] * rays[:, :, None, :]
    far = far.reshape(-1, d)[: cost(d, few) - PILOTS - 1]
    points = np.concatenate([place.center[None], pilots, far])
    log_p = np.concatenate([target(half) for half in np.array_split(points, 2)])  # a pace each
    normal = Gaussian(place.center, place.root)
    off = log_p[: PILOTS + 1] - normal.log_density(np.concatenate([place.center[None], pilots]))
    earlier = normal, pilots, log_p[1 : PILOTS + 1]
    if np.ptp(off) < EQUAL or not few:
        return Scouted(bool(np.ptp(off) < EQUAL), pilots=earlier)
    fall = np.maximum(log_p[0] - log_p[PILOTS + 1 :].reshape(d, 2, len(STEPS)), 1e-3)
    reach = np.clip((STEPS / np.sqrt(2 * fall)).max(axis=2), 1.0, LONGEST)
    long = np.flatnonzero(reach.max(axis=1) > LONG)
    tails = tuple(_along(place, int(j), sd[j], *reach[j]) for j in long)
    return Scouted(False, tails, earlier, along=True)


def _along(place: Around, j: int, sd: float, left: float, right: float) -> SplitT:
    """A t with its own length on either side of coordinate j, and the others as if that were fixed."""
    d = len(place.center)
    others = np.delete(np.arange(d), j)
    S = place.root[others] @ place.root[others].T
    scale = np.sqrt(np.diag(S))
    axes = np.zeros((d, d))
    axes[j, j] = sd
    ridge = 1e-9 * np.eye(d - 1)
    axes[np.ix_(others, others)] = scale[:, None] * np.linalg.cholesky(
        S / np.outer(scale, scale) + ridge
    )
    lefts, rights = np.ones(d), np.ones(d)
    lefts[j], rights[j] = left, right
    return SplitT(place.center, axes, lefts, rights, DEGREES)
