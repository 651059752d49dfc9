"""From a statement of what is inside to weighted draws of θ: mode, bend, proposal, importance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..errors import LrvbError
from .coordinates import Bend, Kind
from .crossed import Crossed
from .factor import Factor
from .gaussian import Gaussian
from .importance import Budget, Weighted, integrate, resampled
from .inside import Effects, Evaluated, Inside
from .laplace import Marginal
from .mode import Mode, climb, differenced, steadied
from .path import Path
from .proposals import Proposal, Target, fit_blocks, probed
from .smoothed import Smoothed
from .surrogate import CHECKED, NotSmooth, learn, points_needed

Progress = Callable[[int, int], None]

EASY = 1.2e8  # evaluations of a row's density within which all draws are taken: about two seconds
QUICK = 2e7  # evaluations that are never worth saving: about a third of a second
LONG = 1.2e9  # evaluations that few points may cost, where rows are so many: about twenty seconds
WORK = 6e8  # evaluations of a row's density that one integration may cost: about ten seconds
FEWEST = 512  # final draws below which nothing can be said
MEAN_ERROR, SD_ERROR = 0.05, 0.05  # of a mean in sds, and of an sd, that Monte Carlo may leave
WANTED = 0.03  # of an sd, above which more draws are taken
NODE_ERROR = 0.05  # root mean square of what sums may leave of a log density: no mean moves by more of its sd
_KEPT = 2**24  # moments of levels at all draws that are kept; more are made again at fewer draws
_AGAIN = 512
_CHECKED = 32  # draws at which the sums inside are checked


class TooMuchWork(LrvbError):
    """Sums that would take too long."""


class LevelMoments(NamedTuple):
    """Every term's effects, and their covariances (levels, q, a) with values at the draws."""

    effects: tuple[Effects, ...]
    cross: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Integral:
    """Weighted draws of all that was not summed out: theta (n, d), with their weights and verdict.

    node_error is what the log density is off by over the draws, its root mean square. first and second are
    `evaluate`'s moments at the draws, where they were kept, or at the points `sample` (k, d) from the
    posterior. noise (n, P) is
    what each of P probes alone would add to the log density, where it is known by their mean. doubt (n,) is a
    part of the log density that is known to no more than about its own size.
    """

    theta: np.ndarray
    weighted: Weighted
    node_error: float = 0.0
    inside: Inside | None = None
    first: np.ndarray | None = field(default=None, repr=False)
    second: np.ndarray | None = field(default=None, repr=False)
    sample: np.ndarray | None = field(default=None, repr=False)
    noise: np.ndarray | None = field(default=None, repr=False)
    doubt: np.ndarray | None = field(default=None, repr=False)

    @property
    def heavy(self) -> tuple[np.ndarray, np.ndarray]:
        """The draws that carry all but a millionth of the weight, and their weights."""
        at = self.weighted.heavy()
        return self.theta[at], self.weighted.weights[at] / self.weighted.weights[at].sum()

    @property
    def effects(self) -> tuple[Effects, ...]:
        """Every term's effects, in the order of the sds in θ."""
        return self.moments(np.zeros((len(self.theta), 0))).effects

    def moments(self, values: np.ndarray) -> LevelMoments:
        """Levels' effects, and their covariances with values (n, a) at the draws."""
        assert self.inside is not None
        theta, w = self.theta, self.weighted.weights
        first, second = self.first, self.second
        if self.sample is not None:
            return self._from_sample(values)
        if first is None or second is None:
            at = resampled(w, _AGAIN)
            theta, values, w = theta[at], values[at], np.full(_AGAIN, 1 / _AGAIN)
            _, first, second = self.inside.evaluate(theta)
        away = values - w @ values
        found = self.inside.unfold(theta, w, w @ first, w @ second)
        return LevelMoments(found, self.inside.expand(first.T @ (w[:, None] * away)))

    def _from_sample(self, values: np.ndarray) -> LevelMoments:
        """Moments as functions of θ by linear regression on the sample, averaged over all draws."""
        assert self.inside is not None
        assert self.sample is not None
        assert self.first is not None
        assert self.second is not None
        w = self.weighted.weights
        center = w @ self.theta
        sd = np.maximum(self.weighted.sd(self.theta), 1e-300)
        all_away, away = (self.theta - center) / sd, (self.sample - center) / sd
        line = np.linalg.pinv(np.column_stack([np.ones(len(away)), away]))
        level, slopes = line[:1], line[1:]
        found = self.inside.unfold(self.theta, w, (level @ self.first)[0], (level @ self.second)[0])
        covariance = all_away.T @ (w[:, None] * (values - w @ values))
        cross = self.inside.expand((slopes @ self.first).T @ covariance)
        return LevelMoments(found, cross)


