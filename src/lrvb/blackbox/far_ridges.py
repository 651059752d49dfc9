"""Tails of marginals, by Laplace's method far out along each coordinate.

On a ray of one coordinate with the others as they are p may fall faster than the marginal does: where a heavy
direction is no coordinate's the ray leaves its ridge, where a scale widens all coordinates at once the ridge
widens as it goes, and where the scale is a coordinate itself the ray keeps it small. So the others are taken
to where p is highest, and the width of p there counts:
p(x_d) ∝ p(x_d, x̂)·|−∇²log p|^(−½), of the other coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..numerics.hmc import MANY, root_of
from ..posterior.tails import FAR, NEAR, Tails, along_paths, steps_between
from ..posterior.verdicts import TAIL
from .kernel import Kernel, Values
from .outposts import STEEPEST, raised

STEPS = 60  # of Adam
RATE = 0.1, 0.003  # of the distance that a step moves, at first and in the end
NEWTON, LONGEST = 20, 0.5  # steps of Newton's method after that, and the longest, of the distance
DONE = 1e-6  # of log p that another step would bring: the path must be smooth to a part of its 2 % steps
SUSPECT = 0.3  # tail index, had p widened as fast as the distance grows, that is looked at closely
SHARE, LEAST = 0.25, 4000  # of all gradients so far that ridges may take, and as many in any case
FIRM = 0.01  # of a precision in units of 1/distance², below which there is no width
QUARTILES = 1.349  # sds of a normal between its quartiles
STUCK = 1e-3  # of an sd, the least distance between quartiles


class Ridges(NamedTuple):
    """Coordinates' ridges: x = center + root·u, and uᵀa is the distance in sds, a (rays, D) of length one.

    `up` (rays,) tells those above the center. `wide` (rays,) are logarithms of sds over a normal's with the
    same quartiles: so much higher than a normal's is a density whose sd is in its tails.
    """

    kernel: Kernel
    center: np.ndarray
    root: np.ndarray
    a: np.ndarray
    up: np.ndarray
    wide: np.ndarray

    def at(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p and its gradient in u, across a, at u (…, rays, D)."""
        value, gradient = self.kernel(self.points(u).reshape(-1, len(self.center)))
        along = np.clip(gradient.reshape(u.shape), -STEEPEST, STEEPEST) @ self.root
        along -= (along * self.a).sum(axis=-1, keepdims=True) * self.a
        return value.reshape(u.shape[:-1]), along

    def points(self, u: np.ndarray) -> np.ndarray:
        """x of u."""
        return self.center + u @ self.root.T

    def some(self, chosen: np.ndarray) -> Ridges:
        """Of some rays only."""
        return self._replace(a=self.a[chosen], up=self.up[chosen], wide=self.wide[chosen])


def ridge_tails(kernel: Kernel, values: Values, x: np.ndarray, spread: np.ndarray) -> Tails:
    """Tails of every named value along ridges of coordinates, by draws x (n, D): each (q,).

    Zero where the tail is light, or its squares do not count beside the sds `spread` (q,) of the values. As
    many rays are climbed as a share of all gradients allows, from the highest p on; those on which the tail
    could be heavy if p widened in every direction with the distance are followed to the end, the slowest fall
    first, and where one is heavy all that another such share allows.
    """
    D, steps = kernel.size, steps_between(NEAR, FAR)
    ridges, starts = rays_of(kernel, x)
    first = np.argsort(-ridges.at(starts)[0].max(axis=0))[: affordable(kernel, 2 * STEPS)]
    ridges, starts = ridges.some(first), starts[:, first]
    near = _raised(ridges, starts, NEAR)
    far = _raised(ridges, np.concatenate([2 * near[None], 2 * starts]), FAR)
    u = np.stack([near / NEAR, near / NEAR, far / FAR, far / FAR]) * steps[:, None, None]
    widest = ridges.at(u)[0] + (D - 1) * np.log(steps)[:, None]
    inner = _center(ridges) - ridges.wide
    hint = along_paths(ridges.points(u), widest, inner, values, ridges.center, spread, True)
    worst = hint.indices.max(axis=1, initial=0.0)
    order = np.argsort(-worst)
    afford = affordable(kernel, 2 * NEWTON * (2 * D + 1))
    suspects = min(afford, int((worst > SUSPECT).sum()))
    found = _followed(ridges, order[:suspects], u, inner, values, spread)
    if (found.indices > TAIL).any():
        more = _followed(ridges, order[suspects:afford], u, inner, values, spread)
        found = Tails(*(np.maximum(a, b) for a, b in zip(found, more, strict=True)))
    return found


