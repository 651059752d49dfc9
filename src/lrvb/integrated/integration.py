"""From a statement of what is inside to weighted draws of θ: mode, bend, proposal, importance."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from .calibrated import calibrated
from .cells import TabledCells
from .chain import Chain
from .crossed import Crossed
from .direct import Progress, longest_steps
from .effort import (
    APART,
    EASY,
    FEW_LEVELS,
    FEWEST_NODES,
    FROZEN,
    affordable,
    can_learn,
    enough,
    fewer,
    is_long,
)
from .factor import Factor
from .few import can_tabulate, tabulate
from .fixed import Fixed
from .held import Held, can_hold
from .importance import Budget, Refit, integrate, resampled, tempered
from .inside import Evaluable, Evaluated, Inside, Integrand
from .integral import Integral
from .laplace import Marginal
from .many import Together, can_freeze, integrate_many
from .mode import Mode, NoMode, climb, differenced, steadied
from .nested import Nested
from .nested_grids import TooManyNodes
from .origins import spread_over
from .path import Path
from .proposals import Proposal, fit_again, fit_blocks, probed, rounded
from .scattered import Scattered
from .scattered_factor import ScatteredFactor
from .scattered_nested import ScatteredNested
from .scattered_single import ScatteredSingle
from .single_rows import SingleRows, Starred, are_single
from .slopes import Slopes
from .smoothed import Smoothed
from .surrogate import CHECKED, NOTHING, OFF, Known, NotSmooth, learn, points_needed
from .tabled import Tabled
from .wanting import for_squares, in_sds, uncertain

NESTED = Nested | Chain | Starred  # whose levels' moments cost as much as the density

NODE_ERROR = 0.05  # of a log density, that sums may be off by at a draw
_KEPT = 2**24  # moments of levels at all draws that are kept; more are made again at fewer draws
_CHECKED = 32  # draws at which the sums inside are checked
_FOLLOWED = 2048  # draws over which a table must follow the rows
_LOOKS = 3  # times that nodes are chosen
_AROUND = 3.0  # sds from the mode that nodes which stay are made for
_FINE = 31  # nodes an axis, where fewer find no mode
_SAMPLE = 512  # draws at which levels' moments are made, where they cost as much as the density
_EASILY = 5e6  # evaluations, of a fraction of a second, for which more of them are had
_FEWER = 32  # of them where θ is known so well that they hardly change with it
_FIRST = 128  # draws of a start that tell where nodes will be needed
_MANY = 1000  # rows of nested factors, of more of which some find the mode first
_NEAR = 0.3  # to so many of their sds
_WORST = 4  # of the draws where sums were checked, that new nodes must suit


def integrate_path(
    inside: Inside,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    start: np.ndarray | None = None,
    last: bool = False,
) -> Integral:
    """θ = (β, hyperparameters) of any other response: levels are summed inside.

    `TooMuchWork` where the fewest draws that any answer needs cost too much, or far too much if this is the
    `last` way to one.
    """
    d = len(inside.kinds)
    wanted = budget or fewer(enough(d, inside.fewest), d, inside.work)
    single = isinstance(inside, Nested) and are_single(inside)  # of which no table has the inner sd
    if not single and can_tabulate(inside, wanted):
        try:
            return _drawn(inside, wanted, seed, progress, start, tables=True, last=last)
        except (NotSmooth, NoMode, TooManyNodes) as error:  # the rows themselves may do
            start = error.evidence.get("mode", start)
            if isinstance(inside, Factor):
                inside.forget()
    return _drawn(inside, wanted, seed, progress, start, last=last)


def _drawn(
    whole: Inside,
    wanted: Budget,
    seed: int,
    progress: Progress | None,
    start: np.ndarray | None,
    tables: bool = False,
    last: bool = False,
) -> Integral:
    """With `tables` one of them stands for the rows; `NotSmooth` where there is none that does."""
    inside: Integrand = whole
    kinds, p = inside.kinds, inside.p
    longest, log = longest_steps(kinds), np.array(kinds) == "log"
    theta = whole.start() if start is None else start
    tabled: Tabled | TabledCells | None = None
    if tables and not isinstance(inside, Crossed):
        tabled, mode = tabulate(whole, theta, longest)
    if tabled is None and not last and isinstance(inside, Factor) and _is_many(wanted, inside):
        try:
            with np.errstate(over="ignore"):  # far from its center, which its mode tells
                return integrate_many(Together(inside), inside, theta, longest, seed, progress)
        except (NotSmooth, NoMode) as error:
            theta = error.evidence.get("mode", theta)
            inside.forget()
    if tabled is None and isinstance(inside, Nested) and are_single(inside):
        inside = starred = Starred(
            ScatteredSingle(inside) if isinstance(inside, ScatteredNested) else SingleRows(inside)
        )
        theta = starred.starred(theta)
        last = True  # rows hardly know the inner sd: a Gaussian block would be far off
    if tabled is None and not _is_held(wanted, inside):
        begin(wanted, inside, len(kinds), last)

    def settled(theta: np.ndarray) -> tuple[Mode, np.ndarray | None]:
        """The mode; of the hyperparameters alone where that of all is a funnel's tip."""
        if not isinstance(inside, Crossed | Smoothed):
            return climb_finer(inside, theta, longest), None
        marginal = Marginal(inside, theta[:p])
        found = climb(marginal, theta[p:], differenced(marginal, 1e-2), 1.0, 1e-2)
        found = steadied(marginal, found)
        marginal(found.x[None])  # whose β is there again
        H = np.zeros((len(theta), len(theta)))
        H[p:, p:] = found.hessian
        return Mode(np.r_[marginal.beta, found.x], found.value, H), found.hessian

    hessian = None
    if tabled is None:
        if isinstance(inside, Nested | Chain) and inside.N > _MANY:
            theta = _mode_of_some(inside, theta, longest)
        mode, hessian = settled(theta)
        if isinstance(inside, Nested | Factor | Fixed) and inside.N > APART:
            mode = steadied(inside.log_density, mode, inside.derivatives)
    if tables and isinstance(inside, Crossed):
        tabled = TabledCells(inside, mode.x)
    up, far = mode.x.copy(), log | (np.array(kinds) == "logit")
    up[far] += 2 * np.minimum(1.0, 1 / np.sqrt(np.maximum(-np.diag(mode.hessian)[far], 1e-3)))
    met = np.array([mode.x, up, 2 * mode.x - up])
    stand: Held | Tabled | TabledCells | None = tabled
    (tabled or inside).choose_nodes(met)
    few = tabled is None and _is_learnt(wanted, inside, len(kinds))
    if isinstance(inside, Slopes) and _is_held(wanted, inside):
        near = around(mode)
        held = Held(inside, near)
        if held.saves(near):
            mode, few = climb(held.log_density, mode.x, held.derivatives, longest), False
            if inside.N > APART:
                mode = steadied(held.log_density, mode)
            stand = held
    density: Evaluable = stand or inside
    nested = isinstance(inside, NESTED)
    # of deeper chains the curvature of β, which bends a path, is approximate
    straight = few and (inside.fewest >= FEW_LEVELS or isinstance(inside, Chain))
    owner = inside.owner if isinstance(inside, Crossed) else None
    path = Path(density, mode, hessian, straight, owner, _is_steady(inside))
    if few:
        few_probes = probed(path.log_density, path.start, path.axes, (1.0, 3.0))
        try:
            found = _learnt(whole, inside, path, few_probes, log, seed, progress)
            return _stated(found, inside) if isinstance(inside, Starred) else found
        except NotSmooth:  # then every draw is computed, as where there is nothing to learn
            wanted = affordable(wanted, inside.work, last)
            if isinstance(inside, Nested | Starred) and straight:
                path = Path(density, mode, hessian)
    else:
        wanted = affordable(wanted, (stand or inside).work, last)
    alone = probed(path.log_density, path.start, path.axes)
    terms = inside.terms if isinstance(inside, Factor) else ()
    proposal = spread_over(path.log_density, alone, path.bend, terms, p)
    if nested and tabled is None:
        x = proposal.draw(_FIRST, seed)
        log_w = path.log_density(x) - proposal.log_density(x)
        points = path.natural(x[resampled(tempered(log_w, 1.0), _CHECKED)])
        checked = inside.error(points)
        if checked.max() > NODE_ERROR:
            met = np.concatenate([met, points[np.argsort(-checked)[:_WORST]]])
            inside.choose_nodes(met)
            wanted = affordable(wanted, inside.work, last)
    kept: list[tuple[np.ndarray, np.ndarray]] | None = None if nested else []

    def target(x: np.ndarray) -> np.ndarray:
        nonlocal kept
        if kept is None:
            return path.log_density(x)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value, first, second = density.evaluate(path.natural(x))
            value = value + path.log_volume(x[:, p:])
        beyond = np.isnan(value)  # a tail that double precision does not reach
        first[beyond], second[beyond] = 0.0, 0.0
        kept.append((first, second))
        if sum(part.size for part, _ in kept) > _KEPT:
            kept = None
        return np.where(beyond, -np.inf, value)

    def sds_of(x: np.ndarray) -> np.ndarray:
        return in_sds(_natural(inside, path, x), log)

    def logs_of(x: np.ndarray) -> np.ndarray:
        return _natural(inside, path, x)[:, log]

    sparing = wanted.growth < 1

    fit, again = refitted(inside), partial(fit_again, first=p)
    correlations = np.array(kinds) == "correlation"

    def stated(x: np.ndarray) -> np.ndarray:
        found = sds_of(x)
        found[:, correlations] = np.tanh(found[:, correlations])  # no draw is far out
        return found

    wanting = uncertain(sds_of, sparing, logs_of if sparing else None)
    doubted, patient = uncertain(stated, doubted=True), False
    for looks in range(_LOOKS + 1):
        weighted = integrate(
            target,
            proposal,
            for_squares(fit, sds_of) if sparing else fit,
            replace(wanted, limit=wanted.patience) if patient else wanted,
            seed,
            progress,
            uncertain(stated, sparing, doubted=True) if patient else wanting,
            for_squares(again, sds_of) if sparing else again,
        )
        weighted = calibrated(weighted) if sparing else weighted
        natural = path.natural(weighted.x)
        points = natural[resampled(weighted.weights, _CHECKED)]
        checked = (stand or inside).error(points)
        if tabled is not None:
            off = tabled.off(natural[resampled(weighted.weights, _FOLLOWED)])
            if not off < OFF:
                raise NotSmooth(f"A table of the rows is off by {off:.2g}.", off=off, mode=mode.x)
            checked = checked + off
        fine = bool(checked.max() < NODE_ERROR)
        if fine or looks >= _LOOKS - 1:
            # only sums that are right are worth the draws that answers still in doubt ask for
            if patient or not fine or wanted.patience <= wanted.limit or doubted(weighted) is None:
                break
            patient = True
        else:
            # nodes that did for the mode may invent a density far from it: new ones with what was met there
            worst = points[np.argsort(-checked)[:_WORST]]
            met = np.concatenate([met, worst])
            (tabled or inside).choose_nodes(met)
            if isinstance(stand, Held):
                stand.reach(np.concatenate([around(mode), met[3:]]))
            wanted = affordable(wanted, (stand or inside).work, last)
        kept = None if nested else []
    if tabled is not None:
        tabled.lend()
    if nested:  # whose moments cost as much as the density itself
        sample = natural[resampled(weighted.weights, _SAMPLE if tabled is None else _FEWER)]
        _, first, second = density.evaluate(sample)
        off = float(checked.max())
        found = Integral(natural, weighted, off, whole, first, second, sample, near=tabled)
        return _stated(found, inside) if isinstance(inside, Starred) else found
    if kept is None:
        return Integral(natural, weighted, float(checked.max()), whole, near=stand)
    first, second = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return Integral(natural, weighted, float(checked.max()), whole, first, second, near=stand)


