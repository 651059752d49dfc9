"""Where the sums over a level's effects are taken when their log integrand may have several modes.

A frame is a normal approximation of every group: rows as good as one observation of z with information J.
Its centre and spread follow θ in closed form, whatever modes there are; how far the sums go in its
coordinates e is found by looking at all nodes of wider and wider, then finer and finer grids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_ROUNDS = 25
_SHRINK = 0.7  # of an axis, above which a grid is fine enough
_SIDE = 1.2  # what the first grid has to either side, of the sds at which a normal density has fallen far
_OFF = 2.5  # ratio of spreads from which on a frame is drawn anew

#: groups (k,) and their (z, C, low, high) at n points → the log integrand (n, k, Q, …) on those grids,
#: and their nodes (n, k, K, q)
Look = Callable[..., tuple[np.ndarray, np.ndarray]]


class Frame(NamedTuple):
    """J (G, q, q), b (G, q) with mean (J + Λ)⁻¹b at `center`, and ∂b/∂θ (G, q, d) but for Λ's part."""

    J: np.ndarray
    b: np.ndarray
    moves: np.ndarray
    center: np.ndarray

    @classmethod
    def nothing(cls, G: int, q: int, center: np.ndarray) -> Frame:
        """Rows that say nothing: the prior's."""
        zero = np.zeros((G, q))
        return cls(np.zeros((G, q, q)), zero, np.zeros((G, q, len(center))), center)

    @classmethod
    def around(
        cls,
        mean: np.ndarray,
        cov: np.ndarray,
        precision: np.ndarray,
        center: np.ndarray,
        A: np.ndarray,
    ) -> Frame:
        """With these moments (G, q), (G, q, q) where the prior has this precision (q, q).

        A (G, q, p) are effects that would do to a group's rows what its coefficients β do, in all.
        """
        values, U = np.linalg.eigh(np.linalg.inv(cov) - precision)
        J = (U * np.maximum(values, 0.0)[:, None]) @ U.swapaxes(1, 2)
        b = ((J + precision) @ mean[..., None])[..., 0]
        moves = np.zeros((*mean.shape, len(center)))
        moves[..., : A.shape[2]] = -J @ A
        return cls(J, b, moves, center)

    def moving(self, means: np.ndarray, step: float, precision: np.ndarray) -> Frame:
        """With the change of the mean along every coordinate: means (1 + d, G, q), the first at center."""
        change = (means[1:] - means[0]).transpose(1, 2, 0) / step
        return self._replace(moves=(self.J + precision) @ change)

    def take(self, groups: np.ndarray) -> Frame:
        """Of some groups."""
        return Frame(self.J[groups], self.b[groups], self.moves[groups], self.center)

    def at(self, theta: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centres z (n, G, q) and C (n, G, q, q), lower with CCᵀ the spread, at n points."""
        b = self.b + np.tensordot(theta - self.center, self.moves, axes=(1, 2))
        cov = np.linalg.inv(self.J + precision[:, None])
        return (cov @ b[..., None])[..., 0], np.linalg.cholesky(cov)


class Window(NamedTuple):
    """A grid's z, C, low and high at n points, and what was seen: mean (n, G, q), cov, top (n, G)."""

    z: np.ndarray
    C: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    cov: np.ndarray
    top: np.ndarray

    def replacing(self, groups: np.ndarray, parts: Window) -> Window:
        """With other parts for some groups."""
        result = Window(*(whole.copy() for whole in self))
        for whole, part in zip(result, parts, strict=True):
            whole[:, groups] = part
        return result


def find_window(
    look: Look,
    z: np.ndarray,
    C: np.ndarray,
    drop: float,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
) -> Window:
    """The coordinates of all nodes where the log integrand is within `drop` of its top, and a cell more.

    From the frame z (n, G, q), C (n, G, q, q), and low and high in it if known: grids widen while an end
    matters, and are drawn around what matters while that makes them smaller. Groups that are done rest.
    """
    side = _SIDE * np.sqrt(2 * drop)
    low = np.full(z.shape, -side) if low is None else low.copy()
    high = np.full(z.shape, side) if high is None else high.copy()
    found = Window(z, C, low, high, np.empty(z.shape), np.empty(C.shape), np.empty(z.shape[:2]))
    some = np.arange(z.shape[1])
    for _ in range(_ROUNDS):
        more = _narrowed(look, found, some, drop)
        some = some[more]
        if not len(some):
            break
    return found


def _narrowed(look: Look, found: Window, some: np.ndarray, drop: float) -> np.ndarray:
    """Look at some groups, whose parts of `found` follow; which of them want another look, (k,)."""
    C, low, high = found.C[:, some], found.low[:, some], found.high[:, some]
    f, Z = look(some, found.z[:, some], C, low, high)
    nodes = f.shape[2]
    step = (high - low) / (nodes - 1)
    heights = f.reshape(*f.shape[:2], -1)
    top = heights.max(2)
    heights = heights - top[..., None]
    P = np.exp(heights)
    P /= P.sum(2, keepdims=True)
    mean = (P[:, :, None] @ Z)[:, :, 0]
    away = Z - mean[:, :, None]
    cov = (away * P[..., None]).swapaxes(2, 3) @ away
    cell = C * step[..., None, :] / 2  # half a cell along each axis, in z
    cov = cov + (cell @ cell.swapaxes(2, 3)) / 3
    first, last = _ends((heights > -drop).reshape(f.shape))
    cut_low, cut_high = first == 0, last == nodes - 1
    width = high - low
    lower = np.where(cut_low, low - width / 2, low + (first - 1) * step)
    upper = np.where(cut_high, high + width / 2, low + (last + 1) * step)
    smaller = upper - lower < _SHRINK * width
    found.low[:, some], found.high[:, some] = lower, upper
    found.mean[:, some], found.cov[:, some], found.top[:, some] = mean, cov, top
    more: np.ndarray = (cut_low | cut_high | smaller).any((0, 2))
    return more


def _ends(near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last node of each axis that matter, (n, G, q) each, of near (n, G, Q, …)."""
    q, nodes = near.ndim - 2, near.shape[2]
    first, last = [], []
    for axis in range(q):
        here = np.asarray(near.any(tuple(2 + j for j in range(q) if j != axis)))
        first.append(here.argmax(2))
        last.append(nodes - 1 - here[..., ::-1].argmax(2))
    return np.stack(first, axis=-1), np.stack(last, axis=-1)


def settle(
    look: Look, z: np.ndarray, C: np.ndarray, prior: np.ndarray | None, drop: float
) -> Window:
    """A window that misses nothing within the prior's reach, in a frame drawn anew if the first was far off.

    prior (n, q, q) is lower, with prior · priorᵀ the covariance of the effects; without it nobody looks
    how far that reaches.
    """
    found = find_window(look, z, C, drop)
    inverse = np.linalg.inv(found.C)
    seen = np.linalg.eigvalsh(inverse @ found.cov @ inverse.swapaxes(2, 3))
    far = np.flatnonzero(((seen > _OFF**2) | (seen < _OFF**-2)).any((0, 2)))
    if len(far):
        again = find_window(
            _among(look, far), found.mean[:, far], np.linalg.cholesky(found.cov[:, far]), drop
        )
        found = found.replacing(far, again)
    return found if prior is None else reach(look, found, prior, drop)


def reach(look: Look, found: Window, prior: np.ndarray, drop: float) -> Window:
    """The window, drawn around whatever else matters on a coarse grid of all that the prior allows."""
    side = _SIDE * np.sqrt(2 * drop)
    everywhere = np.broadcast_to(prior[:, None], found.C.shape)
    wide = np.full(found.z.shape, side)
    f, Z = look(np.arange(found.z.shape[1]), np.zeros_like(found.z), everywhere, -wide, wide)
    matters = f.reshape(*f.shape[:2], -1) > found.top[..., None] - drop
    e = np.linalg.solve(found.C[:, :, None], (Z - found.z[:, :, None])[..., None])[..., 0]
    outside = (e < found.low[:, :, None]) | (e > found.high[:, :, None])
    some = np.flatnonzero((matters & outside.any(-1)).any((0, 2)))
    if not len(some):
        return found
    low = np.where(matters[..., None], e, np.inf).min(2)
    high = np.where(matters[..., None], e, -np.inf).max(2)
    low, high = np.minimum(low, found.low), np.maximum(high, found.high)
    again = find_window(
        _among(look, some), found.z[:, some], found.C[:, some], drop, low[:, some], high[:, some]
    )
    return found.replacing(some, again)


def _among(look: Look, groups: np.ndarray) -> Look:
    """A look at some groups, which are numbered anew."""
    return lambda some, *window: look(groups[some], *window)
