"""Proposals for importance sampling: t distributions with a scale for each side of each axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.special import gammaincinv, gammaln, ndtri

from ..numerics.sobol import sobol

Target = Callable[[np.ndarray], np.ndarray]

_PROBES = (1.0, 2.0, 3.0, 4.5, 6.0)  # sds from the mode where the fall of log density is measured
_SCALES = (0.4, 4.0)  # a side's scale relative to the curvature's, at least and at most
_WIDE = 20  # dimensions from which a t with 7 degrees wastes most draws in its radius
_WHOLE = 12  # coordinates whose whole covariance a round of draws can tell
_NARROW = 0.25  # sd of a bent coordinate below which its shoulder is out of reach
_ROOM = 1.25  # scale of the others' draws beside a shoulder
_SHOULDER = 0.15  # share of draws of each shoulder
_APART = 1_000_003  # between the seeds of parts: more than there are rounds or parts
_ROUND = 2.0**8  # parts of a unit, or of a number
_CENTERS = np.linspace(-1.2, 1.2, 25)  # in sds, of a side-by-side fit of one axis


class Proposal(Protocol):
    """What can be drawn from and weighed against."""

    def draw(self, n: int, seed: int) -> np.ndarray:
        """n quasi-random points, (n, d)."""

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Normalised log density at points (n, d), (n,)."""


def degrees(d: int) -> float:
    """Degrees of freedom of the t in d dimensions."""
    return 7.0 if d < _WIDE else 15.0


@dataclass(frozen=True, eq=False)
class SplitT:
    """x = center + axes·e, where e is t with `df` degrees and scales left, right on the two sides.

    center (d,); axes (d, d), one in each column; left, right (d,).
    """

    center: np.ndarray
    axes: np.ndarray
    left: np.ndarray
    right: np.ndarray
    df: float

    @cached_property
    def _inverse(self) -> np.ndarray:
        return np.linalg.inv(self.axes)

    @cached_property
    def _constant(self) -> float:
        d, df = len(self.center), self.df
        peak = gammaln((df + d) / 2) - gammaln(df / 2) - d / 2 * np.log(df * np.pi)
        sides = np.log(2 / (self.left + self.right)).sum()
        return float(peak + sides - np.linalg.slogdet(self.axes)[1])

    def draw(self, n: int, seed: int) -> np.ndarray:
        """n points from a Sobol net: one dimension an axis, one for the common chi-square."""
        u = sobol(n, len(self.center) + 1, seed)
        share = self.left / (self.left + self.right)
        v = u[:, :-1]
        below = self.left * ndtri(0.5 * np.minimum(v / share, 1.0))
        above = -self.right * ndtri(0.5 * np.minimum((1 - v) / (1 - share), 1.0))
        e = np.where(v < share, below, above)
        chi_square = 2 * gammaincinv(self.df / 2, u[:, -1])
        return self.center + (e * np.sqrt(self.df / chi_square)[:, None]) @ self.axes.T

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Normalised log density at points (n, d), (n,)."""
        z = self._inverse @ (x - self.center).T
        z /= np.where(z < 0, self.left[:, None], self.right[:, None])
        return self._constant + _log_kernel(z, self.df)


@dataclass(frozen=True, eq=False)
class Gaussian:
    """x = center + axes·e, where e is standard normal: center (d,), axes (d, d)."""

    center: np.ndarray
    axes: np.ndarray

    def draw(self, n: int, seed: int) -> np.ndarray:
        """n points from a Sobol net."""
        return self.center + ndtri(sobol(n, len(self.center), seed)) @ self.axes.T

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Normalised log density at points (n, d), (n,)."""
        e = np.linalg.solve(self.axes, (x - self.center).T)
        constant = np.linalg.slogdet(self.axes)[1] + len(e) / 2 * np.log(2 * np.pi)
        return -0.5 * (e**2).sum(axis=0) - constant


