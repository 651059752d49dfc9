"""Weighted draws of θ around a Gaussian block: few fits, and a polynomial checked at its own draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from ...numerics.sobol import sobol
from ..effort import enough
from ..importance import Budget, Weighted, integrate, resampled
from ..integral import Integral
from ..mode import Mode, NoMode
from ..origins import overlooked
from ..proposals import SplitT, degrees, fit_blocks, rounded
from ..wanting import MEAN_ERROR, in_sds, in_variances
from .fitting import cold_start
from .joint import Joint, joint
from .model import MOST_TILTS, Block
from .points import Fits, Point, respond
from .polynomial import Frame, places, settled

Progress = Callable[[int, int], None]

LIMIT = 40  # fits on the way to the mode
SMALL = 0.02  # expected gain of the step that is the last
LONGEST = 1.0  # step of a coordinate
APART = 1.5  # sds from the mode at which the first points stand
LONG, FAR = (
    0.3,
    3.2,
)  # length of a bent axis whose tails are not those of its middle; where those are seen
OFF = 0.04  # sd of what the polynomial is off by over the posterior
KNOWN = 0.2  # the same, below which its draws tell where the posterior is, and how wide
ROUNDS, MORE_ROUNDS = (
    8,
    16,
)  # of checks, and where points have joint draws, which only small models have
EFFICIENT = 0.3  # of joint draws at the center, the share that must count
FEW = 2.5  # points that must share the density for their differences to be a measure
LOW = 2.0  # fall of the log density from its highest point within which a mean can be
WIDE = (0.02, 0.8)  # sds of bent coordinates, at least and at most
ROUND = (
    2.0**20
)  # parts of a nat to which log densities of draws are round: rounding has no say in proposals
KEPT = 2**23  # numbers of levels' moments at the draws where they are evaluated


def integrate_block(
    inside: Block, budget: Budget | None = None, seed: int = 0, progress: Progress | None = None
) -> Integral:
    """θ = (β, u) of any response and any factors, by the block's evidence with all levels' own sums."""
    layout, p = inside.layout, inside.p
    kinds = inside.kinds[p:]
    fits = Fits(layout, cold_start(layout))
    u, H = _climb(fits, inside.start()[p:], inside)
    k = len(u)
    frame = settled(kinds, u, _axes(kinds, u, H))
    points = [fits.at(frame.outward(np.zeros((1, k)))[0])]
    for j, length in enumerate(np.diag(frame.axes)):
        for distance in (APART, FAR) if length > LONG else (APART,):
            for side in (distance, -distance):
                points += _computed(fits, frame, side * np.eye(k)[[j]])
    budget = budget or enough(k, inside.fewest)
    frame, points, weighted, off = _learnt(inside, fits, frame, points, budget, seed, progress)
    if inside.layout.complete and _shift(inside, weighted) > MEAN_ERROR / 2:
        fits.joint = _drawn_jointly(inside, fits)
        if fits.joint is not None:
            inside.joint = len(fits.joint.e)
            points = _weighed(fits, points)
            frame, points, weighted, off = _learnt(
                inside, fits, frame, points, budget, seed, progress
            )
    seen = frame.outward(weighted.x)[weighted.heavy()]
    inside.overlooked = overlooked(inside.terms, seen, kinds, lambda u: _heights(fits, u))
    if 0 < p <= MOST_TILTS:
        _respond(inside, fits)
    inside.settle(fits)
    return _joined(inside, weighted, off, seed)


def _shift(inside: Block, weighted: Weighted) -> float:
    """How far what no level has alone moves means of u, in sds."""
    w = weighted.weights
    u = inside.frame.outward(weighted.x)
    rest = inside.polynomial.rest(u)
    away = u - w @ u
    return float((np.abs(away.T @ (w * (rest - w @ rest))) / np.sqrt(w @ away**2)).max())


def _drawn_jointly(inside: Block, fits: Fits) -> Joint | None:
    """Joint draws where there can be and enough of them count at the center."""
    made = joint(inside.layout)
    if made is None:
        return None
    center = fits.fit(inside.points[inside.nearest_to_center()].u)
    return made if made(center).efficiency > EFFICIENT else None


def _learnt(
    inside: Block,
    fits: Fits,
    frame: Frame,
    points: list[Point],
    budget: Budget,
    seed: int,
    progress: Progress | None,
) -> tuple[Frame, list[Point], Weighted, float]:
    """Draws by a polynomial through points, and more of them until it is close; what it is off by."""
    kinds, u = inside.kinds[inside.p :], points[0].u
    k = len(u)
    off, log = np.inf, np.array(kinds) == "log"
    for round_ in range(ROUNDS if fits.joint is None else MORE_ROUNDS):
        inside.learn(frame, points)
        weighted = _drawn(inside, budget, seed)
        w = weighted.weights
        # tails are looked at more often than they occur, and where sds have their variances most of all
        far = in_variances(in_sds(frame.outward(weighted.x), log), w)
        tails = resampled(np.sqrt(w) * far, 1 + k // 2, seed + round_)
        new = _computed(fits, frame, weighted.x[resampled(w, 3 + k, seed + round_)])
        checked = len(new) == 3 + k  # where the mass is, every one of them says how far it is off
        new += _computed(fits, frame, weighted.x[tails])
        if not new:
            raise NoMode("No Gaussian block was found at draws of the hyperparameters.", point=u)
        points += new
        if progress is not None:
            progress(len(points), len(points) + budget.final)
        off = _off(inside, new) if checked else np.inf
        center, cov = w @ weighted.x, np.cov(weighted.x.T, aweights=w).reshape(k, k)
        if off < OFF:
            break  # with the polynomial that was checked
        moved = np.sqrt(center @ np.linalg.solve(cov, center))
        lengths = np.sqrt(np.linalg.eigvalsh(cov))
        if off < KNOWN and (moved > 0.7 or lengths.max() > 1.6 or lengths.min() < 0.6):
            middle = frame.outward(places(center[None]))[0]
            there = _computed(fits, frame, center[None])
            points += there
            if not there or there[0].value < max(point.value for point in points) - LOW:
                continue  # drawn by what the polynomial has wrong
            whole = frame.axes @ cov @ frame.axes.T
            old, frame = frame, Frame(kinds, middle, np.eye(k))
            # the same spread, in the coordinates bent around the new middle
            turn = frame.bend.slope(frame.middle) / old.bend.slope(old.bend.bend(middle))
            frame = settled(kinds, middle, np.linalg.cholesky(whole / turn[:, None] / turn))
    else:
        inside.learn(frame, points)
        weighted = _drawn(inside, budget, seed)
    return frame, points, weighted, off


def _off(inside: Block, new: list[Point]) -> float:
    """The sd of what the polynomial is off by at new points, each counting as the density does there.

    Where one of them has all the density, none says how well that is known: all count alike then.
    """
    u = np.array([point.u for point in new])
    expected = inside.polynomial(u)
    found = np.array([point.value for point in new])
    height = np.maximum(found, expected) + inside.frame.log_jacobian(inside.frame.inward(u))
    share = np.exp((height - height.max()) / 2)
    share = share / share.sum()
    if 1 / (share**2).sum() < FEW:
        share = np.full(len(new), 1 / len(new))
    away = found - expected - share @ (found - expected)
    return float(np.sqrt(share @ away**2))


def _computed(fits: Fits, frame: Frame, e: np.ndarray) -> list[Point]:
    """The points near n places e (n, k), but for those where there is no fit: tails beyond all numbers."""
    return _points(fits, frame.outward(places(e)))


def _points(fits: Fits, u: np.ndarray) -> list[Point]:
    found = []
    for place in u:
        try:
            found.append(fits.at(place))
        except NoMode:
            continue
    return found


def _weighed(fits: Fits, points: list[Point]) -> list[Point]:
    """The points with the evidence of joint draws, but for those where there are none: tails again."""
    found = []
    for point in points:
        try:
            found.append(fits.weighed(point, fits.fit(point.u)))
        except NoMode:
            continue
    return found


def _heights(fits: Fits, u: np.ndarray) -> np.ndarray:
    """log p(y, u) at n points, with a fit of its own each; −∞ where there is none."""
    found = np.full(len(u), -np.inf)
    for i, place in enumerate(u):
        for point in _points(fits, place[None]):
            found[i] = point.value
    return found


def _climb(fits: Fits, start: np.ndarray, inside: Block) -> tuple[np.ndarray, np.ndarray]:
    """The mode of the bound, and its curvature, by secants: Newton's method with gradients alone."""
    x, best, shrink = start.copy(), -np.inf, 1.0
    old: tuple[np.ndarray, np.ndarray] | None = None
    H = np.diag([_curvature(inside, j) for j in range(len(x))])
    for _ in range(LIMIT):
        try:
            found = fits.fit(x)
        except NoMode:
            if old is None:
                raise
            found = None
        if old is not None and (found is None or not found.bound > best - 0.5):
            shrink /= 4
            if shrink < 1e-4:
                break
            x = old[0] + shrink * (x - old[0])
            continue
        assert found is not None
        best, shrink = max(best, found.bound), 1.0
        if old is not None:
            s, change = x - old[0], old[1] - found.gradient
            if s @ change > 1e-8:
                Hs = H @ s
                H = H - np.outer(Hs, Hs) / (s @ Hs) + np.outer(change, change) / (s @ change)
        step = np.linalg.solve(H, found.gradient)
        if step @ found.gradient < SMALL:
            return x, H
        old = (x, found.gradient)
        x = x + step * min(1.0, LONGEST / np.abs(step).max())
    raise NoMode(
        f"The mode of the hyperparameters was not found in {LIMIT} fits. A stated prior of the sds "
        "usually helps.",
        point=x,
    )


