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
from .mode import Mode, NoMode
from .spline import Spline

_KNOTS = np.array([-3.0, -1.5, 0.0, 1.5, 3.0])
_ROUND = 2.0**10  # round numbers are multiples of so small a part of an sd
_CLOSE = 0.1  # squared length in sds of the last Newton step to a knot, which need not be exact
_WIDTHS = 1e-3, 0.7  # sds of bent coordinates, at least and at most: beyond 2.1 an sd is 0 or vast


class Path:
    """x = (ε, bent u) ↔ θ = (β, u), with the Jacobian; made at the mode of θ.

    marginal is the Hessian of the log density of u with β integrated out, where `mode` is that
    density's; without it `mode` and its Hessian are the joint density's. A `straight` path has b linear
    in u and one L, by the joint Hessian alone.

    owner (p,) tells which of θ is the logarithm of a coefficient's own sd σ, −1 of none: b and L are joined
    in units of σ/√(1 + σ²/σ̂²), σ̂ the mode's; such a path has its marginal. As σ vanishes they go to 0 and 1
    whatever else u is, where what another axis changes would be too much to add; as it grows the data
    settle them, in units of their own.

    A `steady` path has b and L in round numbers: rounding errors of the density do not bend it.
    """

    def __init__(
        self,
        inside: Summed,
        mode: Mode,
        marginal: np.ndarray | None = None,
        straight: bool = False,
        owner: np.ndarray | None = None,
        steady: bool = False,
    ):
        self.steady = steady
        self.inside, self.p, self.theta = inside, inside.p, mode.x
        p, d = self.p, len(mode.x)
        self.bend = Bend(inside.kinds[p:], mode.x[p:])
        self.center = self.bend.bend(mode.x[p:])
        slope = self.bend.slope(self.center)
        H, joint = mode.hessian, marginal is None
        if marginal is None:
            marginal = H[p:, p:] - H[p:, :p] @ np.linalg.solve(H[:p, :p], H[:p, p:])
        curvature = np.maximum(np.linalg.eigvalsh(-marginal), 1e-12)
        _, U = np.linalg.eigh(-marginal)
        self.width = np.clip(np.sqrt(((U**2) / curvature).sum(1)) / slope, *_WIDTHS)
        self.owned = np.flatnonzero((np.full(p, -1) if owner is None else owner) >= 0)
        self.owner = np.empty(0, dtype=int) if owner is None else owner[self.owned] - p
        self.triangle = np.tril_indices(p)
        self.diagonal = self.triangle[0] == self.triangle[1]
        self.slope = np.zeros((d - p, p + len(self.diagonal)))
        self.splines: list[Spline] = []
        if straight:
            self.base = np.r_[mode.x[:p], self._entries(H[:p, :p], np.ones(p))]
            self.slope[:, :p] = (
                -np.linalg.solve(H[:p, :p], H[:p, p:] * slope).T * self.width[:, None]
            )
        else:
            self.base = self._conditional(np.zeros(d - p), mode.x[:p])
            self.splines = [self._spline(j, d - p) for j in range(d - p)]
        # curvature of u in bent coordinates: the density's, the bend's and, if joint, log |L(u)|'s
        push, extra = self._volume(joint)
        self.hessian = slope[:, None] * marginal * slope + np.diag(extra)
        axes = Mode(self.center, 0.0, self.hessian).axes()
        self.axes = np.eye(d)
        self.axes[p:, p:] = axes
        self.start = np.r_[np.zeros(p), self.center + np.clip(axes @ (axes.T @ push), -1, 1)]

    def natural(self, x: np.ndarray) -> np.ndarray:
        """θ at n points (n, d)."""
        p = self.p
        curve, u = self._curve(x[:, p:]), self.bend.natural(x[:, p:])
        entries = curve[:, p:].copy()
        entries[:, self.diagonal] = np.exp(entries[:, self.diagonal])
        L = np.zeros((len(x), p, p))
        L[:, self.triangle[0], self.triangle[1]] = entries
        beta = curve[:, :p] + np.einsum("nij,nj->ni", L, x[:, :p])
        beta[:, self.owned] *= np.exp(self._log_units(u))
        return np.concatenate([beta, u], axis=1)

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """log density of x at n points (n, d), (n,); −∞ where it is beyond double precision."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            value = self.inside.log_density(self.natural(x)) + self.log_volume(x[:, self.p :])
        return np.where(np.isnan(value), -np.inf, value)

    def log_volume(self, u: np.ndarray) -> np.ndarray:
        """log |∂θ/∂x| at n bent points (n, d − p), (n,)."""
        log_diagonal = self._curve(u)[:, self.p :][:, self.diagonal]
        own = self._log_units(self.bend.natural(u))
        return self.bend.log_jacobian(u) + log_diagonal.sum(1) + own.sum(1)

    def _volume(self, joint: bool) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivatives at û of the bend's volume and, if joint, of log |L(u)|'s, by axis."""
        first, second = self.bend.derivatives(self.center)
        middle, w = np.zeros(1), self.width
        for j, spline in enumerate(self.splines if joint else ()):
            first[j] += spline.slope(middle)[0, self.p :][self.diagonal].sum() / w[j]
            second[j] += spline.second(middle)[0, self.p :][self.diagonal].sum() / w[j] ** 2
        return first, second

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
            try:
                found[i] = self._conditional(move, nearer[: self.p] * self._sizes(move))
            except (
                NoMode
            ):  # beyond double precision: the path goes on as it was, and weights are exact
                found[i] = nearer
        values = np.array([found[i] for i in range(len(_KNOTS))])
        return Spline(_KNOTS, values - self.base)

    def _conditional(self, move: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """b and L's entries at û + move in bent coordinates, by Newton's method from β."""
        u, size = self.bend.natural(self.center + move), self._sizes(move)
        mode = conditional_mode(self.inside, u, beta, _CLOSE)
        b, entries = mode.x / size, self._entries(mode.hessian, size)
        if self.steady:
            sd = np.exp2(np.rint(np.log2(np.exp(entries[self.diagonal]))))
            unit = np.where(self.diagonal, 1.0, sd[self.triangle[0]]) / _ROUND
            b, entries = np.rint(b / sd * _ROUND) * sd / _ROUND, np.rint(entries / unit) * unit
        return np.r_[b, entries]

    def _sizes(self, move: np.ndarray) -> np.ndarray:
        """The units of coefficients at û + move, 1 of those that have no sd of their own, (p,)."""
        size = np.ones(self.p)
        size[self.owned] = np.exp(self._log_units(self.bend.natural(self.center + move)))
        return size

    def _log_units(self, u: np.ndarray) -> np.ndarray:
        """Logarithms of the units of the coefficients that have an sd of their own, at u (..., d − p)."""
        own, at_mode = u[..., self.owner], self.theta[self.p :][self.owner]
        return own - 0.5 * np.logaddexp(0.0, 2 * (own - at_mode))

    def _entries(self, H: np.ndarray, size: np.ndarray) -> np.ndarray:
        """L's lower triangle in these units, logarithms on its diagonal, from β's Hessian."""
        entries = (np.linalg.cholesky(np.linalg.inv(-H)) / size[:, None])[self.triangle]
        entries[self.diagonal] = np.log(entries[self.diagonal])
        return entries
