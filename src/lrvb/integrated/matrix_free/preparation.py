"""From rows' sums to a polynomial that can be trusted where the posterior is."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

from ..mode import NoMode, climb, differenced
from .evidence import Point
from .location import Domain, locate
from .model import MatrixFree
from .schur import gathered, inverse
from .surrogate import Shares, Surrogate

AXIS = 3.0  # sds from the mode at which the first points stand
BETWEEN = (1.5, 3.0, 5.0)  # and those on a wide axis
CORNER = 2.3  # sds of both axes, beside those
SLOW = 1.3  # times as far as by curvature that the density reaches along an axis that is stretched
REACHED = 1.2  # of the domain's reach, within which points count
TRIES = 4
MENDED = 8  # times
LEAST = 1e-6  # of the mean level's sum of squares that one counts with at least


def prepare(model: MatrixFree) -> np.ndarray:
    """Find the posterior, and compute h and M around it; θ at the mode."""
    found = locate(model.evidence, start(model), lambda point: slope(model, point))
    model.points, model.heights = [], []
    _keep(model, found.points)
    center, covariance = found.points[-1].zeta, np.linalg.inv(found.curvature)
    shares = Shares(model.big, _sizes(model, center))
    for _ in range(TRIES):
        model.domain = Domain(_kinds(model), center, covariance)
        _explore(model)
        _join(model, shares)
        mode, center, covariance = _settled(model, shares)
        moved = model.domain.distances(center[None])[0]
        new = Domain(_kinds(model), center, covariance)
        ratio = np.linalg.svd(np.linalg.solve(model.domain.axes, new.axes))[1]
        if np.abs(moved).max() < 0.5 and ratio.max() < 1.4:
            break
    return mode


def check(model: MatrixFree, theta: np.ndarray, close: float) -> bool:
    """Compute h and M at n more points of θ; whether the polynomial was close there, or else mend it."""
    expected = model.log_density(theta)
    zeta, cost = model.domain.within(model.zeta(theta))
    points = [model.evidence.at(z) for z in np.unique(zeta, axis=0)]
    every = [points[k] for k in np.unique(zeta, axis=0, return_inverse=True)[1].reshape(-1)]
    h, M = np.array([p.h for p in every]), np.array([p.M for p in every])
    found = model.outside(theta, h, M).value - cost
    _keep(model, points)
    model.error = float(np.abs(found - expected).max())
    if model.error > close:
        _join(model, model.surrogate.shares)
    return model.error <= close


def reprobe(model: MatrixFree, probes: int) -> None:
    """More probes, at all points that are near."""
    zeta = [model.points[k].zeta for k in _near(model)]
    model.evidence.probe(probes)
    model.points, model.heights = [], []
    _keep(model, [model.evidence.at(z) for z in zeta])
    _join(model, model.surrogate.shares)


def start(model: MatrixFree) -> np.ndarray:
    """A first ζ from each factor's sums of squares, as if it were alone."""
    sums = model.sums
    p = sums.p
    a = np.r_[-np.linalg.lstsq(sums.TT[:p, :p], sums.TT[:p, p], rcond=None)[0], 1.0]
    total = float(a @ sums.TT @ a)
    parts: dict[int, np.ndarray] = {}
    roots = _roots(model)
    sizes = [_own(D, W) for D, W in zip(sums.D, roots, strict=True)]
    sizes = [np.maximum(size, LEAST * size.mean(0) + 1e-300) for size in sizes]
    both = zip(sums.t, roots, sizes, strict=True)
    squares = [((t @ a @ W) ** 2 / size).sum(0) for t, W, size in both]
    left = total - sum(float(square[0]) for square in squares)
    within = max(left / max(1, sums.n - sum(sums.levels)), 0.05 * total / sums.n)
    for terms, size, square in zip(model.evidence.factors, sizes, squares, strict=True):
        ratio = (square / within - len(size)) / size.sum(0)
        ratio = np.clip(ratio, 1e-2 / size.mean(0), 1e2)
        at = 0
        for t in terms:
            term = model.big[t]
            half = np.log(ratio[at : at + term.q]) / 2
            parts[t] = np.r_[half, np.zeros(term.size - term.q)]
            at += term.q
    return np.concatenate([parts[t] for t in range(len(model.big))])