def _curvature(inside: Block, j: int) -> float:
    """A first guess: half the levels of a term know its log sd, rows a dispersion."""
    at = 0
    for term in inside.terms:
        if at <= j < at + term.size:
            return max(1.0, term.levels / 2)
        at += term.size
    return max(1.0, inside.layout.N / 4)


def _axes(kinds: list, u: np.ndarray, H: np.ndarray) -> np.ndarray:
    """One sd in bent coordinates along each axis, by the curvature in u."""
    frame = Frame(kinds, u, np.eye(len(u)))
    slope = frame.bend.slope(frame.middle)
    scaled = Mode(frame.middle, 0.0, -slope[:, None] * H * slope)
    sd = np.sqrt((scaled.axes(1 / WIDE[1] ** 2) ** 2).sum(1))
    return np.diag(np.clip(sd, *WIDE))


def _drawn(inside: Block, budget: Budget, seed: int) -> Weighted:
    """Weighted draws of e by the polynomial."""
    k = len(inside.frame.middle)

    def target(e: np.ndarray) -> np.ndarray:
        value = inside.polynomial(inside.frame.outward(e)) + inside.frame.log_jacobian(e)
        return np.rint(value * ROUND) / ROUND

    start = SplitT(np.zeros(k), np.eye(k), np.full(k, 1.3), np.full(k, 1.3), degrees(k))
    return integrate(target, start, lambda x, w: rounded(fit_blocks(x, w, 0)), budget, seed)


