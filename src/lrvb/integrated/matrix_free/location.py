"""Where the posterior of the relative covariances ζ is: its mode and widths, in few evaluations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..coordinates import Bend, Kind
from ..mode import NoMode
from .evidence import Evidence, Point

SMALL = 1e-2  # gain of a step at which the mode is near enough
LONGEST = 1.0  # step of a coordinate
LIMIT = 40
REACH = 6.5  # sds from the mode beyond which the density is continued as a Gaussian
FAR = 13.0  # and if an sd may be anything, along which others bend
WIDE = 0.25  # sd of a bent coordinate from which on its tails are not those of the mode's curvature
TAIL = 0.8  # which such an axis has at least
LONGER = 1.3  # times its length by curvature that make an axis wide too

Slope = Callable[[Point], tuple[float, np.ndarray, np.ndarray]]


class Located(NamedTuple):
    """The points on the way to the mode, the last at it; the curvature there (D, D)."""

    points: list[Point]
    curvature: np.ndarray


class Domain:
    """The neighbourhood of a mode in bent coordinates, in sds by the covariance of ζ (D, D).

    stretch (D,) are factors of the axes, for tails that are longer than the curvature has them; wide (D,)
    tells of which axes sds may be nearly anything, zero among it.
    """

    def __init__(
        self,
        kinds: list[Kind],
        center: np.ndarray,
        covariance: np.ndarray,
        stretch: np.ndarray | float = 1.0,
    ):
        self.center, self.covariance = center, covariance
        self.bend = Bend(kinds, center)
        self.x = self.bend.bend(center)
        slope = self.bend.slope(self.x)
        scaled = covariance / slope[:, None] / slope
        values, U = np.linalg.eigh((scaled + scaled.T) / 2)
        sd = np.sqrt(np.clip(values, 1e-12, 2.0))
        long = np.where(sd > WIDE, np.maximum(sd, TAIL), sd) * stretch
        self.wide = long > LONGER * sd
        self.wide |= sd > WIDE
        self.axes = U * long
        self.reach = FAR if self.wide.any() else REACH

    def point(self, e: np.ndarray) -> np.ndarray:
        """ζ at so many sds along the axes, (..., D)."""
        return self.bend.natural(self.x + e @ self.axes.T)

    def log_volume(self, zeta: np.ndarray) -> np.ndarray:
        """log |∂ζ/∂x| at n points, (n,)."""
        return self.bend.log_jacobian(self.bend.bend(zeta))

    def distances(self, zeta: np.ndarray) -> np.ndarray:
        """Sds along the axes, (n, D)."""
        return (self.bend.bend(zeta) - self.x) @ np.linalg.inv(self.axes).T

    def within(self, zeta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points moved to the boundary where they are beyond it, and the log density this costs."""
        e = self.distances(zeta)
        radius = np.sqrt((e**2).sum(1))
        far = radius > self.reach
        inside = zeta.copy()
        if far.any():
            inside[far] = self.point(e[far] * (self.reach / radius[far])[:, None])
        return inside, np.where(far, (radius**2 - self.reach**2) / 2, 0.0)


def locate(evidence: Evidence, start: np.ndarray, slope: Slope) -> Located:
    """Newton's method with an approximate curvature, corrected by secants, from `start`.

    slope gives value, gradient and approximate curvature at a point.
    """
    x, H, old = start.copy(), None, None
    points: list[Point] = []
    best = -np.inf
    shrink = 1.0
    for _ in range(LIMIT):
        point = evidence.at(x)
        value, gradient, guess = slope(point)
        if old is not None and not value > best - 1.0:  # a step too far
            shrink /= 4
            x = old[0] + shrink * (x - old[0])
            continue
        points.append(point)
        best, shrink = max(best, value), 1.0
        if H is None or old is None or np.abs(x - old[0]).max() > 0.3:
            H = guess
        else:
            s, change = x - old[0], old[1] - gradient
            if s @ change > 1e-10:
                Hs = H @ s
                H = H - np.outer(Hs, Hs) / (s @ Hs) + np.outer(change, change) / (s @ change)
        step = np.linalg.solve(H, gradient)
        if step @ gradient < SMALL:
            return Located(points, H)
        old = (x, gradient)
        step *= min(1.0, LONGEST / np.abs(step).max())
        x = x + step
    raise NoMode(
        f"The mode of the hyperparameters was not found in {LIMIT} steps. A stated prior of the sds "
        "usually helps.",
        point=x,
    )