@dataclass(frozen=True, eq=False)
class Mixture:
    """Σ_k weights_k parts_k; draws are shared out in proportion, without chance."""

    parts: tuple[Proposal, ...]
    weights: np.ndarray

    @cached_property
    def depth(self) -> int:
        """How many mixtures are within one another."""
        return 1 + max((part.depth for part in self.parts if isinstance(part, Mixture)), default=0)

    def draw(self, n: int, seed: int) -> np.ndarray:
        """n points, round(n·weights_k) of part k, whose net no other part has, within parts either."""
        ends = np.rint(np.cumsum(self.weights) / np.sum(self.weights) * n).astype(int)
        counts = np.diff(np.r_[0, ends])
        pieces = [
            part.draw(int(count), seed + k * _APART**self.depth)
            for k, (part, count) in enumerate(zip(self.parts, counts, strict=True))
        ]
        return np.concatenate(pieces)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Normalised log density at points (n, d), (n,)."""
        values = np.array([part.log_density(x) for part in self.parts])
        values += np.log(self.weights)[:, None]
        top = _shares(values)
        with np.errstate(divide="ignore"):  # −∞ so far out that no part has a number for it
            return np.asarray(top + np.log(values.sum(0)))


def probed(
    target: Target, center: np.ndarray, axes: np.ndarray, probes: Sequence[float] = _PROBES
) -> SplitT:
    """A split t at a mode: each side's scale from the fall of log density at some sds.

    Axes (d, d) have unit length in sds of the mode's curvature. Scales are round numbers, which the order
    of the target's sums does not change.
    """
    d = len(center)
    sides = np.array([-1.0, 1.0])
    steps = np.array(probes)
    offsets = (axes.T[:, None, None, :] * sides[:, None, None]) * steps[:, None]
    points = np.concatenate([center[None], (center + offsets).reshape(-1, d)])
    value = target(points)
    fall = np.maximum(value[0] - value[1:].reshape(d, 2, len(steps)), 1e-3)
    scale = np.clip((steps / np.sqrt(2 * fall)).max(axis=2), *_SCALES)
    scale = np.rint(scale * 2**10) / 2**10
    return SplitT(center, axes, scale[:, 0], scale[:, 1], degrees(d))


def fit_sides(x: np.ndarray, weights: np.ndarray, axes: np.ndarray, df: float) -> SplitT:
    """A split t on given axes, its center and two scales an axis from weighted draws.

    With the center given the split normal's scales have a closed form: the sums of squares S of
    the two sides give σ² = S^(2/3)(S_left^(1/3) + S_right^(1/3)), and the best center has the
    smallest Σ S^(1/3).
    """
    e = x @ np.linalg.inv(axes).T
    mean = weights @ e
    e = e - mean
    sd = np.sqrt(weights @ e**2)
    d = x.shape[1]
    center, left, right = np.zeros(d), np.ones(d), np.ones(d)
    for j in range(d):
        moved = e[:, j] - _CENTERS[:, None] * sd[j]
        below = ((np.minimum(moved, 0) ** 2) @ weights) ** (1 / 3)
        above = ((np.maximum(moved, 0) ** 2) @ weights) ** (1 / 3)
        best = int(np.argmin(below + above))
        total = below[best] + above[best]
        center[j] = _CENTERS[best] * sd[j]
        left[j] = max(below[best] * np.sqrt(total), 0.25 * sd[j])
        right[j] = max(above[best] * np.sqrt(total), 0.25 * sd[j])
    return SplitT(axes @ (mean + center), axes, left, right, df)


def fit_mixture(x: np.ndarray, weights: np.ndarray, df: float, K: int = 2) -> Mixture:
    """K t distributions by expectation maximisation on weighted draws (n, d).

    They start side by side along the longest axis; a fiftieth of the whole covariance is added to each.
    """
    d = x.shape[1]
    mean = weights @ x
    S = (x - mean).T @ ((x - mean) * weights[:, None])
    lengths, U = np.linalg.eigh(S)
    S = S + 1e-12 * lengths[-1] * np.eye(d)
    along = ((x - mean) @ U[:, -1]) / np.sqrt(lengths[-1])
    order = np.argsort(along)
    levels = np.interp(np.arange(1, K + 1) / (K + 1), np.cumsum(weights[order]), along[order])
    r = -2 * (along - levels[:, None]) ** 2
    z = np.ascontiguousarray(x.T)
    for _ in range(30):
        _shares(r)
        r *= weights / r.sum(0)
        sizes = np.maximum(r.sum(1), 1e-3)
        means, roots = r @ x / sizes[:, None], np.empty((K, d, d))
        for k in range(K):
            away = z - means[k][:, None]
            C = (away * r[k]) @ away.T / sizes[k] + 0.02 * S
            roots[k] = np.linalg.cholesky(C)
            log_size = np.log(sizes[k]) - np.log(np.diag(roots[k])).sum()
            r[k] = _log_kernel(np.linalg.inv(roots[k]) @ away, df) + log_size
    ones = np.ones(d)
    parts = (SplitT(m, root, ones, ones, df) for m, root in zip(means, roots, strict=True))
    return Mixture(tuple(parts), sizes / sizes.sum())


def _log_kernel(z: np.ndarray, df: float) -> np.ndarray:
    """log density of a standard t at z (d, n), (n,), but for its constant; z is lost."""
    d = len(z)
    z *= z
    square = np.asarray(z.sum(0))
    square /= df
    np.log1p(square, out=square)
    square *= -(df + d) / 2
    return square


def _shares(log_r: np.ndarray) -> np.ndarray:
    """The largest of K logarithms (K, n), (n,); in their place exponentials, of which that one's is 1."""
    top = log_r.max(0)
    top[np.isneginf(top)] = 0.0
    log_r -= top
    np.exp(log_r, out=log_r)
    return np.asarray(top)


