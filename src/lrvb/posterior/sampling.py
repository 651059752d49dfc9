"""Draws of a posterior, one way after another: linear response's, the second order's, adapted, HMC."""

from __future__ import annotations

import numpy as np

from ..engine.modes import Mode, share_of
from ..engine.response import Response
from ..engine.second_order import refine
from ..errors import LrvbError
from ..integrated.importance import Budget, Wanting, Weighted, integrate
from ..integrated.proposals import Gaussian, Proposal, SplitT
from ..integrated.wanting import Values, for_squares
from ..numerics.hmc import Chains, hmc, r_hat
from .proposal import (
    Around,
    around,
    around_all,
    missed,
    moments,
    refitted,
)
from .purse import Purse
from .scouts import FITTED, Scouted, cost, scout
from .target import Target
from .verdicts import MODE, R_HAT

MOST = 50  # coordinates up to which HMC is tried, and each is looked along
MORE = 4  # times the draws, where those are too few
CHAINS = 64
GRADIENTS = 12_000  # of one round of chains; each costs about three values
ROUNDS = 4  # of HMC, each whitened by the draws of the one before


class Sampling:
    """What draws from a target, within a purse. Optima near the first are known once they are told."""

    def __init__(self, target: Target, purse: Purse, draws: int, seed: int):
        self.target, self.purse, self.draws, self.seed = target, purse, draws, seed
        self.places = [Around(target.center, target.root)]
        self.near: tuple[Mode, ...] = ()
        few = target.size <= MOST
        affordable = purse.allows(draws + cost(target.size, few))
        self.scouted = scout(target, self.places[0], few) if affordable else Scouted()

    def know(self, response: Response, near: tuple[Mode, ...]) -> None:
        """Other optima that draws around the first may reach, those that matter."""
        self.near = tuple(mode for mode in near if share_of([mode]) >= MODE)
        self.places += [around(self.target, mode.response(response)) for mode in self.near]

    def reach(self, tails: tuple[SplitT, ...]) -> None:
        """Further places that have draws of their own."""
        self.scouted = self.scouted._replace(tails=self.scouted.tails + tails)

    def missed(self, x: np.ndarray, weights: np.ndarray) -> float:
        """Share of the evidence of such optima to which draws did not come."""
        return missed(x, weights, self.places, self.near)

    def plain(self, n: int) -> Weighted:
        """n draws from linear response's normal, with the tails of a t unless the density is that normal."""
        place = self.places[0]
        start = Gaussian(*place) if self.scouted.normal else self.scouted.beside(place.t())
        return integrate(self.target, start, budget=Budget(n, rounds=0), seed=self.seed)

    def brief(self, n: int) -> Weighted:
        """n draws, among them the normal's at which the density was asked already: half of the fewest."""
        pilots = self.scouted.pilots
        if pilots is None or self.scouted.normal:
            return self.plain(n)
        start = self.scouted.beside(self.places[0].t())
        budget = Budget(n - len(pilots[1]), rounds=0)
        return integrate(self.target, start, budget=budget, seed=self.seed, before=pilots)

    def more(self, *, brief: bool = False) -> Weighted | None:
        """As before, up to `MORE` times as many; None if too many."""
        n = next((n for n in (MORE, 2) if self.purse.allows(n * self.draws)), 0)
        if not n:
            return None
        return self.brief(n * self.draws) if brief else self.plain(n * self.draws)

    def second_order(self, response: Response) -> Weighted | None:
        """Draws around the second order's means with its sds; None where it has none."""
        target, draws = self.target, self.draws
        if not self.purse.allows(draws):
            return None
        try:
            second = refine(response, target.W)
        except LrvbError:  # too far off for a correction; adaptation goes on from what there is
            return None
        plain = np.maximum(np.diag(target.root @ target.root.T), 1e-300)
        wider = np.sqrt(1 + np.clip((second.variance - second.first) / plain, -0.75, 8.0))
        moved = np.sqrt(plain) * np.clip(second.shift / np.sqrt(plain), -2.0, 2.0)
        moved_there = Around(target.center + moved, wider[:, None] * target.root)
        start = self.scouted.beside(moved_there.t())
        return integrate(target, start, budget=Budget(draws, rounds=0), seed=self.seed)

    def adapted(
        self, values: Values | None = None, wanting: Wanting | None = None
    ) -> Weighted | None:
        """Draws from proposals fitted to the draws before them, from a wider start; None if too many.

        Some come from where the variances of values (n, q) do. More are made, up to `MORE` times as
        many, while they are `wanting` with weights that can be averaged.
        """
        d, purse = self.target.size, self.purse
        explore = int(np.clip(16 * d, 256, 2048))
        final = 2 * self.draws
        if not purse.allows(final + 2 * explore):
            return None
        most = next(n for n in range(8, 1, -1) if n == 2 or purse.allows(final + n * explore))
        more = next(n for n in (MORE, 2, 1) if n == 1 or purse.allows(n * final + most * explore))
        budget = Budget(final, explore, rounds=2, most=most, limit=more * final)
        start = self.scouted.beside(around_all(self.places, 1.2, 7.0))
        fitted = refitted(d) if values is None else for_squares(refitted(d), values)

        def refit(x: np.ndarray, weights: np.ndarray) -> Proposal:
            return self.scouted.beside(fitted(x, weights), FITTED)

        return integrate(self.target, start, refit, budget, self.seed + 1, wanting=wanting)

    def chains(self, weighted: Weighted) -> Chains | None:
        """HMC from weighted draws, each round whitened by the one before; None if too many."""
        target, purse = self.target, self.purse
        if not purse.allows(3 * GRADIENTS):
            return None
        rng = np.random.default_rng(self.seed)
        start = weighted.x[rng.choice(len(weighted.x), CHAINS, p=weighted.weights)]
        start = start + 0.1 * rng.standard_normal(start.shape) @ target.root.T
        start = np.where(np.isfinite(target(start))[:, None], start, target.center)
        mean, root = target.center, target.root
        if weighted.ess > 5 * target.size:
            mean, root = moments(weighted.x, weighted.weights)
        for _ in range(ROUNDS):
            chains = hmc(target.with_gradient, start, mean, root, rng)
            start = chains.x[-1]
            if r_hat(chains.x).max() <= R_HAT - 0.02 or not purse.allows(3 * GRADIENTS):
                break
            flat = chains.x.reshape(-1, target.size)
            mean, root = moments(flat, np.full(len(flat), 1 / len(flat)))
        return chains
