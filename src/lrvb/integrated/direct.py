"""θ of a log density whose coefficients are known in closed form: mode, bend, proposal, importance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .coordinates import Bend, Kind
from .effort import affordable, enough
from .gaussian import Gaussian
from .importance import Budget, integrate
from .integral import Integral
from .mode import climb, steadied
from .origins import spread_over
from .proposals import Target, fit_again, probed
from .terms import Term
from .wanting import in_sds, uncertain

Progress = Callable[[int, int], None]


def integrate_density(
    log_density: Target,
    kinds: list[Kind],
    start: np.ndarray,
    budget: Budget,
    seed: int = 0,
    progress: Progress | None = None,
    terms: Sequence[Term] = (),
) -> Integral:
    """θ of any log density, vectorised over points (n, d), of a few coordinates; terms' come first."""
    first = steadied(log_density, climb(log_density, start, longest=longest_steps(kinds)))
    bend = Bend(kinds, first.x)

    def target(x: np.ndarray) -> np.ndarray:
        return log_density(bend.natural(x)) + bend.log_jacobian(x)

    mode = steadied(target, climb(target, bend.bend(first.x)))
    proposal = spread_over(target, probed(target, mode.x, mode.axes()), bend, terms)
    log = np.array(kinds) == "log"
    wanting = uncertain(lambda x: in_sds(bend.natural(x), log))
    weighted = integrate(
        target,
        proposal,
        budget=budget,
        seed=seed,
        progress=progress,
        wanting=wanting,
        again=lambda x, w: fit_again(x, w, 0),
    )
    return Integral(bend.natural(weighted.x), weighted)


def integrate_gaussian(
    inside: Gaussian, budget: Budget | None = None, seed: int = 0, progress: Progress | None = None
) -> Integral:
    """θ of a gaussian response: all coefficients are exact inside."""
    kinds = inside.kinds
    levels = min((term.levels for term in inside.terms), default=int(inside.n))
    budget = affordable(budget or enough(len(kinds), levels), inside.work)
    start, terms = inside.start(), inside.terms
    return integrate_density(inside.log_density, kinds, start, budget, seed, progress, terms)


def longest_steps(kinds: list[Kind]) -> np.ndarray:
    """Newton's longest step of each coordinate: log sds and their like by 1, coefficients freely."""
    return np.where(np.array(kinds) == "free", np.inf, 1.0)