def integrate_scattered(
    inside: Scattered, seed: int = 0, progress: Progress | None = None
) -> Integral:
    """θ of a factor whose levels are in parts, elsewhere."""
    moving, start = inside.moving, inside.start()
    d = len(moving.kinds)
    wanted = fewer(enough(d, moving.fewest), d, moving.work)
    if can_tabulate(moving, wanted):
        try:
            return _drawn(moving, wanted, seed, progress, None, tables=True)
        except (NotSmooth, NoMode) as error:  # whole levels may do
            start = error.evidence.get("mode", start)
            moving.forget()
    held = moving.fewest < FEW_LEVELS and _is_held(wanted, moving)
    if not held and can_freeze(inside):
        try:
            longest = longest_steps(inside.kinds)
            return integrate_many(inside, inside, start, longest, seed, progress)
        except (NotSmooth, NoMode) as error:
            start = error.evidence.get("mode", start)
    return _drawn(moving, wanted, seed, progress, start)


def _is_many(budget: Budget, inside: Factor) -> bool:
    """Whether frozen sums save time, and fit in memory; of few levels no cubic follows them."""
    few = inside.fewest < FEW_LEVELS
    if isinstance(inside, ScatteredFactor) or (few and _is_held(budget, inside)):
        return False
    bound = EASY if few else FROZEN
    return is_long(budget, inside.cost * inside.work, bound) and can_freeze(Together(inside))


