"""Coefficients along the path of their conditional modes: β = b(u) + L(u)ε, with u bent.

b and L, the mode and the Cholesky factor of the inverse curvature of β given the hyperparameters u,
are found at û and at ±1.5 and ±3 sds along each axis, and joined by cubic splines, additive over axes
and linear beyond. ε is then near standard normal whatever u.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .coordinates import Bend
from .inside import Summed
from .laplace import conditional_mode
from .mode import Mode, differenced
from .proposals import Target
from .spline import Spline

_KNOTS = np.array([-3.0, -1.5, 0.0, 1.5, 3.0])
_CLOSE = 0.1  # squared length in sds of the last Newton step to a knot, which need not be exact
_WIDTHS = 0.02, 0.7  # sds of bent coordinates, at least and at most: beyond 2.1 an sd is 0 or vast


class Path:
    """x = (ε, bent u) ↔ θ = (β, u), with the Jacobian; made at the mode of θ.

    marginal is the Hessian of the log density of u with β integrated out, where `mode` is that
    density's; without it `mode` and its Hessian are the joint density's. A `straight` path has b linear
    in u and one L, by the joint Hessian alone.
    """

    def __init__(
        self,
        inside: Summed,
        mode: Mode,
        marginal: np.ndarray | None = None,
        straight: bool = False,
    ):
        self.inside, self.p, self.theta = inside, inside.p, mode.x
        p, d = self.p, len(mode.x)
        self.bend = Bend(inside.kinds[p:], mode.x[p:])
        self.center = self.bend.bend(mode.x[p:])
        slope = self.bend.slope(self.center)
        volume: Target = self.bend.log_jacobian
        H = mode.hessian
        if marginal is None:
            volume = self.log_volume
            marginal = H[p:, p:] - H[p:, :p] @ np.linalg.solve(H[:p, :p], H[:p, p:])
        curvature = np.maximum(np.linalg.eigvalsh(-marginal), 1e-12)
        _, U = np.linalg.eigh(-marginal)
        self.width = np.clip(np.sqrt(((U**2) / curvature).sum(1)) / slope, *_WIDTHS)
        self.triangle = np.tril_indices(p)
        self.diagonal = self.triangle[0] == self.triangle[1]
        self.slope = np.zeros((d - p, p + len(self.diagonal)))
        self.splines: list[Spline] = []
        if straight:
            self.base = np.r_[mode.x[:p], self._entries(H[:p, :p])]
            self.slope[:, :p] = (
                -np.linalg.solve(H[:p, :p], H[:p, p:] * slope).T * self.width[:, None]
            )
        else:
            self.base = self._conditional(np.zeros(d - p), mode.x[:p])
            self.splines = [self._spline(j, d - p) for j in range(d - p)]
        # curvature of u in bent coordinates: the density's, the bend's and, if joint, log |L(u)|'s
        _, push, extra = differenced(volume)(self.center)
        self.hessian = slope[:, None] * marginal * slope + extra
        axes = Mode(self.center, 0.0, self.hessian).axes()
        self.axes = np.eye(d)
        self.axes[p:, p:] = axes
        self.start = np.r_[np.zeros(p), self.center + np.clip(axes @ (axes.T @ push), -1, 1)]

    def natural(self, x: np.ndarray) -> np.ndarray:
        """θ at n points (n, d)."""
        p = self.p
        curve = self._curve(x[:, p:])
        entries = curve[:, p:].copy()
        entries[:, self.diagonal] = np.exp(entries[:, self.diagonal])
        L = np.zeros((len(x), p, p))
        L[:, self.triangle[0], self.triangle[1]] = entries
        beta = curve[:, :p] + np.einsum("nij,nj->ni", L, x[:, :p])
        return np.concatenate([beta, self.bend.natural(x[:, p:])], axis=1)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log density of x at n points (n, d), (n,); −∞ where it is beyond double precision."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value = self.inside.log_density(self.natural(x)) + self.log_volume(x[:, self.p :])
        return np.where(np.isnan(value), -np.inf, value)

    def log_volume(self, u: np.ndarray) -> np.ndarray:
        """log |∂θ/∂x| at n bent points (n, d − p), (n,)."""
        log_diagonal = self._curve(u)[:, self.p :][:, self.diagonal]
        return self.bend.log_jacobian(u) + log_diagonal.sum(1)

    def _curve(self, u: np.ndarray) -> np.ndarray:
        """b and the entries of L, logarithms on its diagonal, at n bent points."""
        z = (u - self.center) / self.width
        last = _KNOTS[-1]
        total = self.base + np.clip(z, -2 * last, 2 * last) @ self.slope
        for j, spline in enumerate(self.splines):
            far = np.clip(z[:, j], -2 * last, 2 * last)
            near = np.clip(far, -last, last)
            total += spline(near) + (far - near)[:, None] * spline.slope(near)
        return total

    def _spline(self, axis: int, k: int) -> Spline:
        """The change of b and L along one axis of u, in sds."""
        middle = len(_KNOTS) // 2
        found: dict[int, np.ndarray] = {middle: self.base}
        outwards: Sequence[int] = [*range(middle + 1, len(_KNOTS)), *range(middle - 1, -1, -1)]
        for i in outwards:
            move = np.zeros(k)
            move[axis] = _KNOTS[i] * self.width[axis]
            nearer = found[i - 1 if i > middle else i + 1]
            found[i] = self._conditional(move, nearer[: self.p])
        values = np.array([found[i] for i in range(len(_KNOTS))])
        return Spline(_KNOTS, values - self.base)

    def _conditional(self, move: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """b and L's entries at û + move in bent coordinates, by Newton's method from β."""
        u = self.bend.natural(self.center + move)
        mode = conditional_mode(self.inside, u, beta, _CLOSE)
        return np.r_[mode.x, self._entries(mode.hessian)]

    def _entries(self, H: np.ndarray) -> np.ndarray:
        """L's lower triangle, logarithms on its diagonal, from β's Hessian."""
        entries = np.linalg.cholesky(np.linalg.inv(-H))[self.triangle]
        entries[self.diagonal] = np.log(entries[self.diagonal])
        return entries
