"""What the slope between the draws and the far tails adds to variances, by Laplace's method along it.

Where data bound a rate from one side alone, its log-normal prior outlives them and p falls to a shelf a few
sds out: a draw in a thousand may hold a quarter of the variance, and as chains seldom come there, neither
their agreement nor the tail index of their draws tells. Along the ridge of a coordinate its marginal is known
but for a constant, which is settled where draws are many.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.interpolate import PchipInterpolator

from ..posterior.tails import NEAR
from .far_ridges import Ridges, affordable, laplace, rays_of
from .kernel import Kernel, Values

#: Quantiles between which draws settle the constant, the one between them, and beyond which they are few.
MANY, HALFWAY, FEW = 0.9, 0.95, 0.99
ALIKE = np.log(1.5)  # of the draws' shares in both parts: where Laplace's are not so, he is wrong
JUMP = 4.0, 2.0  # from point to point, times the step and sds beside, that are no ridge any more
FIRST = 0.1  # sds from the center at which a ray may begin
POINTS, FINE = 16, 400  # of a ridge up to NEAR sds, and of the integral along it
SUSPECT = (
    0.13  # of a variance beyond the outer quantile; a normal has 0.08 there, an exponential 0.22
)
LINE = np.array([5.0, 7.0, 10.0])  # sds out at which all rays are looked at
COUNTS = np.log(0.01)  # of p·t² there, in units of the center's density: a normal's is e^−9
EFFORT = 6  # steps of Newton's method that a point may take, by experience
RAYS, SMALL = 8, 50  # rays that are followed in any case, up to so many dimensions
NOTHING = 60.0  # of log p below the first point's


def missed_on_slopes(kernel: Kernel, values: Values, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Shares of the variances of g (n, q) that draws x (n, D) lack beyond their outer quantiles, (q,).

    `values` maps x to g. Where g hangs on more than the coordinate it is what there is at least. Where the
    marginal by Laplace's method is not the draws' own between the quantiles nothing is known. As many rays
    are followed as a share of all gradients allows, those with the largest part of a variance first: what the
    draws have there, or p on the line that their correlations suggest.
    """
    ridges, starts = rays_of(kernel, x)
    mean, variance = g.mean(axis=0), np.maximum(g.var(axis=0), 1e-300)
    t = np.linalg.solve(ridges.root, (x - ridges.center).T).T @ ridges.a.T
    begin, half, outer = np.quantile(t, (MANY, HALFWAY, FEW), axis=0)
    drawn = (t > outer).T @ (g - mean) ** 2 / (len(x) * variance)  # (rays, q)
    drawn[:, g.var(axis=0) == 0] = 0.0
    seen, line = drawn.max(axis=1, initial=0.0), _on_the_line(ridges, starts)
    heavy = np.maximum(
        np.where(seen > SUSPECT, seen, 0.0), np.where(line > COUNTS, np.exp(line), 0.0)
    )
    heavy[begin <= FIRST] = 0.0
    most = affordable(kernel, EFFORT * (2 * kernel.size + 1) * POINTS)
    most = max(most, RAYS) if kernel.size <= SMALL else most
    chosen = [r for r in np.argsort(-heavy)[:most] if heavy[r] > 0]
    missed = np.zeros(g.shape[1])
    if not chosen:
        return missed
    away = begin[chosen] * (NEAR / begin[chosen]) ** np.linspace(0, 1, POINTS)[:, None]
    tries = away[..., None] * starts[:, None, chosen] / NEAR
    here = ridges.some(np.array(chosen))
    best = np.argmax(here.at(tries)[0], axis=0)
    u = np.take_along_axis(tries, best[None, ..., None], axis=0)[0]
    edges = np.stack([begin, half, outer])[:, chosen]
    shares = -np.diff((t[:, None, chosen] > edges).mean(axis=0), axis=0)
    near = (
        int((away <= edges[2]).sum(axis=0).max()) + 2
    )  # what these do not settle is followed no farther
    log_p = laplace(here, u[:near])[1]
    known = [
        k
        for k in range(len(chosen))
        if _constant(away[:near, k], log_p[:, k], edges[:, k], shares[:, k]) > 0
    ]
    here, u, away = here.some(np.array(known, dtype=int)), u[:, known], away[:, known]
    if not known:
        return missed
    path, log_p = laplace(here, u)
    moved = np.linalg.norm(np.diff(path, axis=0), axis=-1)
    log_p[1:][moved > JUMP[0] * np.diff(away, axis=0) + JUMP[1]] = np.nan
    for k, ray in enumerate(known):
        found = values(here.points(path[:, k]))
        squares = _beyond(away[:, k], log_p[:, k], found, mean, edges[:, ray], shares[:, ray])
        missed = np.maximum(missed, squares / variance - drawn[chosen[ray]])
    return np.where(g.var(axis=0) > 0, missed, 0.0)


def _on_the_line(ridges: Ridges, starts: np.ndarray) -> np.ndarray:
    """The largest log p·t² on straight ways of every ray, p in units of the center's, (rays,); 0 at most."""
    ways = LINE[:, None, None, None] * starts / NEAR
    top = ridges.at(np.zeros((1, *starts.shape[1:])))[0][0]
    found = ridges.at(ways)[0].max(axis=1) - top + 2 * np.log(LINE)[:, None]
    return np.minimum(np.nan_to_num(found.max(axis=0), nan=-np.inf), 0.0)


def _constant(t: np.ndarray, log_p: np.ndarray, edges: np.ndarray, shares: np.ndarray) -> float:
    """What p in units of the first point's is times, by log p (m,) at t (m,); zero where it does not fit.

    p has the `shares` (2,) between three edges together, and nearly so each.
    """
    with np.errstate(invalid="ignore"):
        known = log_p > log_p[0] - NOTHING
    m = len(t) if known.all() else int(np.argmin(known))
    if m < 3 or t[m - 1] <= edges[2]:
        return 0.0
    curve = PchipInterpolator(np.log(t[:m]), log_p[:m] - log_p[0])
    parts = [np.geomspace(a, b, FINE) for a, b in itertools.pairwise(edges)]
    first, second = (np.trapezoid(np.exp(curve(np.log(part))), part) for part in parts)
    if not np.abs(np.log(second / first * shares[0] / shares[1])) <= ALIKE:
        return 0.0
    return float(shares.sum() / (first + second))


def _beyond(
    t: np.ndarray,
    log_p: np.ndarray,
    g: np.ndarray,
    mean: np.ndarray,
    edges: np.ndarray,
    shares: np.ndarray,
) -> np.ndarray:
    """∫(g − mean)² p beyond the last of three edges, by log p (m,) and g (m, q) at t (m,); (q,).

    As far as both are known; zero where that is not beyond, or where no constant fits.
    """
    log_p = np.where(np.isfinite(g).all(axis=1), log_p, np.nan)
    constant = _constant(t, log_p, edges, shares)
    if not constant:
        return np.zeros(g.shape[1])
    with np.errstate(invalid="ignore"):
        known = log_p > log_p[0] - NOTHING
    m = len(t) if known.all() else int(np.argmin(known))
    beyond = np.geomspace(edges[2], t[m - 1], FINE)
    p = np.exp(PchipInterpolator(np.log(t[:m]), log_p[:m] - log_p[0])(np.log(beyond)))
    square = (PchipInterpolator(t[:m], g[:m])(beyond) - mean) ** 2
    return constant * np.trapezoid(p[:, None] * square, beyond, axis=0)