def enough(d: int, levels: int) -> Budget:
    """The draws that d coordinates and a smallest factor of so many levels need, to begin with."""
    return Budget(final=4096 if d > 10 or levels <= 6 else 2048, limit=16384)


def fewer(budget: Budget, d: int, work: float) -> Budget:
    """Half of them to begin with, where a point costs more than its share of the answers."""
    if d > 6 or budget.final > 2048 or work * budget.final < QUICK:
        return budget
    return replace(budget, final=budget.final // 2, explore=budget.explore // 2)


def affordable(budget: Budget, work: float) -> Budget:
    """The budget, with no more draws than are worth their time; `TooMuchWork` for too few."""
    most = WORK / work
    easy = EASY / work
    explore = budget.explore if easy > 2048 else budget.explore // 2
    left = most - budget.rounds * explore
    if left < FEWEST:
        raise TooMuchWork(
            f"Exact sums would take about {work * (FEWEST + budget.rounds * explore):.0e} evaluations "
            f"of a row's density, more than the {WORK:.0e} that are worth their time.",
            work=work,
        )
    powers = FEWEST * 2 ** np.arange(12)
    within = int(powers[powers <= left].max())
    limit = min(budget.limit, within)
    first = max(int(powers[powers <= max(easy, 2 * FEWEST)].max()), 2 * FEWEST)
    return replace(budget, final=min(budget.final, within, first), explore=explore, limit=limit)


def uncertain(values: Callable[[np.ndarray], np.ndarray]) -> Callable[[Weighted], bool]:
    """Whether weights are unreliable, or Monte Carlo's errors of values of x (n, a) too large."""

    def wanting(found: Weighted) -> bool:
        if not found.k_hat < 0.7:
            return True
        v = values(found.x)
        sd = np.maximum(found.sd(v), 1e-300)
        return bool(
            (found.mean_error(v) > MEAN_ERROR * sd).any() or (found.sd_error(v) > WANTED * sd).any()
        )

    return wanting


def integrate_density(
    log_density: Target,
    kinds: list[Kind],
    start: np.ndarray,
    budget: Budget,
    seed: int = 0,
    progress: Progress | None = None,
) -> Integral:
    """θ of any log density, vectorised over points (n, d), of a few coordinates of these kinds."""
    first = steadied(log_density, climb(log_density, start, longest=_longest(kinds)))
    bend = Bend(kinds, first.x)

    def target(x: np.ndarray) -> np.ndarray:
        return log_density(bend.natural(x)) + bend.log_jacobian(x)

    mode = steadied(target, climb(target, bend.bend(first.x)))
    proposal = probed(target, mode.x, mode.axes())
    log = np.array(kinds) == "log"
    wanting = uncertain(lambda x: _in_sds(bend.natural(x), log))
    weighted = integrate(
        target, proposal, budget=budget, seed=seed, progress=progress, wanting=wanting
    )
    return Integral(bend.natural(weighted.x), weighted)


def integrate_gaussian(
    inside: Gaussian, budget: Budget | None = None, seed: int = 0, progress: Progress | None = None
) -> Integral:
    """θ of a gaussian response: all coefficients are exact inside."""
    kinds = inside.kinds
    levels = min((term.levels for term in inside.terms), default=len(inside.rows.X))
    budget = affordable(budget or enough(len(kinds), levels), inside.work)
    return integrate_density(inside.log_density, kinds, inside.start(), budget, seed, progress)


def integrate_path(
    inside: Inside,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    start: np.ndarray | None = None,
) -> Integral:
    """θ = (β, hyperparameters) of any other response: levels are summed inside."""
    kinds, p = inside.kinds, inside.p
    longest, log = _longest(kinds), np.array(kinds) == "log"
    theta = inside.start() if start is None else start
    wanted = budget or fewer(enough(len(kinds), inside.fewest), len(kinds), inside.work)
    begin(wanted, inside, len(kinds))

    def settled(theta: np.ndarray) -> tuple[Mode, np.ndarray | None]:
        """The mode; of the hyperparameters alone where that of all is a funnel's tip."""
        if not isinstance(inside, Crossed | Smoothed):
            return climb(inside.log_density, theta, inside.derivatives, longest), None
        marginal = Marginal(inside, theta[:p])
        found = climb(marginal, theta[p:], differenced(marginal, 1e-2), 1.0, 1e-2)
        H = np.zeros((len(theta), len(theta)))
        H[p:, p:] = found.hessian
        return Mode(np.r_[marginal.beta, found.x], found.value, H), found.hessian

    mode, hessian = settled(theta)
    up, far = mode.x.copy(), log | (np.array(kinds) == "logit")
    up[far] += 2 * np.minimum(1.0, 1 / np.sqrt(np.maximum(-np.diag(mode.hessian)[far], 1e-3)))
    inside.choose_nodes(np.array([mode.x, up, 2 * mode.x - up]))
    few = _is_learnt(wanted, inside, len(kinds))
    path = Path(inside, mode, hessian, straight=few)
    if few:
        proposal = probed(path.log_density, path.start, path.axes, (1.0, 3.0))
        try:
            return _learnt(inside, path, proposal, log, seed, progress)
        except NotSmooth:
            wanted = affordable(wanted, inside.work)
    else:
        wanted = affordable(wanted, inside.work)
    proposal = probed(path.log_density, path.start, path.axes)
    kept: list[tuple[np.ndarray, np.ndarray]] | None = []

    def target(x: np.ndarray) -> np.ndarray:
        nonlocal kept
        if kept is None:
            return path.log_density(x)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value, first, second = inside.evaluate(path.natural(x))
            value = value + path.log_volume(x[:, p:])
        beyond = np.isnan(value)  # a tail that double precision does not reach
        first[beyond], second[beyond] = 0.0, 0.0
        kept.append((first, second))
        if sum(part.size for part, _ in kept) > _KEPT:
            kept = None
        return np.where(beyond, -np.inf, value)

    weighted = integrate(
        target,
        proposal,
        lambda x, w: fit_blocks(x, w, p),
        wanted,
        seed,
        progress,
        uncertain(lambda x: _in_sds(path.natural(x), log)),
    )
    natural = path.natural(weighted.x)
    checked = inside.error(natural[resampled(weighted.weights, _CHECKED)])
    if kept is None:
        return Integral(natural, weighted, _rms(checked), inside)
    first, second = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return Integral(natural, weighted, _rms(checked), inside, first, second)


def _rms(errors: np.ndarray) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _is_long(budget: Budget, work: float) -> bool:
    """Whether all draws would take long."""
    return work * (budget.final + budget.rounds * budget.explore) > EASY


def _is_learnt(budget: Budget, inside: Inside, d: int, share: float = 1.0) -> bool:
    """Whether a cubic through few points ends in time, where all draws would take long."""
    work = share * inside.work
    cost = inside.cost if isinstance(inside, Factor) else 1.0
    if isinstance(inside, Crossed | Smoothed) or not _is_long(budget, cost * work):
        return False
    return work * (points_needed(d) + 2 * CHECKED) <= LONG


def begin(budget: Budget, inside: Inside, d: int) -> None:
    """`TooMuchWork` where neither all draws nor a cubic through few points would end in time."""
    fewest = 1 / 3  # of the work, with the fewest nodes
    if not _is_learnt(budget, inside, d, fewest):
        affordable(budget, fewest * inside.work)


def _learnt(
    inside: Inside,
    path: Path,
    proposal: Proposal,
    log: np.ndarray,
    seed: int,
    progress: Progress | None,
) -> Integral:
    """Draws of a cubic that few exact points have taught."""
    p, d = inside.p, len(log)

    def evaluate(x: np.ndarray) -> Evaluated:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value, first, second = inside.evaluate(path.natural(x))
            value = value + path.log_volume(x[:, p:])
        return Evaluated(np.where(np.isnan(value), -np.inf, value), first, second)

    found = learn(
        evaluate, proposal, d, lambda x, w: fit_blocks(x, w, p), Budget(final=4096), seed, progress
    )
    natural = path.natural(found.weighted.x)
    checked = inside.error(natural[resampled(found.weighted.weights, _CHECKED // 8)])
    error = float(np.hypot(found.off, _rms(checked)))
    _, first, second = found.exact
    return Integral(natural, found.weighted, error, inside, first, second, path.natural(found.x))


def _in_sds(theta: np.ndarray, log: np.ndarray) -> np.ndarray:
    """θ with sds instead of their logarithms."""
    values = theta.copy()
    values[:, log] = np.exp(np.minimum(theta[:, log], 500.0))
    return values


def _longest(kinds: list[Kind]) -> np.ndarray:
    """Newton's longest step of each coordinate: log sds and their like by 1, coefficients freely."""
    return np.where(np.array(kinds) == "free", np.inf, 1.0)
