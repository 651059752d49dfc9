"""All that is kept of a fit at one u: the evidence with its slope, and coefficients' moments."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..mode import NoMode
from .fitting import Fitted, Start, fit
from .joint import Joint
from .layout import Layout
from .level_sums import Gap, Pattern, gap

LEAST = 0.1  # of a level's variance given β, which its own sum may leave
CREDIBLE = 3.0, 3.0  # nats, and times the mode's, that half a variance may add to the bound
AS_NEAR = 1e-6  # share of a distance that is none
APART = 0.5  # sds by which β's mean is moved to see what follows it


@dataclass(frozen=True, eq=False)
class Point:
    """At u: the bound, its gradient, and what levels' sums (own), the rest and joint draws (more) add.

    noise (P,) is what parts of the levels alone would add to it, where some stand for all, probed (P,) what
    probes, or parts of the joint draws, would; unsolved is the share of a right side at which conjugate
    gradients gave up. beta and C are β's. Of all levels' coefficients, factor by factor: mean and variance
    (M,) given β = beta, third (M,) central moments, U (M, p) what β takes off; squares Σ_k E zzᵀ of each
    factor.
    """

    u: np.ndarray
    bound: float
    gradient: np.ndarray
    own: float
    rest: float
    more: float
    noise: np.ndarray
    probed: np.ndarray
    unsolved: float
    beta: np.ndarray
    C: np.ndarray
    mean: np.ndarray = field(repr=False)
    variance: np.ndarray = field(repr=False)
    third: np.ndarray = field(repr=False)
    U: np.ndarray = field(repr=False)
    squares: list[np.ndarray] = field(repr=False)

    @property
    def value(self) -> float:
        """log p(y, u)."""
        return self.bound + self.own + self.rest + self.more


class Fits:
    """Fits at one u after another, each from where the nearest before it ended.

    Where there are `joint` draws the evidence is theirs.
    """

    def __init__(self, layout: Layout, start: Start):
        self.layout = layout
        self.pattern: Pattern | None = None
        self.most = np.inf
        self.joint: Joint | None = None
        self.starts: list[tuple[np.ndarray, Start]] = [(np.full(0, np.nan), start)]

    def fit(self, u: np.ndarray, tilt: np.ndarray | None = None) -> Fitted:
        """q at u."""
        away = np.array([_distance(kept[0], u) for kept in self.starts])
        # the first of those that are as near: rounding has no say where points lie evenly
        near = int(np.flatnonzero(away <= away.min() * (1 + AS_NEAR))[0])
        try:
            found = fit(self.layout, u, self.starts[near][1], tilt)
        except np.linalg.LinAlgError as error:
            raise NoMode(
                f"No Gaussian block at the hyperparameters {u}: {error}.", point=u
            ) from error
        if tilt is None:
            self.starts = [
                *self.starts[-7:],
                (u, Start(found.beta, found.z, found.rows.kept(found.Q))),
            ]
        return found

    def at(self, u: np.ndarray) -> Point:
        """The point at u, with its levels' sums; the first is at the mode.

        Half a variance stands for the logarithm of a mean while it is small: far out, where the bound has
        fallen, it may be anything, and counts as no more than some times what it is at the mode.
        """
        fitted = self.fit(u)
        found = self.gap(fitted)
        if not np.isfinite(self.most):
            self.most = CREDIBLE[0] + CREDIBLE[1] * found.rest
        point = made(fitted, found._replace(rest=min(found.rest, self.most)))
        return point if self.joint is None else self.weighed(point, fitted)

    def weighed(self, point: Point, fitted: Fitted) -> Point:
        """A point whose evidence is that of joint draws."""
        assert self.joint is not None
        try:
            drawn = self.joint(fitted)
        except np.linalg.LinAlgError as error:
            raise NoMode(f"No joint draws at {point.u}: {error}.", point=point.u) from error
        if not np.isfinite(drawn.value):
            raise NoMode(f"No joint draw has a density at {point.u}.", point=point.u)
        return replace(point, more=point.more + drawn.value - point.value, probed=drawn.noise)

    def gap(self, fitted: Fitted) -> Gap:
        """Levels' sums; of many rows, of all levels the first time only."""
        found = gap(self.layout, fitted, self.pattern)
        if self.pattern is None and not self.layout.complete:
            self.pattern = Pattern(found, fitted.covariances)
        return found


def made(fitted: Fitted, found: Gap) -> Point:
    """What is kept of a fit and its levels' sums."""
    Q = fitted.Q
    variances, squares = [], []
    for f, (C, spread) in enumerate(zip(fitted.covariances, found.spread, strict=True)):
        given = C - Q.through_beta(f)
        whole, own = (np.diagonal(part, axis1=1, axis2=2) for part in (C, given))
        changed = np.diagonal(spread, axis1=1, axis2=2) - whole
        variances.append(np.maximum(own + changed, LEAST * own))
        z = fitted.z[f] + found.moved[f]
        squares.append(z.T @ z + spread.sum(0))
    return Point(
        fitted.u,
        fitted.bound,
        fitted.gradient,
        found.own,
        found.rest,
        0.0,
        found.noise,
        fitted.noise,
        Q.schur.unsolved,
        fitted.beta,
        Q.C,
        np.concatenate([(a + b).ravel() for a, b in zip(fitted.z, found.moved, strict=True)]),
        np.concatenate([part.ravel() for part in variances]),
        np.concatenate([part.ravel() for part in found.third]),
        Q.U,
        squares,
    )


def respond(fits: Fits, point: Point) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""β's mean less q's, in sds (p,), its covariance by linear response (p, p), at a point.

    With tᵀβ added to the log density, E β = ∂ log p(y | u)/∂t: the bound's part is q's mean, the gap's the
    shift; and Cov β = ∂E β/∂t. The last is what parts of the levels alone would add to the shift (p, P).
    """
    p = len(point.beta)
    sd = np.sqrt(np.diag(point.C))
    shift, columns, noise = np.empty(p), np.empty((p, p)), np.empty((p, len(point.noise)))
    for i in range(p):
        tilt = APART / sd[i] * (np.arange(p) == i)
        found = fits.fit(point.u, tilt)
        missing = fits.gap(found)
        shift[i] = (missing.total - point.own - point.rest) / APART
        noise[i] = (missing.noise - point.noise) / APART
        columns[:, i] = (found.beta - point.beta) / (APART / sd[i])
    return shift, (columns + columns.T) / 2, noise


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(((a - b) ** 2).sum()) if len(a) == len(b) else np.inf