def _respond(inside: Block, fits: Fits) -> None:
    """β's shift and covariance beyond q's, at the center."""
    point: Point = inside.points[inside.nearest_to_center()]
    shift, covariance, noise = respond(fits, point)
    root = np.linalg.cholesky(point.C)
    values, V = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, covariance).T))
    inside.shift = shift
    # a tilt t moves the mean by Ct
    inside.tilts = np.linalg.solve(point.C, np.sqrt(np.diag(point.C))[:, None] * noise)
    inside.stretch = (V * np.sqrt(np.clip(values, 0.7, 1.5))) @ V.T


def _joined(inside: Block, weighted: Weighted, off: float, seed: int) -> Integral:
    """θ = (β, u), β drawn given each u."""
    u = inside.frame.outward(weighted.x)
    n, p = len(u), inside.p
    b, L = inside.beta(u)
    e = np.zeros((n, 0))
    if p:
        points = sobol(1 << int(np.ceil(np.log2(n))), p, seed + 17)
        order = np.random.default_rng(seed).permutation(len(points))[:n]
        e = ndtri(np.clip(points[order], 1e-9, 1 - 1e-9))
    theta = np.concatenate([b + np.einsum("nij,nj->ni", L, e), u], axis=1)
    few = int(np.clip(KEPT // len(inside.points[0].mean), 64, 1024))
    sample = theta[resampled(weighted.weights, few, seed)]
    _, first, second = inside.evaluate(sample)
    rest, noise = None if inside.joint else inside.polynomial.rest(u), None
    parts = np.array([point.noise + point.probed for point in inside.points])
    if parts.any():
        noise = inside.between(u) @ parts
        noise += (theta[:, :p] - b) @ inside.tilts
    return Integral(theta, weighted, off, inside, first, second, sample, noise, rest)
