"""Coordinates along which the posterior has no finite integral, however far below its bulk that begins.

Chains answer from the bulk: of a log sd with a flat prior (of the logarithm) they never see that p tends to a
positive constant below. What does not fall is looked for on rays of single coordinates from the draws' mean,
the others as they are: if ∫p along a ray has no end, neither has ∫p around it. In a centred hierarchy the
effects narrow as their sd does, and the ray leads off the ridge: there the narrow directions are integrated
out by Laplace's method.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .density import Density
from .kernel import Kernel

FIRST, LAST = 10.0, 5120.0  # sds between which rays are looked at
COARSE, FINE = (
    2**0.5,
    2**0.125,
)  # from one point to the next, of all rays and of one looked at closely
POWER = 0.9  # p that falls no faster than distance to this power has no integral
NEARBY = 1e-7  # of the distance, by which log p changes no more than by rounding
ROUNDED = 0.02  # of log p, and as a share of its fall, that such a step may change
STEEP = 0.3  # −∂log p/∂log t that is not flat: less than that of any p with an integral, one
HALVINGS = 30
BULK = 3.0  # sds beyond which natural units are counted
RAYS = np.array([0.0, 4.0, 8.0])  # of them: from one to the next a fall by e^s grows by e^4
EXPLODES = 0.75  # its rate; e^−s and e^−2s are those of a log variance and of a log sd
RIDGE = np.array([8.0, 11.0, 14.0, 17.0])  # where a ridge is followed, at the rate of a log sd
STEPS = 6  # of Newton's method on the ridge
NARROW = 10.0  # roots of the largest precision from which a direction is narrow
ARRIVED = 0.01  # of log p that another step would bring
SHARE = 0.25  # of all gradients so far that ridges may take


class Endless(NamedTuple):
    """A coordinate, and the side of its bulk on which p does not fall."""

    coordinate: int
    side: int

    def told(self, density: Density) -> str:
        """A sentence."""
        name = density.coordinates[self.coordinate]
        return (
            f"The posterior has no finite integral, or a tail that no run ends: far "
            f"{'above' if self.side > 0 else 'below'} its bulk it does not fall along '{name}', and what is "
            f"shown is of the bulk alone. Give '{name}' a proper prior."
        )


def find_endless(kernel: Kernel, x: np.ndarray) -> Endless | None:
    """The first coordinate along which p does not fall, by draws x (n, D); None where all do."""
    center, sd = x.mean(axis=0), x.std(axis=0)
    rays = [Endless(d, side) for d in np.flatnonzero(sd > 0).tolist() for side in (-1, 1)]
    if not rays:
        return None
    star = Star(kernel, center, sd)
    return _on_rays(star, rays) or _on_ridges(star, rays)


class Star(NamedTuple):
    """Rays from a center (D,), in units of sds (D,)."""

    kernel: Kernel
    center: np.ndarray
    sd: np.ndarray

    def at(self, rays: list[Endless], t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p and −∂log p/∂log t at t (rays, m) sds on each, (rays, m)."""
        along = np.array([ray.coordinate for ray in rays])
        step = np.array([ray.side * self.sd[ray.coordinate] for ray in rays])[:, None] * t
        points = np.tile(self.center, (*t.shape, 1))
        points[np.arange(len(rays)), :, along] += step
        value, gradient = self.kernel(points.reshape(-1, len(self.center)))
        gradient = gradient.reshape(points.shape)[np.arange(len(rays)), :, along]
        with np.errstate(over="ignore"):
            return value.reshape(t.shape), -gradient * step


def _on_rays(star: Star, rays: list[Endless]) -> Endless | None:
    """The first ray on which p stops falling."""
    t = FIRST * COARSE ** np.arange(1 + round(np.log(LAST / FIRST) / np.log(COARSE)))
    value, _ = star.at(rays, np.tile(t, (len(rays), 1)))
    flat = _slow(value, t).any(axis=1)
    return next((rays[k] for k in np.flatnonzero(flat) if _stays_flat(star, rays[k])), None)


