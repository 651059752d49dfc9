"""A normal whose averages are known, as the control of importance sampling.

Draws x_i come from q, with weights W_i ∝ p/q of the posterior p and g_i ∝ G/q of linear response's normal G,
both normalised. Then

    E_p f  ≈  β E_G f + Σ_i (W_i − β g_i) f(x_i),

where E_G f is an average over points of G at which nothing is asked of the density. Its error is that of
W − βg: where p is nearly G that is small at every draw, whatever q is, and a hundred draws tell what
thousands of plain ones do. It is exact where p is G, and the plain average in the limit for any β.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..integrated.importance import Weighted
from ..integrated.proposals import Gaussian
from ..numerics.sobol import normal_points
from .target import Target
from .verdicts import K_HAT

Statistics = Callable[[np.ndarray], np.ndarray]

POINTS = 2048  # of the normal, at least
FEW = 512  # draws below which their own spread tells little of their errors, and of tails nothing
HALF = 0.5  # of the errors without it, to which a control of few draws must bring them all
EACH = 4  # of them for each coordinate, so that its covariance is exact at them


class Control(NamedTuple):
    """Shares βg (n,) of the draws, and statistics (points, a) at points of the normal.

    `size` is the number of its coordinates.
    """

    shares: np.ndarray
    known: np.ndarray
    size: int

    def weights(self, posterior: np.ndarray) -> np.ndarray:
        """W − βg of the draws, then β shared out among the points of the normal, which sum to one."""
        n = len(self.known)
        return np.concatenate([posterior - self.shares, np.full(n, self.shares.sum() / n)])

    def errors(
        self, posterior: np.ndarray, values: np.ndarray, mean: np.ndarray, sd: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Monte Carlo errors of means and sds (q,) of values (n + points, q), W of the draws given.

        Of the draws they are those of W(f − μ) − βg(f − μ_G), and of the squares alike. Of the normal's own
        points what is not linear in its coordinates errs, because their mean and covariance are exact.
        """
        n = len(self.shares)
        f, known = values[:n] - mean, values[n:] - mean
        W, g = posterior[:, None], self.shares[:, None]
        double = 2 * np.where(sd > 0, sd, 1.0)
        own, spread = known.mean(axis=0), known.var(axis=0)
        first = W * f - g * (f - own)
        second = (W * (f**2 - sd**2) - g * ((f - own) ** 2 - spread)) / double
        e, known = normal_points(len(known), self.size), known - own
        line = e @ (e.T @ known / len(e))
        rest = known - line
        bent = (2 * line + rest) * rest / double
        share = self.shares.sum() ** 2 / len(e)
        rounding = len(values) * np.finfo(float).eps ** 2 * (values**2).max(axis=0)
        return (
            np.sqrt((first**2).sum(axis=0) + share * rest.var(axis=0) + rounding),
            np.sqrt((second**2).sum(axis=0) + share * bent.var(axis=0) + rounding),
        )


def control(
    target: Target, weighted: Weighted, statistics: Statistics, named: np.ndarray
) -> Control | None:
    """The normal of `target` beside its draws; None where some error would be larger, or is not known.

    β is the best one for means and sds of the statistics `named` (q,) of points (n, k) together.
    """
    if not weighted.k_hat < K_HAT:
        return None
    normal = Gaussian(target.center, target.root)
    T = statistics(weighted.x)
    if not np.isfinite(T).all():
        return None
    log_g = normal.log_density(weighted.x) - weighted.log_q
    g = np.exp(log_g - log_g.max())
    g /= g.sum()
    W, f = weighted.raw, T[:, named]
    f = f[:, np.ptp(f, axis=0) > 0]
    ours, theirs = _influences(W, f), _influences(g, f)
    beta = float(np.clip((ours * theirs).sum() / (theirs**2).sum(), 0.0, 1.0))
    points = normal_points(_points(target.size), target.size)
    known = statistics(target.center + points @ target.root.T)
    if not np.isfinite(known).all():
        return None
    found = Control(beta * g, known, target.size)
    return found if _helps(found, W, T[:, named], known[:, named]) else None


def _helps(found: Control, W: np.ndarray, f: np.ndarray, known: np.ndarray) -> bool:
    """Whether no error of means and sds is larger with the control, of values f (n, q) and `known`.

    With few draws none may be larger than half: they see too little where the posterior is not nearly normal.
    """
    values, weights = np.concatenate([f, known]), found.weights(W)
    mean = weights @ values
    variance = weights @ (values - mean) ** 2
    if not (variance >= 0).all():
        return False
    sd = np.sqrt(variance)
    plain = np.sqrt((_influences(W, f) ** 2).sum(axis=1)) * np.sqrt(W @ (f - W @ f) ** 2)
    varies = np.ptp(f, axis=0) > 0
    most = plain if len(W) >= FEW else HALF * plain
    return bool((np.stack(found.errors(W, values, mean, sd)) <= most)[:, varies].all())


def _influences(weights: np.ndarray, f: np.ndarray) -> np.ndarray:
    """What each draw adds to the errors of mean and sd of f (n, q) under weights (n,), in sds, (2, n, q)."""
    centered = f - weights @ f
    variance = weights @ centered**2
    sd = np.sqrt(np.where(variance > 0, variance, 1.0))
    e = centered / sd
    return weights[:, None] * np.stack([e, (e**2 - 1) / 2])


def _points(d: int) -> int:
    """A power of two."""
    return max(POINTS, 2 ** int(np.ceil(np.log2(EACH * d))))