def _is_held(budget: Budget, inside: Integrand) -> bool:
    """Whether nodes that stay serve two effects a level, and save time."""
    if not isinstance(inside, Slopes):
        return False
    return is_long(budget, inside.cost * inside.work, FROZEN) and can_hold(inside)


def _is_steady(inside: Integrand) -> bool:
    """Whether rounding, wherever the rows of two effects a level are, must not move a draw."""
    return isinstance(inside, Slopes) and inside.N > APART


def climb_finer(inside: Integrand, start: np.ndarray, longest: np.ndarray) -> Mode:
    """The mode of sums, with more and more nodes where what few are off by hides it."""
    while True:
        try:
            return climb(inside.log_density, start, inside.derivatives, longest)
        except NoMode as error:
            if not isinstance(inside, Factor) or inside.nodes >= inside.ladder[-1]:
                raise
            inside.nodes, start = max(_FINE, 2 * inside.nodes - 1), error.evidence["point"]


def _mode_of_some(inside: Nested | Chain, start: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """Where some of the outermost levels have their mode, near which that of all is."""
    every = min(inside.N / _MANY, inside.fewest / FEW_LEVELS)
    if every < 2:
        return start
    some = inside.some(int(every))
    try:
        return climb(some.log_density, start, some.derivatives, longest, _NEAR).x
    except NoMode:  # all of them may have one
        return start


def around(mode: Mode) -> np.ndarray:
    """The mode, and points a few sds away on either side along each axis of its curvature."""
    axes = _AROUND * mode.axes().T
    return np.concatenate([mode.x[None], mode.x + axes, mode.x - axes])


def _is_learnt(budget: Budget, inside: Integrand, d: int, share: float = 1.0) -> bool:
    """Whether a cubic through few points ends in time, where all draws would take long."""
    work = share * inside.work
    cost = inside.cost if isinstance(inside, Factor) else 1.0
    if isinstance(inside, Crossed | Smoothed) or not is_long(budget, cost * work):
        return False
    return can_learn(budget, work, points_needed(d) + 2 * CHECKED, isinstance(inside, NESTED))


def begin(budget: Budget, inside: Integrand, d: int, last: bool = False) -> None:
    """`TooMuchWork` where neither all draws nor a cubic through few points would end in time."""
    if not _is_learnt(budget, inside, d, FEWEST_NODES):
        affordable(budget, FEWEST_NODES * inside.work, last)


def _learnt(
    whole: Inside,
    inside: Integrand,
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

    def sds_of(x: np.ndarray) -> np.ndarray:
        return in_sds(_natural(inside, path, x), log)

    nested = isinstance(inside, NESTED)
    found = learn(
        path.log_density,
        evaluate,
        proposal,
        d,
        refitted(inside),
        Budget(final=4096, limit=16384 if nested else 0, growth=0.5),
        seed,
        progress,
        mend=nested,
        known=_known(inside, path) if isinstance(inside, Starred) else NOTHING,
        wanting=uncertain(sds_of, True, lambda x: _natural(inside, path, x)[:, log])
        if nested
        else None,
        again=partial(fit_again, first=p) if nested else None,
    )
    natural = path.natural(found.weighted.x)
    checked = inside.error(natural[resampled(found.weighted.weights, _CHECKED // 8)])
    error = float(np.hypot(found.off, checked.max()))
    _, first, second = found.exact
    return Integral(natural, found.weighted, error, whole, first, second, natural[found.at])


def _stated(found: Integral, starred: Starred) -> Integral:
    """An integral over other coordinates than those of the sums that are asked of levels."""
    assert found.sample is not None
    more = min(_SAMPLE, int(_EASILY / starred.work))
    if more > len(found.sample):
        sample = found.theta[resampled(found.weighted.weights, more)]
        _, first, second = starred.evaluate(sample)
        found = replace(found, sample=sample, first=first, second=second)
    assert found.sample is not None
    return replace(
        found,
        theta=starred.stated(found.theta),
        sample=starred.stated(found.sample),
        near=starred.rows,
        scale=starred.rows.scale,
    )


def refitted(inside: Integrand) -> Refit:
    """Proposals from draws; of round numbers where last digits of the sums would move the answers."""
    p = inside.p
    if isinstance(inside, Chain | Starred) or _is_steady(inside):
        return lambda x, w: rounded(fit_blocks(x, w, p))
    return lambda x, w: fit_blocks(x, w, p)


def _natural(inside: Integrand, path: Path, x: np.ndarray) -> np.ndarray:
    """θ of draws along a path."""
    found = path.natural(x)
    return inside.stated(found) if isinstance(inside, Starred) else found


def _known(inside: Starred, path: Path) -> Known:
    """The priors, and coordinates in which the likelihood is smooth."""

    def part(x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            found = inside.log_known(path.natural(x)) + path.log_volume(x[:, inside.p :])
        return np.where(np.isnan(found), -np.inf, found)

    return Known(part, lambda x: inside.smooth(path.natural(x), x, path.theta))
