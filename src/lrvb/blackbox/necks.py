"""The marginal of what drives a funnel, by Laplace's method along it: chains may never have met its neck.

Given a log sd s the effects of a hierarchy are nearly normal, exactly so under normal rows, however narrow
they are: p(s) ∝ p(s, x̂(s))·|−∇²log p|^(−½), x̂ the best of the others. A grid of s is a few thousand
gradients, and has no step size that a neck could be too narrow for.
"""

from __future__ import annotations

import numpy as np

from ..numerics.hmc import standard_ranks
from .kernel import Kernel, Values
from .warp import find_warp

GRID = np.linspace(-15.0, 8.0, 47)  # sds of the driver, down to where a neck ends and up
STEPS = 12  # of Newton's method, which needs one where the rest is normal given the driver
SAME = 0.999  # rank correlation at which a quantity is the driver's own
NOTHING = 30.0  # log density below the highest that has no weight
_DONE = 1e-4  # of log density that another step would bring


def off_the_marginal(kernel: Kernel, values: Values, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    """max(|mean's difference| in sds, |log ratio of sds|) of draws and marginal, (q,).

    Not a number of what drives nothing. x (n, D) are draws of ℝᴰ and g (n, q) of the named values, which
    count where they go with a driver's ranks.
    """
    warp = find_warp(x)
    apart = np.full(g.shape[1], np.nan)
    if warp is None:
        return apart
    ranks = standard_ranks(g)
    for d in np.unique(warp.driver[warp.slope != 0]):
        own = np.flatnonzero(np.abs(standard_ranks(x[:, [d]]).T @ ranks)[0] > SAME)
        found = _marginal(kernel, x, int(d)) if len(own) else None
        if found is None:
            continue
        points, weights = found
        at = values(points)[:, own]
        mean = weights @ at
        sd = np.sqrt(weights @ (at - mean) ** 2)
        drawn, spread = g[:, own].mean(axis=0), g[:, own].std(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart[own] = np.maximum(np.abs(drawn - mean) / sd, np.abs(np.log(spread / sd)))
    return apart


def _marginal(kernel: Kernel, x: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Points on the ridge over a grid of x_d, and their weights; None where the rest has no maximum.

    Points whose log p, with the curvature's log, is lower than the highest by `NOTHING` are left out.
    """
    center, sd = x.mean(axis=0), x.std(axis=0)
    rest = np.arange(len(center)) != d
    points = np.tile(center, (len(GRID), 1))
    points[:, d] += sd[d] * GRID
    value, gradient = kernel(points)
    damping, step = np.zeros(len(GRID)), np.full(len(GRID), np.inf)
    log_p = np.full(len(GRID), -np.inf)
    proper = np.zeros(len(GRID), bool)
    for _ in range(STEPS):
        # what is found already, or will not matter, is left where it is
        low = log_p < log_p.max() - NOTHING
        on = np.flatnonzero((step >= _DONE) & ~low)
        if not len(on):
            break
        P = -kernel.hessians(points[on], np.diag(sd))[:, rest][:, :, rest]
        w, U = np.linalg.eigh(np.where(np.isfinite(P), P, 0.0))
        along = np.einsum("nij,ni->nj", U, (gradient[on] * sd)[:, rest])
        firm = np.maximum(np.abs(w), 1e-3) + damping[on, None]
        step[on], proper[on] = (along**2 / firm).sum(axis=1), (w > 0).all(axis=1)
        log_p[on] = (
            value[on] + 0.5 * step[on] - 0.5 * np.log(np.maximum(np.abs(w), 1e-300)).sum(axis=1)
        )
        moved = points[on]
        moved[:, rest] += sd[rest] * np.einsum("nij,nj->ni", U, along / firm)
        new, new_gradient = kernel(moved)
        better = new >= value[on]
        points[on] = np.where(better[:, None], moved, points[on])
        value[on] = np.where(better, new, value[on])
        gradient[on] = np.where(better[:, None], new_gradient, gradient[on])
        damping[on] = np.where(better, 0.1 * damping[on], 10 * damping[on] + firm.max(axis=1))
    sure = proper & (step < 100 * _DONE) & np.isfinite(value)
    if not sure[np.abs(GRID) <= 2].all() or (~sure & (log_p > log_p.max() - NOTHING)).any():
        return None
    weights = np.where(sure, np.exp(log_p - log_p.max()), 0.0)
    return points, weights / weights.sum()
