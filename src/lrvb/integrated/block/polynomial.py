"""log p(y, u) between the points where it was computed: a polynomial in bent, standardised coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from ..coordinates import Bend, Kind
from .points import Point

EDGE = 4.5  # sds from the middle beyond which the density goes on as a normal one
FLOOR = 1e-3  # least weight of a point
# beyond so many sds the density falls at least as a normal one of 1/√0.3 sds does; and everywhere as one
# of sd 1 in bent coordinates, which is what a prior's tail towards an sd of 0, or a correlation of 1, is
SURE, FLATTEST = 2.0, 0.3
REWEIGHTED = 4
LENGTH, NUGGET, MOST = (
    1.0,
    0.1,
    3.0,
)  # of the smooth function through what the polynomial leaves, in sds
PARTS_OF_SD = 64  # of an sd or of an axis, to which frames and points are round
SPARE = 1.5  # equations for every unknown
NEAR = 12.0  # fall of the log density within which a point says something of the coefficients


class Frame:
    """e ↔ u: u bent around its center, in units of axes (k, k)."""

    def __init__(self, kinds: Sequence[Kind], center: np.ndarray, axes: np.ndarray):
        self.bend = Bend(kinds, center)
        self.middle, self.axes = self.bend.bend(center), axes
        self.inverse = np.linalg.inv(axes)
        self.volume = float(np.linalg.slogdet(axes)[1])

    def inward(self, u: np.ndarray) -> np.ndarray:
        """e of n points u (n, k)."""
        return (self.bend.bend(u) - self.middle) @ self.inverse.T

    def outward(self, e: np.ndarray) -> np.ndarray:
        """u of n points e."""
        return self.bend.natural(self.middle + e @ self.axes.T)

    def slope(self, u: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """A gradient in u (k,) as one in e."""
        return self.axes.T @ (self.bend.slope(self.bend.bend(u)) * gradient)

    def log_jacobian(self, e: np.ndarray) -> np.ndarray:
        """log |∂u/∂e| at n points e, (n,)."""
        return self.bend.log_jacobian(self.middle + e @ self.axes.T) + self.volume


def settled(kinds: Sequence[Kind], center: np.ndarray, axes: np.ndarray) -> Frame:
    """A frame near this one, of round numbers: any will do, and one that hangs on no last digit of sums."""
    axes = _rounded(axes, np.abs(axes))
    bend = Bend(kinds, center)
    sd = bend.slope(bend.bend(center)) * np.abs(axes).max(1)
    return Frame(kinds, _rounded(center, sd), axes)


def places(e: np.ndarray) -> np.ndarray:
    """Points near e that hang on no last digit."""
    return np.rint(e * PARTS_OF_SD) / PARTS_OF_SD


def _rounded(x: np.ndarray, size: np.ndarray) -> np.ndarray:
    """x in parts of the power of two below its size."""
    step = 2.0 ** np.floor(np.log2(np.maximum(size, 1e-300))) / PARTS_OF_SD
    return np.rint(x / step) * step


class Polynomial:
    """The bound from values and gradients, what is added to it from values, by weighted least squares."""

    def __init__(self, frame: Frame, points: Sequence[Point]):
        self.frame = frame
        e = frame.inward(np.array([point.u for point in points]))
        k = e.shape[1]
        value = np.array([point.value for point in points])
        bound = np.array([point.bound for point in points])
        slopes = np.array([frame.slope(point.u, point.gradient) for point in points])
        self.top = float(value.max())
        height = value + frame.log_jacobian(e)
        self.highest = float(height.max()) + 0.5
        self.monomials = _affordable(k, len(points) * (k + 1), 4)
        self.few = _affordable(k, len(points), 2)
        F = [_features(e, self.monomials), *(_slopes(e, self.monomials, j) for j in range(k))]
        parts = [bound - self.top, *slopes.T]
        H = _features(e, self.few)
        added = np.array([[point.value - point.bound, point.rest] for point in points])
        counts = height
        for _ in range(REWEIGHTED):
            # where the density is, and where the polynomial would have it
            root = np.sqrt(np.exp(np.minimum(counts - height.max(), 0.0) / 2) + FLOOR)
            left = np.concatenate([part * root[:, None] for part in F])
            right = np.concatenate([part * root for part in parts])
            self.coefficients = np.linalg.lstsq(left, right, rcond=1e-10)[0]
            self.added = np.linalg.lstsq(H * root[:, None], added * root[:, None], rcond=1e-10)[0]
            guess = self.top + F[0] @ self.coefficients + H @ self.added[:, 0]
            counts = np.maximum(counts, guess + frame.log_jacobian(e))
        # what it leaves at the points is joined by a smooth function around them
        self.e = e
        left = np.clip(value - guess, -MOST, MOST)
        self.left = np.linalg.solve(_kernel(e, e) + NUGGET**2 * np.eye(len(e)), left)

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """log p(y, u) at n points (n, k), (n,)."""
        e = self.frame.inward(u)
        inner, beyond = _within(e)
        value = _features(inner, self.monomials) @ self.coefficients
        value = self.top + value + _features(inner, self.few) @ self.added[:, 0]
        value = value + _kernel(inner, self.e) @ self.left
        square, bent = (inner**2).sum(1), ((inner @ self.frame.axes.T) ** 2).sum(1)
        fall = np.maximum(FLATTEST * (square - SURE**2), bent) / 2
        return np.minimum(value, self.highest - fall - self.frame.log_jacobian(inner)) - beyond

    def rest(self, u: np.ndarray) -> np.ndarray:
        """The part of it that is half a variance, (n,)."""
        inner, _ = _within(self.frame.inward(u))
        return _features(inner, self.few) @ self.added[:, 1]


class Between:
    """Weights of the points for whatever is smooth in u: a quadratic along every axis, by those near."""

    def __init__(self, frame: Frame, points: Sequence[Point]):
        self.frame = frame
        e = frame.inward(np.array([point.u for point in points]))
        value = np.array([point.value for point in points]) + frame.log_jacobian(e)
        root = np.sqrt(np.exp(np.maximum((value - value.max()) / 2, -NEAR)))
        self.square = len(points) >= SPARE * (2 * e.shape[1] + 1)
        H = self._features(e)
        self.inverse = np.linalg.pinv(H * root[:, None], rcond=1e-8) * root

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """At n others, (n, J)."""
        return self._features(_within(self.frame.inward(u))[0]) @ self.inverse

    def _features(self, e: np.ndarray) -> np.ndarray:
        parts = [np.ones((len(e), 1)), e, *([e**2] if self.square else [])]
        return np.concatenate(parts, axis=1)


def _within(e: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points moved to the edge where they are beyond it, and what this costs, (n,)."""
    radius = np.sqrt((e**2).sum(1))
    edge = EDGE * max(1.0, np.sqrt(e.shape[1] / 2))
    inner = e * np.minimum(1.0, edge / np.maximum(radius, 1e-300))[:, None]
    return inner, np.maximum(radius**2 - edge**2, 0.0) / 2