def profile(model: MatrixFree, point: Point) -> np.ndarray:
    """The most likely ω (k,) at a point: small factors' covariances, sds of penalties and log σ."""
    p, M = model.sums.p, point.M
    left = M[p, p] - M[p, :p] @ np.linalg.lstsq(M[:p, :p], M[:p, p], rcond=None)[0]
    scale = np.sqrt(max(left, 1e-8 * M[p, p]) / model.n)
    first = [model.terms[t].start(scale) for factor in model.small for t in factor.terms]
    order = [t for factor in model.small for t in factor.terms]
    parts = [first[i] for i in np.argsort(order)] if order else []

    def value(omega: np.ndarray) -> np.ndarray:
        k = len(omega)
        theta = model.theta(np.repeat(point.zeta[None], k, 0), omega)
        return model.outside(theta, np.full(k, point.h), np.repeat(M[None], k, 0)).value

    own = np.full(len(model.rows.penalties) + 1, np.log(scale))
    return climb(value, np.r_[*parts, own], tolerance=1e-2).x


def slope(model: MatrixFree, point: Point) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, gradient and expected curvature of log p(y, ζ) with ω at its best."""
    p, omega = model.sums.p, profile(model, point)
    theta = model.theta(point.zeta[None], omega[None])
    found = model.outside(theta, np.array([point.h]), point.M[None])
    a = np.r_[-found.b[0], 1.0]
    fit = np.einsum("i,kij,j->k", a, point.M_slope, a)
    fit = fit + np.einsum("kij,ji->k", point.M_slope[:, :p, :p], found.covariance[0])

    def prior(zeta: np.ndarray) -> np.ndarray:
        at = model.theta(zeta, np.repeat(omega[None], len(zeta), 0))
        return model.log_prior(at, model.spreads(at))

    _, own, own_curvature = differenced(prior)(point.zeta)
    gradient = -point.h_slope / 2 - np.exp(-2 * omega[-1]) * fit / 2 + own
    information = _information(model, point.zeta) - np.minimum(np.diag(own_curvature), 0.0)
    return float(found.value[0]), gradient, np.diag(np.maximum(information, 0.1))


def _explore(model: MatrixFree) -> None:
    """Points along the axes of the domain; axes along which the density falls slowly are stretched."""
    domain = model.domain
    eye = np.eye(len(domain.center))
    ends = domain.point(AXIS * np.concatenate([eye, -eye]))
    first = len(model.points)
    _keep(model, [model.evidence.at(zeta) for zeta in ends])
    height = np.array(model.heights[first:]) + domain.log_volume(ends)
    top = float(domain.log_volume(domain.center[None])[0]) + max(model.heights)
    fall = np.maximum(top - height, 0.3).reshape(2, -1).min(0)
    stretch = np.minimum(AXIS / np.sqrt(2 * fall), 4.0)
    stretch = np.where(domain.wide, 1.0, np.where(stretch > SLOW, stretch, 1.0))
    model.domain = Domain(_kinds(model), domain.center, domain.covariance, stretch)
    wide = np.flatnonzero(model.domain.wide)
    offsets = [side * step * eye[k] for k in wide for side in (1, -1) for step in BETWEEN]
    for k in wide:
        for j in np.setdiff1d(np.arange(len(eye)), wide[wide <= k]):
            offsets += [CORNER * (a * eye[k] + b * eye[j]) for a in (1, -1) for b in (1, -1)]
    if offsets:
        more = model.domain.point(np.array(offsets))
        _keep(model, [model.evidence.at(zeta) for zeta in more])


def _kinds(model: MatrixFree) -> list:
    return [model.kinds[k] for k in model.split.zeta]


def _sizes(model: MatrixFree, zeta: np.ndarray) -> list[np.ndarray]:
    """What rows tell of a typical level of each term, the other factor integrated out, (q, q)."""
    schur, sums = model.evidence.schur(zeta), model.sums
    first = sums.D[0]
    if sums.r:
        cells = sums.cells[0, 1]
        own = inverse(schur.own[0])[cells.second]
        first = first - gathered(cells.C.swapaxes(1, 2), own, cells.first, sums.levels[0])
    informed = [first.mean(0)]
    informed += [(K - P).mean(0) for K, P in zip(schur.K, schur.precisions[1:], strict=True)]
    found: dict[int, np.ndarray] = {}
    for f, terms in enumerate(model.evidence.factors):
        at = 0
        for t in terms:
            here = slice(at, at + model.big[t].q)
            found[t], at = informed[f][here, here], here.stop
    return [found[t] for t in range(len(model.big))]


def _information(model: MatrixFree, zeta: np.ndarray) -> np.ndarray:
    """About what a term's levels tell of each ζ, as if its factor were alone, (D,)."""
    found: dict[int, np.ndarray] = {}
    precisions = model.evidence.precisions(zeta)
    whole = zip(model.evidence.factors, model.sums.D, precisions, _roots(model), strict=True)
    for terms, D, Lambda, W in whole:
        sizes, prior = _own(D, W), _own(Lambda, W)
        at = 0
        for t in terms:
            q = model.big[t].q
            size = sizes[:, at : at + q]
            share = size / (size + prior[at : at + q])
            sds = 2 * (share**2).sum(0) - 2 * share.sum(0) ** 2 / model.n
            i, j = np.tril_indices(q, -1)
            found[t] = np.r_[sds, (share[:, i] * share[:, j]).sum(0)]
            at += q
    return np.concatenate([found[t] for t in range(len(model.big))])


