"""One factor of many levels: θ from sums of rows that are visited a few dozen times.

Some of the levels find the mode and the nodes. Around it the sums of all are frozen, which gives the
mode itself and a cubic of the log density; what that is off by is then measured at draws of the
posterior, with the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .coordinates import Kind
from .effort import LONG
from .factor import TOLERANCE, Factor, pairs_of
from .frozen import MOST, Frozen, passes
from .importance import Budget, resampled
from .inside import Evaluated
from .integral import Integral, regression_on
from .mode import Mode, NoMode, climb
from .path import Path
from .proposals import fit_blocks, probed
from .surrogate import CHECKED, OFF, NotSmooth, learn, points_needed

FIRST = 20_000  # rows, of at least 500 levels, that find a first mode
_LEVELS = 500
_EXACT = 12  # draws at which the cubic is measured with all rows
_DOUBLED = 4  # draws at which the nodes are doubled
_STENCIL = 4  # Newton's steps of a frozen density, each of 2d² points


def can_freeze(inside: object) -> bool:
    """Whether frozen sums fit in memory and end in time."""
    if not isinstance(inside, Factor):
        return False
    d, visits = len(inside.kinds), passes(inside)
    nodes = inside.G * float(inside.nodes**inside.q)
    points = points_needed(d) + 4 * CHECKED + 10 * d + _STENCIL * 2 * d**2
    work = inside.cost * inside.work * (2 * visits + _EXACT) + nodes * points
    return nodes * (visits + 2 * inside.q) < MOST and work < 5 * LONG


def integrate_many(
    inside: Factor,
    start: np.ndarray,
    longest: np.ndarray,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Integral:
    """θ = (β, hyperparameters) of one factor; `NotSmooth` where no cubic follows the log density.

    longest (d,) bounds Newton's steps.
    """
    counts = inside.groups.counts
    every = max(1, int(min(inside.N / FIRST, inside.G / _LEVELS)))
    some, _ = inside._only(np.arange(0, inside.G, every))
    share = float(some.groups.counts.sum() / counts.sum())
    first = climb(some.log_density, start, some.derivatives, longest)
    spread = sds(first)
    around = np.array([first.x, *_up_and_down(first.x, 2 * np.sqrt(share) * spread, inside.kinds)])
    some.choose_nodes(around, share * TOLERANCE, move=False)
    inside.choose_nodes(first.x[None], TOLERANCE, move=False, least=some.nodes)
    some, _ = inside._only(np.arange(0, inside.G, every))
    some._known = share * inside._known
    frozen = Frozen(inside, first.x, spread)
    mode = _top(frozen, first.x, longest)
    if len(frozen.others):
        frozen = Frozen(inside, mode.x, sds(mode))
        mode = _top(frozen, mode.x, longest)
    path = Path(frozen, mode, straight=True)
    proposal = probed(path.log_density, path.start, path.axes, (1.0, 3.0))

    def evaluate(x: np.ndarray) -> Evaluated:
        nothing = np.empty((len(x), 0))
        return Evaluated(path.log_density(x), nothing, nothing)

    found = learn(
        evaluate,
        proposal,
        len(longest),
        lambda x, w: fit_blocks(x, w, inside.p),
        Budget(final=4096),
        seed,
        progress,
    )
    weighted = found.weighted
    theta = path.natural(weighted.x)
    at = resampled(weighted.weights, _EXACT, seed + 1)
    exact = inside.log_density(theta[at]) + path.log_volume(weighted.x[at, inside.p :])
    off = float(np.sqrt(np.mean((exact - weighted.log_p[at]) ** 2)))
    if not off < OFF:
        raise NotSmooth(
            f"A cubic of the log density is off by {off:.2g} over the posterior, more than the {OFF} "
            "that would do.",
            off=off,
        )
    nodes = some.error(theta[at[:_DOUBLED]]).max() / share
    sample = path.natural(found.x)
    _, m1, m2 = frozen.evaluate(sample)
    away, line = regression_on(weighted, theta, sample)
    cov = away.T @ (weighted.weights[:, None] * away)
    m2 = steadied(m1.reshape(len(sample), inside.G, -1), m2, line, cov)
    error = float(np.hypot(off, nodes))
    return Integral(theta, weighted, error, inside, m1, m2, sample, near=frozen)


def steadied(
    first: np.ndarray, second: np.ndarray, line: np.ndarray, cov: np.ndarray
) -> np.ndarray:
    """Second moments (k, Gm) at a sample, whose mean is that of E Var + Cov E and not of E zzᵀ.

    first (k, G, q) varies with θ nearly linearly, by `line` (1 + d, k), and θ with `cov` (d, d): the products
    of its means are known, and do not vary with the sample.
    """
    k, G, q = first.shape
    second = second.reshape(k, G, -1)
    lines = np.tensordot(line, first, axes=1)  # (1 + d, G, q)
    mean, slopes = lines[0], lines[1:]
    result = np.empty_like(second)
    for row, (i, j) in enumerate(pairs_of(q)):
        within = second[..., row] - first[..., i] * first[..., j]
        between = np.einsum("ag,ab,bg->g", slopes[..., i], cov, slopes[..., j], optimize=True)
        result[..., row] = within + between + mean[:, i] * mean[:, j]
    return result.reshape(k, -1)


def sds(mode: Mode) -> np.ndarray:
    """Sds by the curvature; `NotSmooth` at a point that is no maximum."""
    curvature, U = np.linalg.eigh(-mode.hessian)
    if not (curvature > 0).all():
        raise NotSmooth("The log density of some levels has no maximum.", curvature=curvature)
    return np.sqrt((U**2 / curvature).sum(1))


def _top(frozen: Frozen, start: np.ndarray, longest: np.ndarray) -> Mode:
    """The mode of frozen sums, which they may not have far from their center."""
    try:
        return climb(frozen.log_density, start, frozen.derivatives, longest)
    except NoMode as error:
        raise NotSmooth(str(error)) from error


def _up_and_down(x: np.ndarray, moves: np.ndarray, kinds: list[Kind]) -> list[np.ndarray]:
    """x with its sds and dispersions larger, and smaller."""
    far = np.isin(np.array(kinds), ["log", "logit"])
    move = np.where(far, np.minimum(moves, 2.0), 0.0)
    return [x + move, x - move]