def affordable(kernel: Kernel, gradients: int) -> int:
    """How many rays may be looked at that take so many gradients each."""
    return max(2, int(max(SHARE * kernel.count.gradients, LEAST) // gradients))


def _followed(
    ridges: Ridges,
    chosen: np.ndarray,
    u: np.ndarray,
    inner: np.ndarray,
    values: Values,
    spread: np.ndarray,
) -> Tails:
    """Tails along some rays from points u (4, rays, D) near their ridges, the worst of all, (q,).

    `inner` (rays,) is the log density at the center where Laplace's method fails there.
    """
    if not len(chosen):
        return Tails(*np.zeros((2, len(spread))))
    here = ridges.some(chosen)
    path, log_p = laplace(here, np.concatenate([0 * u[:1, chosen], u[:, chosen]]))
    top = np.where(np.isfinite(log_p[0]), log_p[0] - here.wide, inner[chosen])
    found = along_paths(here.points(path[1:]), log_p[1:], top, values, here.center, spread)
    sides = [found.beyond[side].max(axis=0, initial=0.0) for side in (here.up, ~here.up)]
    return Tails(found.indices.max(axis=0), sides[0] + sides[1])


def rays_of(kernel: Kernel, x: np.ndarray) -> tuple[Ridges, np.ndarray]:
    """Both sides of every coordinate that varies, and starts at `NEAR` sds (3, rays, D).

    Starts are where the others are usual under a normal, where they are in the farthest draw, and where they
    have their means.
    """
    center, sd = x.mean(axis=0), x.std(axis=0)
    moves = np.flatnonzero(sd > 0)
    if len(moves) < x.shape[1] or len(x) < MANY * x.shape[1]:
        root = np.diag(np.where(sd > 0, sd, 1.0))
    else:
        root = root_of(x)
    along, side = np.tile(moves, 2), np.repeat([1.0, -1.0], len(moves))
    a = side[:, None] * root[along] / np.linalg.norm(root[along], axis=1, keepdims=True)
    whitened = np.linalg.solve(root, (x - center).T).T
    farthest = whitened[np.argmax(whitened @ a.T, axis=0)]
    alone = np.linalg.solve(root, np.diag(sd)).T[along] * side[:, None]
    starts = np.stack([a, farthest, alone])
    between = np.ptp(np.quantile(x, [0.25, 0.75], axis=0), axis=0)[along] / sd[along]
    wide = np.log(QUARTILES / np.maximum(between, STUCK))
    return Ridges(kernel, center, root, a, side > 0, wide), NEAR * starts / (starts * a).sum(
        axis=-1, keepdims=True
    )


def _raised(ridges: Ridges, starts: np.ndarray, away: float) -> np.ndarray:
    """The best of several starts (k, rays, D), where p is higher with the same uᵀa."""
    value, _ = ridges.at(starts)
    best = np.argmax(value, axis=0)
    begun = np.take_along_axis(starts, best[None, :, None], axis=0)[0]
    rates = away * np.geomspace(*RATE, STEPS)
    u = raised(ridges.kernel, ridges.center, ridges.root, begun, ridges.a, rates)
    better = ridges.at(u)[0] >= value.max(axis=0)
    return np.where(better[:, None], u, begun)


def laplace(ridges: Ridges, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points u (m, rays, D) on the ridge, and log p less ½ log det of the precision across a, (m, rays).

    Not a number where Newton's method, in steps of half the distance at most, finds no best.
    """
    D, shape = u.shape[-1], u.shape[:-1]
    u, ridges = u.reshape(-1, D).copy(), ridges.some(np.tile(np.arange(shape[1]), shape[0]))
    a = ridges.a
    away, radius = np.maximum(np.linalg.norm(u, axis=1), 1.0), np.full(len(u), LONGEST)
    value, gradient = ridges.at(u)
    log_p, on = np.full(len(u), np.nan), np.flatnonzero(np.isfinite(value))
    for _ in range(NEWTON):
        here, r = ridges.some(on), away[on, None]
        H = here.kernel.hessians(here.points(u[on]), here.root)
        project = np.eye(D) - a[on, :, None] * a[on, None, :]
        P = project @ np.where(np.isfinite(H), -H, 0.0) @ project * r[:, None] ** 2
        above = 1 + 2 * np.linalg.norm(P, axis=(1, 2))  # a's own eigenvalue is the last
        w, U = np.linalg.eigh(P + above[:, None, None] * (np.eye(D) - project))
        w, U = w[:, :-1], U[:, :, :-1]
        along = np.einsum("nij,ni->nj", U, gradient[on]) * r
        firm = np.maximum(np.abs(w), FIRM)
        step = along / firm
        done = (w > FIRM).all(axis=1) & ((along * step).sum(axis=1) < DONE)
        log_p[on[done]] = value[on[done]] - 0.5 * np.log(w[done] / r[done] ** 2).sum(axis=1)
        length = np.linalg.norm(step, axis=1)
        step *= np.minimum(1.0, radius[on] / np.maximum(length, 1e-300))[:, None]
        moved = u[on] + r * np.einsum("nij,nj->ni", U, step)
        new, new_gradient = here.at(moved)
        better = (new >= value[on]) & ~done
        at = on[better]
        u[at], value[at], gradient[at] = moved[better], new[better], new_gradient[better]
        radius[on] = np.where(
            better, np.minimum(2 * radius[on], LONGEST), 0.3 * np.minimum(radius[on], length)
        )
        on = on[~done]
        if not len(on):
            break
    return u.reshape(*shape, D), log_p.reshape(shape)


def _center(ridges: Ridges) -> float:
    """The same where the draws are: log p at their mean less ½ log det there, in all but one direction.

    In coordinates whitened by the draws one direction counts for as much as another.
    """
    D = len(ridges.center)
    value = ridges.kernel(ridges.center[None])[0][0]
    P = -ridges.kernel.hessians(ridges.center[None], ridges.root)[0]
    sign, log_det = np.linalg.slogdet(P) if np.isfinite(P).all() else (0.0, 0.0)
    return float(value - (0.5 * log_det * (D - 1) / D if sign > 0 else 0.0))
