"""Many rows: a log density that is nearly quadratic is learnt at few points, and drawn from at many.

With many rows a point costs much, but the log density in the path's coordinates is smooth on the scale
of the posterior: a cubic through a few points is as good as the density itself. What it is off by is
measured at draws from the posterior that it implies, and the cubic is fitted again with them until
that does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple

import numpy as np

from ..errors import LrvbError
from .importance import Budget, Refit, Weighted, integrate, resampled
from .inside import Evaluated
from .proposals import Proposal

OFF = 0.03  # root mean square of what the cubic is off by: no mean is moved by more of its sd
K_HAT = 0.7  # of the weights, from which on few draws stand for all
CHECKED = 64  # draws from the posterior at which it is measured
_POINTS = 2.5  # points of the first fit for each of its coefficients
_ROUNDS = 4
_EDGE = 5.0  # sds from the middle beyond which the cubic goes on as a normal density
_DIRECTIONS = 256  # in which it must fall
_FLOOR = 1e-3  # least weight of a point in the fit


class NotSmooth(LrvbError):
    """A log density that no cubic follows."""


class Learnt(NamedTuple):
    """Weighted draws of the cubic, what it is off by, and those (m,) that have exact values."""

    weighted: Weighted
    off: float
    at: np.ndarray
    exact: Evaluated


class Cubic:
    """All monomials of degree three and less in standardised coordinates, by weighted least squares."""

    def __init__(self, x: np.ndarray, value: np.ndarray):
        weight = np.exp((value - value.max()) / 2) + _FLOOR
        share = weight / weight.sum()
        self.mean = share @ x
        self.root = np.linalg.cholesky(np.cov(x.T, aweights=share).reshape(x.shape[1], -1))
        self.monomials = [
            c
            for degree in range(4)
            for c in combinations_with_replacement(range(x.shape[1]), degree)
        ]
        e = self._standard(x)
        root = np.sqrt(weight)
        self.coefficients = np.linalg.lstsq(
            self._features(e) * root[:, None], (value - value.max()) * root, rcond=None
        )[0]
        self.top = float(value.max())

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At n points (n, d), (n,)."""
        e = self._standard(x)
        radius = np.sqrt((e**2).sum(1))
        edge = _EDGE * np.sqrt(x.shape[1])
        inner = e * np.minimum(1.0, edge / np.maximum(radius, 1e-300))[:, None]
        beyond = np.maximum(radius**2 - edge**2, 0.0) / 2
        return self.top + self._features(inner) @ self.coefficients - beyond

    def falls(self) -> bool:
        """Whether it is below its height at the middle on spheres, half way to the edge and there.

        Beyond the edge it goes on as a normal density does: what does not fall on the way has no finite
        middle to draw from.
        """
        d = len(self.mean)
        directions = np.random.default_rng(0).standard_normal((_DIRECTIONS, d))
        directions /= np.sqrt((directions**2).sum(1))[:, None]
        middle = float(self._features(np.zeros((1, d)))[0] @ self.coefficients)
        edge = _EDGE * np.sqrt(d)
        return all(
            bool((self._features(share * edge * directions) @ self.coefficients < middle - 1).all())
            for share in (0.5, 1.0)
        )

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.root, (x - self.mean).T).T

    def _features(self, e: np.ndarray) -> np.ndarray:
        """The monomials at n points, (n, …): each is one of a lower degree times a coordinate."""
        found = np.empty((len(self.monomials), len(e)))
        place = {monomial: row for row, monomial in enumerate(self.monomials)}
        axes = np.ascontiguousarray(e.T)
        for monomial, row in place.items():
            if monomial:
                np.multiply(found[place[monomial[:-1]]], axes[monomial[-1]], out=found[row])
            else:
                found[row] = 1.0
        return found.T


def points_needed(d: int) -> int:
    """Points at which d coordinates' cubic is learnt, without the checks."""
    return int(np.ceil(_POINTS * comb(d + 3, 3)))


def learn(
    evaluate: Callable[[np.ndarray], Evaluated],
    start: Proposal,
    d: int,
    refit: Refit,
    budget: Budget,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Learnt:
    """Draws of exp(log density)/Z, of which `evaluate` gives exact values; `NotSmooth` if none will do."""
    m, off = points_needed(d), np.inf
    x = start.draw(m, seed)
    found = evaluate(x)
    for round_ in range(_ROUNDS):
        finite = np.isfinite(found.value)
        if finite.sum() < m / 2:
            break
        cubic = Cubic(x[finite], found.value[finite])
        if not cubic.falls():
            break
        weighted = integrate(cubic, start, refit, budget, seed)
        at = resampled(weighted.weights, CHECKED, seed + round_)
        checked = evaluate(weighted.x[at])
        x = np.concatenate([x, weighted.x[at]])
        found = Evaluated(*(np.concatenate([a, b]) for a, b in zip(found, checked, strict=True)))
        if progress is not None:
            progress(len(x), len(x))
        difference = checked.value - cubic(weighted.x[at])
        off = float(np.sqrt(np.mean(difference**2))) if np.isfinite(difference).all() else np.inf
        if off < OFF and weighted.k_hat < K_HAT:
            last = Evaluated(*(part[-CHECKED:] for part in found))
            return Learnt(weighted, off, at, last)
    raise NotSmooth(
        f"A cubic through {len(x)} points of the log density is off by {off:.2g} over the posterior, more "
        f"than the {OFF} that would do.",
        off=off,
    )
