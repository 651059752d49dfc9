"""From a statement of what is inside to weighted draws of θ: mode, bend, proposal, importance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .coordinates import Bend, Kind
from .crossed import Crossed
from .gaussian import Gaussian
from .importance import Budget, Weighted, integrate
from .inside import Effects, Inside
from .laplace import Marginal
from .mode import Mode, climb, differenced
from .path import Path
from .proposals import fit_blocks, probed

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Integral:
    """Weighted draws of all that was not summed out: theta (n, d), with their weights and verdict.

    effects are every term's, in the order of the sds in θ; a gaussian response has its own moments.
    """

    theta: np.ndarray
    weighted: Weighted
    effects: tuple[Effects, ...] = ()

    @property
    def heavy(self) -> tuple[np.ndarray, np.ndarray]:
        """The draws that carry all but a millionth of the weight, and their weights."""
        at = self.weighted.heavy()
        return self.theta[at], self.weighted.weights[at] / self.weighted.weights[at].sum()


def enough(d: int, levels: int) -> Budget:
    """The draws that d coordinates and a smallest factor of so many levels need."""
    return Budget(final=4096 if d > 10 or levels <= 6 else 2048)


def integrate_gaussian(
    inside: Gaussian, budget: Budget | None = None, seed: int = 0, progress: Progress | None = None
) -> Integral:
    """θ of a gaussian response: all coefficients are exact inside."""
    kinds = inside.kinds
    first = climb(inside.log_density, inside.start(), longest=_longest(kinds))
    bend = Bend(kinds, first.x)

    def target(x: np.ndarray) -> np.ndarray:
        return inside.log_density(bend.natural(x)) + bend.log_jacobian(x)

    mode = climb(target, bend.bend(first.x))
    start = probed(target, mode.x, mode.axes())
    levels = min(term.levels for term in inside.terms)
    weighted = integrate(
        target, start, budget=budget or enough(len(kinds), levels), seed=seed, progress=progress
    )
    return Integral(bend.natural(weighted.x), weighted)


def integrate_path(
    inside: Inside,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    start: np.ndarray | None = None,
) -> Integral:
    """θ = (β, hyperparameters) of any other response: levels are summed inside."""
    kinds, p = inside.kinds, inside.p
    longest = _longest(kinds)
    theta = inside.start() if start is None else start

    def settled(theta: np.ndarray) -> tuple[Mode, np.ndarray | None]:
        """The mode; of the hyperparameters alone where that of all is a funnel's tip."""
        if not isinstance(inside, Crossed):
            return climb(inside.log_density, theta, inside.derivatives, longest), None
        marginal = Marginal(inside, theta[:p])
        found = climb(marginal, theta[p:], differenced(marginal, 1e-2), 1.0, 1e-2)
        H = np.zeros((len(theta), len(theta)))
        H[p:, p:] = found.hessian
        return Mode(np.r_[marginal.beta, found.x], found.value, H), found.hessian

    mode, hessian = settled(theta)
    up = mode.x.copy()
    log = np.array(kinds) == "log"
    up[log] += 2 * np.minimum(1.0, 1 / np.sqrt(np.maximum(-np.diag(mode.hessian)[log], 1e-3)))
    inside.choose_nodes(np.array([mode.x, up]))
    if hessian is None:
        mode, hessian = settled(mode.x)
    path = Path(inside, mode, hessian)
    proposal = probed(path.log_density, path.start, path.axes)
    firsts: list[np.ndarray] = []
    seconds: list[np.ndarray] = []

    def target(x: np.ndarray) -> np.ndarray:
        value, first, second = inside.evaluate(path.natural(x))
        firsts.append(first)
        seconds.append(second)
        return value + path.log_volume(x[:, p:])

    weighted = integrate(
        target,
        proposal,
        lambda x, w: fit_blocks(x, w, p),
        budget or enough(len(kinds), inside.fewest),
        seed,
        progress,
    )
    natural, w = path.natural(weighted.x), weighted.weights
    moments = (w @ np.concatenate(parts) for parts in (firsts, seconds))
    return Integral(natural, weighted, inside.unfold(natural, w, *moments))


def _longest(kinds: list[Kind]) -> np.ndarray:
    """Newton's longest step of each coordinate: log sds and their like by 1, coefficients freely."""
    return np.where(np.array(kinds) == "free", np.inf, 1.0)