def _slow(log_p: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Whether p (…, m) falls no faster than t^−0.9 from one t (m,) to the next, (…, m − 1)."""
    with np.errstate(invalid="ignore"):
        return log_p[..., :-1] - log_p[..., 1:] < POWER * np.log(t[1:] / t[:-1])


def _stays_flat(star: Star, ray: Endless) -> bool:
    """Whether p has stopped falling where floating point can no longer tell, and not at an edge.

    Values that a ten-millionth of the way changes are rounding. Where a probability is cut off at the last
    number below one, p stops falling from one point to the next: that is the program's, not the model's.
    """
    t = FIRST * FINE ** np.arange(1 + round(np.log(LAST / FIRST) / np.log(FINE)))
    value, steep = (part[0] for part in star.at([ray], t[None]))
    nearby = star.at([ray], t[None] * (1 + NEARBY))[0][0]
    with np.errstate(invalid="ignore"):
        fallen = np.abs(np.diff(value, prepend=value[0]))
        sure = np.abs(nearby - value) <= ROUNDED * (1 + fallen)
    n = len(t) if sure.all() else int(np.argmin(sure))
    if n < 3 or not (_slow(value, t)[n - 3 : n - 1].all() and (steep[n - 2 : n] < STEEP).all()):
        return False
    falling = np.flatnonzero(steep[:n] > STEEP)
    if not len(falling):
        return True
    inner, outer = t[falling[-1]], t[falling[-1] + 1]
    for _ in range(HALVINGS):
        half = 0.5 * (inner + outer)
        falls = star.at([ray], np.array([[half]]))[1][0, 0] > STEEP
        inner, outer = (half, outer) if falls else (inner, half)
    return bool(star.at([ray], np.array([[inner]]))[1][0, 0] < 2 * STEEP)


def _on_ridges(star: Star, rays: list[Endless]) -> Endless | None:
    """The same on ridges, of coordinates on whose rays p falls as exp(−e^s) does, the fastest first."""
    sd = np.array([star.sd[ray.coordinate] for ray in rays])
    value, _ = star.at(rays, BULK + RAYS / sd[:, None])
    with np.errstate(invalid="ignore", divide="ignore"):
        fall = value[:, :1] - value[:, 1:]
        rate = np.log(fall[:, 1] / fall[:, 0]) / (RAYS[2] - RAYS[1])
    count = star.kernel.count
    most = (1 + SHARE) * count.gradients
    for k in np.argsort(-np.nan_to_num(rate, nan=-np.inf)):
        if not EXPLODES < rate[k] < np.inf or count.gradients > most:
            continue
        away = BULK * sd[k] + RIDGE * 2 / rate[k]
        if _slow(_ridge(star, rays[k], away), away)[-2:].all():
            return rays[k]
    return None


def _ridge(star: Star, ray: Endless, away: np.ndarray) -> np.ndarray:
    """log p less ½ log det of the narrow directions' precision, where these are at their best, (m,).

    The others are where they were. Narrow are the eigenvectors of the precision given x_d, in units of sds,
    whose eigenvalues are as far from the rest as the root of the largest tells. Not a number where Newton's
    method finds no best, or another number of them is narrow than elsewhere.
    """
    kernel, center, sd = star
    rest = np.arange(len(center)) != ray.coordinate
    points = np.tile(center, (len(away), 1))
    points[:, ray.coordinate] += ray.side * away
    P = -kernel.hessians(points, np.diag(sd))[:, rest][:, :, rest]
    found = np.full(len(away), np.nan)
    if not np.isfinite(P).all():
        return found
    w, U = np.linalg.eigh(P)
    narrow = w > NARROW * np.sqrt(np.maximum(w[:, -1:], 1.0))
    inverse = np.where(narrow, 1 / np.where(narrow, w, 1.0), 0.0)
    for _ in range(STEPS):
        value, gradient = kernel(points)
        along = np.einsum("nij,ni->nj", U, (gradient * sd)[:, rest])
        points[:, rest] += sd[rest] * np.einsum("nij,nj->ni", U, along * inverse)
        gain = 0.5 * (along**2 * inverse).sum(axis=1)
    same = narrow.sum(axis=1) == narrow[len(away) // 2].sum()
    good = np.isfinite(value) & (gain < ARRIVED) & same & narrow.any(axis=1)
    log_det = np.where(narrow, np.log(np.where(narrow, w, 1.0)), 0.0).sum(axis=1)
    return np.where(good, value - 0.5 * log_det, np.nan)
