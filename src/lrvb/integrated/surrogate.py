"""Many rows: a log density that is nearly quadratic is learnt at few points, and drawn from at many.

With many rows a point costs much, but the log density in the path's coordinates is smooth on the scale
of the posterior: a cubic through a few points is as good as the density itself. What it is off by is
measured at draws from the posterior that it implies, and the cubic is fitted again with them until
that does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations_with_replacement
from math import comb
from typing import NamedTuple

import numpy as np

from ..errors import LrvbError
from .calibrated import calibrated
from .importance import Budget, Refit, Wanting, Weighted, integrate, resampled
from .inside import Evaluated
from .proposals import Proposal, Target

OFF = 0.03  # root mean square of what the cubic is off by: no mean is moved by more of its sd
K_HAT = 0.7  # of the weights, from which on few draws stand for all
CHECKED = 64  # draws from the posterior at which it is measured
_LONELY = 32  # more draws, the farthest from all points, at which a likelihood is computed
_LOOK = 1024  # draws of what may not do yet
_POINTS = 2.5  # points of the first fit for each of its coefficients
_ROUNDS, _MENDED = 4, 8  # fits, and those where what they are off by is learnt too
_PLAIN = 2  # fits before that is
_HOPELESS = 0.3  # what a cubic is off by after those, from which it will not do
_LENGTHS = 1.0, 1.5, 2.0, 3.0, 4.0  # sds over which it changes
_NUGGET = 1e-5  # variance of its noise, relative to its own, where the density is largest
_MANY = 4  # points for each coefficient, with which degree four is fitted
_EDGES = 5.0, 4.0, 3.2  # √d sds from the middle beyond which the cubic goes on as a normal density
_NEARER = 2.5, 2.0, 1.6  # where it is a likelihood, which may rise where no points are
_INWARDS = 1e-3  # of the way to an edge, over which the slope there is measured
_DIRECTIONS = 256  # in which it must fall
_RISE = 0.5  # above all points, that a likelihood may be said to have far from them
_FLOOR = 1e-3  # least weight of a point in the fit


class NotSmooth(LrvbError):
    """A log density that no cubic follows."""


class Known(NamedTuple):
    """What is known of a log density of x (n, d): a part of it, and coordinates in which the rest is smooth.

    With an sd s = e^u, for one, a likelihood is a smooth function of s², and a prior is known.
    """

    part: Target
    smooth: Callable[[np.ndarray], np.ndarray]


NOTHING = Known(lambda x: np.zeros(len(x)), lambda x: x)


class Learnt(NamedTuple):
    """Weighted draws of the cubic, what it is off by, and those (m,) that have exact values."""

    weighted: Weighted
    off: float
    at: np.ndarray
    exact: Evaluated


class Cubic:
    """All monomials of degree three and less in standardised coordinates, by weighted least squares.

    With `rest` (n,) that is fitted in place of the value (n,), which says how much each point matters, and
    of degree four where points are many. Beyond the edge it goes on as a normal density does; a rest, some of
    whose coordinates have ends up to which it need not fall, along the slope that it has there.
    """

    def __init__(self, x: np.ndarray, value: np.ndarray, rest: np.ndarray | None = None):
        weight = np.exp((value - value.max()) / 2) + _FLOOR
        self.whole, rest = rest is None, value if rest is None else rest
        share = weight / weight.sum()
        self.mean = share @ x
        self.root = np.linalg.cholesky(np.cov(x.T, aweights=share).reshape(x.shape[1], -1))
        quartic = not self.whole and len(x) >= _MANY * comb(x.shape[1] + 4, 4)
        self.monomials = [
            c
            for degree in range(5 if quartic else 4)
            for c in combinations_with_replacement(range(x.shape[1]), degree)
        ]
        e = self.standard(x)
        root = np.sqrt(weight)
        self.coefficients = np.linalg.lstsq(
            self._features(e) * root[:, None], (rest - rest.max()) * root, rcond=None
        )[0]
        self.top = float(rest.max())
        #: the farthest edge up to which it falls; none where it does not
        self.edge = next(
            (edge for edge in (_EDGES if self.whole else _NEARER) if self._falls(edge)), 0.0
        ) * np.sqrt(x.shape[1])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At n points (n, d), (n,)."""
        e = self.standard(x)
        radius = np.sqrt((e**2).sum(1))
        inner = e * np.minimum(1.0, self.edge / np.maximum(radius, 1e-300))[:, None]
        value = self.top + self._features(inner) @ self.coefficients
        if self.whole:
            return value - np.maximum(radius**2 - self.edge**2, 0.0) / 2
        far = np.flatnonzero(radius > self.edge)
        within = self.top + self._features((1 - _INWARDS) * inner[far]) @ self.coefficients
        slope = np.minimum((value[far] - within) / (_INWARDS * self.edge), 0.0)
        value[far] += slope * (radius[far] - self.edge)
        return value

    def falls(self) -> bool:
        """Whether it falls up to an edge that is far enough."""
        return bool(self.edge > 0)

    def _falls(self, edge: float) -> bool:
        """Whether it is below its height at the middle on spheres, half way to the edge and there.

        Beyond the edge it goes on as a normal density does: what does not fall on the way has no finite
        middle to draw from. A rest, beside which there is what falls, may stay but not rise.
        """
        d = len(self.mean)
        directions = np.random.default_rng(0).standard_normal((_DIRECTIONS, d))
        directions /= np.sqrt((directions**2).sum(1))[:, None]
        middle = float(self._features(np.zeros((1, d)))[0] @ self.coefficients)
        reach, highest = edge * np.sqrt(d), middle - 1 if self.whole else max(middle, 0.0) + _RISE
        return all(
            bool((self._features(share * reach * directions) @ self.coefficients < highest).all())
            for share in (0.5, 1.0)
        )

    def standard(self, x: np.ndarray) -> np.ndarray:
        """Standardised coordinates of n points, (n, d)."""
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