def _affordable(k: int, equations: int, degree: int) -> list[tuple[int, ...]]:
    """Monomials of the highest degree that so many equations determine; axes' own first."""
    chosen: list[tuple[int, ...]] = [(), *((i,) for i in range(k))]
    for d in range(2, degree + 1):
        axial = [(i,) * d for i in range(k)]
        whole = list(combinations_with_replacement(range(k), d))
        for added in (whole, axial):
            if SPARE * (len(chosen) + len(added)) <= equations:
                chosen += added
                break
    return chosen


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """exp(−½|a − b|²/ℓ²) of all pairs."""
    square = ((a[:, None] - b) ** 2).sum(2)
    return np.exp(-square / (2 * LENGTH**2))


def _features(e: np.ndarray, monomials: Sequence[tuple[int, ...]]) -> np.ndarray:
    return np.stack([np.prod(e[:, list(c)], axis=1) for c in monomials], axis=1)


def _slopes(e: np.ndarray, monomials: Sequence[tuple[int, ...]], j: int) -> np.ndarray:
    """Derivatives of the monomials in e_j."""
    columns = []
    for c in monomials:
        others = list(c)
        count = others.count(j)
        if count:
            others.remove(j)
        columns.append(count * np.prod(e[:, others], axis=1))
    return np.stack(columns, axis=1)