def fit_blocks(x: np.ndarray, weights: np.ndarray, first: int) -> Mixture:
    """Split t's with independent first coordinates, and two t's for the correlated rest.

    The first coordinates are near standard normal by construction, so only sides are learnt.
    """
    d = x.shape[1]
    df = degrees(d)
    if first == d:
        return Mixture((fit_sides(x, weights, np.eye(d), df),), np.ones(1))
    rest = fit_mixture(x[:, first:], weights, df)
    if first == 0:
        return rest
    sides = fit_sides(x[:, :first], weights, np.eye(first), df)
    parts = []
    for part in rest.parts:
        assert isinstance(part, SplitT)
        axes = np.eye(d)
        axes[first:, first:] = part.axes
        parts.append(
            SplitT(
                np.r_[sides.center, part.center],
                axes,
                np.r_[sides.left, part.left],
                np.r_[sides.right, part.right],
                df,
            )
        )
    return Mixture(tuple(parts), rest.weights)


def rounded(fitted: Mixture) -> Mixture:
    """The same t's with round numbers, of coordinates of about unit size: no last digit moves a draw."""
    parts = []
    for part in fitted.parts:
        assert isinstance(part, SplitT)
        center = np.rint(part.center * _ROUND) / _ROUND
        parts.append(replace(part, center=center, axes=_leading(part.axes)))
    weights = np.rint(fitted.weights * _ROUND) + 1
    return Mixture(tuple(parts), weights / weights.sum())


def _leading(x: np.ndarray) -> np.ndarray:
    """The leading bits of every number."""
    share, power = np.frexp(x)
    return np.ldexp(np.rint(share * _ROUND) / _ROUND, power)


def fit_again(x: np.ndarray, weights: np.ndarray, first: int) -> Mixture:
    """Where blocks did not do: half of them, half of a fit of all coordinates, and shoulders.

    The coordinates after the first are bent: an sd that may vanish, or a correlation that may be anything,
    has a normal shoulder of scale one there, however narrow its middle is. How others follow it so far out is
    not known: they have some room.
    """
    d = x.shape[1]
    parts: list[Proposal] = [fit_blocks(x, weights, first)]
    shares = [1.0]
    if d <= _WHOLE:
        parts.append(fit_mixture(x, weights, degrees(d)))
        shares.append(1.0)
    mean = weights @ x
    S = (x - mean).T @ ((x - mean) * weights[:, None]) + 1e-9 * np.eye(d)
    for j in range(first, d):
        if _NARROW**2 < S[j, j] < 1:
            V = _ROOM**2 * S
            V[j], V[:, j], V[j, j] = 0.0, 0.0, 1.0
            parts.append(SplitT(mean, np.linalg.cholesky(V), np.ones(d), np.ones(d), degrees(d)))
            shares.append(_SHOULDER * sum(shares[:2]))
    return Mixture(tuple(parts), np.array(shares) / np.sum(shares))


def pooled(proposals: Sequence[Proposal], counts: Sequence[int]) -> Mixture:
    """All rounds together: the density that their draws have between them."""
    return Mixture(tuple(proposals), np.array(counts) / np.sum(counts))