def _roots(model: MatrixFree) -> list[np.ndarray]:
    """M⁻¹ of each factor: from the coefficients whose covariance θ states to those of the columns."""
    factors = model.evidence.factors
    return [np.linalg.inv(block_diag(*(model.big[t].basis for t in terms))) for terms in factors]


def _own(D: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The diagonal of WᵀDW, (..., q)."""
    return np.maximum(np.einsum("ai,...ab,bi->...i", W, D, W), 0.0)


def _keep(model: MatrixFree, points: list[Point]) -> None:
    """More points, each with the log density at its best."""
    model.points += points
    model.heights += [slope(model, point)[0] for point in points]


def _join(model: MatrixFree, shares: Shares) -> None:
    """The polynomial through all points that are near, each for as much as its density counts."""
    near = _near(model)
    height = np.array([model.heights[k] for k in near])
    weights = 1 / (1 + (height.max() - height) / 4)
    points = [model.points[k] for k in near]
    model.unsolved = max(point.unsolved for point in points)
    model.surrogate = Surrogate(shares, points, model.domain.center, weights)


def _near(model: MatrixFree) -> list[int]:
    """The points that count."""
    zeta = np.array([point.zeta for point in model.points])
    radius = np.sqrt((model.domain.distances(zeta) ** 2).sum(1))
    return list(np.flatnonzero(radius <= REACHED * model.domain.reach))


def _settled(model: MatrixFree, shares: Shares) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, with more points where a polynomial through too few of them has no mode."""
    for _ in range(MENDED):
        try:
            return _settle(model)
        except NoMode as error:
            zeta = model.domain.within(model.zeta(error.evidence["point"][None]))[0]
            _keep(model, [model.evidence.at(zeta[0])])
            _join(model, shares)
    return _settle(model)


def _settle(model: MatrixFree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """θ at the mode by the polynomial; ζ there, and its covariance."""
    nearest = min(
        model.points, key=lambda p: float((model.domain.distances(p.zeta[None]) ** 2).sum())
    )
    first = model.theta(nearest.zeta[None], profile(model, nearest)[None])[0]
    mode = climb(model.log_density, first)
    J = np.eye(len(first))[model.split.zeta]
    J[:, -1] -= model.split.relative
    return mode.x, model.zeta(mode.x[None])[0], J @ np.linalg.inv(-mode.hessian) @ J.T
