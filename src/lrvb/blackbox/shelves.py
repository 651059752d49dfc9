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
    chosen = [r for r in np.argsort(-heavy)[:most] if heavy[r] > 0]
    missed = np.zeros(g.shape[1])
    if not chosen:
        return missed
    away = begin[chosen] * (NEAR / begin[chosen]) ** np.linspace(0, 1, POINTS)[:, None]
    tries = away[..., None] * starts[:, None, chosen] / NEAR
    here = ridges.some(np.array(chosen))
    best = np.argmax(here.at(tries)[0], axis=0)
    path, log_p = laplace(here, np.take_along_axis(tries, best[None, ..., None], axis=0)[0])
    moved = np.linalg.norm(np.diff(path, axis=0), axis=-1)
    log_p[1:][moved > JUMP[0] * np.diff(away, axis=0) + JUMP[1]] = np.nan
    for k, r in enumerate(chosen):
        edges = np.array([begin[r], half[r], outer[r]])
        shares = -np.diff((t[:, r, None] > edges).mean(axis=0))
        found = values(here.points(path[:, k]))
        squares = _beyond(away[:, k], log_p[:, k], found, mean, edges, shares)
        missed = np.maximum(missed, squares / variance - drawn[r])
    return np.where(g.var(axis=0) > 0, missed, 0.0)


def _on_the_line(ridges: Ridges, starts: np.ndarray) -> np.ndarray:
    """The largest log p·t² on straight ways of every ray, p in units of the center's, (rays,); 0 at most."""
    ways = LINE[:, None, None, None] * starts / NEAR
    top = ridges.at(np.zeros((1, *starts.shape[1:])))[0][0]
    found = ridges.at(ways)[0].max(axis=1) - top + 2 * np.log(LINE)[:, None]
    return np.minimum(np.nan_to_num(found.max(axis=0), nan=-np.inf), 0.0)


def _beyond(
    t: np.ndarray,
    log_p: np.ndarray,
    g: np.ndarray,
    mean: np.ndarray,
    edges: np.ndarray,
    shares: np.ndarray,
) -> np.ndarray:
    """∫(g − mean)² p beyond the last of three edges, by log p (m,) and g (m, q) at t (m,); (q,).

    p has the `shares` (2,) between the edges together, and nearly so each. As far as all is known; zero where
    that is not beyond.
    """
    with np.errstate(invalid="ignore"):
        known = (log_p > log_p[0] - NOTHING) & np.isfinite(g).all(axis=1)
    m = len(t) if known.all() else int(np.argmin(known))
    if m < 3 or t[m - 1] <= edges[2]:
        return np.zeros(g.shape[1])
    curve = PchipInterpolator(np.log(t[:m]), log_p[:m] - log_p[0])
    parts = [np.geomspace(a, b, FINE) for a, b in itertools.pairwise([*edges, t[m - 1]])]
    p = [np.exp(curve(np.log(part))) for part in parts]
    mass = np.array([np.trapezoid(p[k], parts[k]) for k in (0, 1)])
    if not np.abs(np.log(mass[1] / mass[0] * shares[0] / shares[1])) <= ALIKE:
        return np.zeros(g.shape[1])
    square = (PchipInterpolator(t[:m], g[:m])(parts[2]) - mean) ** 2
    return np.trapezoid(p[2][:, None] * square, parts[2], axis=0) * shares.sum() / mass.sum()