class Mended:
    """A polynomial and what it is off by at the points it was fitted to, smoothed.

    The rest is the mean of a Gaussian process, whose length is the one that foretells each point best from
    the others; far from all points nothing is added.
    """

    def __init__(
        self, base: Cubic, x: np.ndarray, value: np.ndarray, rest: np.ndarray | None = None
    ):
        e = base.standard(x)
        within = (e**2).sum(1) <= (base.edge**2 if base.whole else np.inf)
        self.base, self.e, value = base, e[within], value[within]
        rest = (value if rest is None else rest[within]) - base(x[within])
        weight = np.exp(value - value.max()) + _FLOOR
        square = _squares(self.e, self.e)
        least = np.inf
        for length in _LENGTHS:
            K = np.exp(square / (-2 * length**2))
            inverse = np.linalg.inv(K + np.diag(_NUGGET / weight))
            solved = inverse @ rest
            error = float(weight @ (solved / np.diag(inverse)) ** 2)
            if error < least:
                least, self.length, self.solved = error, length, solved

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At n points (n, d), (n,)."""
        square = _squares(self.base.standard(x), self.e)
        return self.base(x) + np.exp(square / (-2 * self.length**2)) @ self.solved


def _with(known: Known, rest: Target) -> Target:
    """A known part, and the rest of smooth coordinates."""
    return lambda x: known.part(x) + rest(known.smooth(x))


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of n points from m, (n, m)."""
    return np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T, 0.0)


def _lonely(x: np.ndarray, weighted: Weighted, cubic: Cubic, known: Known, seed: int) -> np.ndarray:
    """Draws of the posterior that are farthest from all points x (n, d), in standardised coordinates."""
    drawn = np.unique(weighted.x[resampled(weighted.weights, _LOOK, seed)], axis=0)
    e, known_e = (cubic.standard(known.smooth(part)) for part in (drawn, x))
    return drawn[np.argsort(-_squares(e, known_e).min(1))[:_LONELY]]


def points_needed(d: int) -> int:
    """Points at which d coordinates' cubic is learnt, without the checks."""
    return int(np.ceil(_POINTS * comb(d + 3, 3)))


def learn(
    target: Target,
    evaluate: Callable[[np.ndarray], Evaluated],
    start: Proposal,
    d: int,
    refit: Refit,
    budget: Budget,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    mend: bool = False,
    known: Known = NOTHING,
    wanting: Wanting | None = None,
    again: Refit | None = None,
) -> Learnt:
    """Draws of exp(target)/Z; `NotSmooth` if no cubic will do. `evaluate` has moments beside its values.

    With `mend` what two cubics are off by is learnt too, and all draws are made where few were of the
    density; so it is told twice what is off. A cubic is of what is not `known`, and is taught at draws that
    are far from all others too, as its coordinates may have long tails.
    """
    m, off = points_needed(d), np.inf
    x = start.draw(m, seed)
    value = target(x)
    look = replace(budget, final=_LOOK, limit=0) if mend else budget
    for round_ in range(_MENDED if mend else _ROUNDS):
        finite = np.isfinite(value)
        if finite.sum() < m / 2:
            break
        here = x[finite]
        rests = value[finite] - known.part(here) if known is not NOTHING else None
        points = known.smooth(here), value[finite], rests
        cubic = Cubic(*points)
        if not cubic.falls() and known is NOTHING:
            break
        whole = not mend or off < OFF  # as soon as few draws have been of the density
        if cubic.falls():
            rest: Target = Mended(cubic, *points) if mend and round_ >= _PLAIN else cubic
            fitted = _with(known, rest)
            of, more = (budget, wanting) if whole else (look, None)
            weighted = integrate(fitted, start, refit, of, seed, None, more, again)
            weighted = calibrated(weighted) if mend else weighted
            at = resampled(weighted.weights, CHECKED, seed + round_)
        if not cubic.falls() or (known is not NOTHING and weighted.ess < CHECKED):
            others = start.draw(CHECKED, seed + round_ + 1)  # a polynomial that went astray
            x, value = np.concatenate([x, others]), np.concatenate([value, target(others)])
            continue
        checked = evaluate(weighted.x[at]) if whole else None
        exact = target(weighted.x[at]) if checked is None else checked.value
        x, value = np.concatenate([x, weighted.x[at]]), np.concatenate([value, exact])
        if progress is not None:
            progress(len(x), len(x))
        difference = exact - fitted(weighted.x[at])
        off = float(np.sqrt(np.mean(difference**2))) if np.isfinite(difference).all() else np.inf
        if checked is not None and off < OFF and weighted.k_hat < K_HAT:
            return Learnt(weighted, off, at, checked)
        if mend and round_ >= _PLAIN and off > _HOPELESS:
            break
        if known is not NOTHING:
            lone = _lonely(x, weighted, cubic, known, seed + round_)
            x, value = np.concatenate([x, lone]), np.concatenate([value, target(lone)])
    raise NotSmooth(
        f"A cubic through {len(x)} points of the log density is off by {off:.2g} over the posterior, more "
        f"than the {OFF} that would do.",
        off=off,
    )
