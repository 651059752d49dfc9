"""Many rows in few levels: every level's sum of log p is a smooth function, which a table knows.

Of rows with one effect a level, ℓ_g(w, t) = Σ_n log p(y_n | η_n) depends on w = z + Aθ, the effect with
all coordinates that have its column, and on the others t (further columns, dispersions), which many rows know
well: as a function of w it is a Chebyshev series over all that the posterior may reach, whose
coefficients are polynomials of t. With rates on a log scale ℓ_g = w Σy + c(t) − e^w T_g(t), and log T_g(t) is
all there is to know. A point then costs no visit to the rows, whatever the sd of the levels is; one
beyond the table costs it as before.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from .coordinates import Kind
from .exponents import rate_line, rate_slopes
from .factor import Factor
from .factor_density import Tabulated
from .frozen import shared
from .inside import Evaluated
from .mode import differenced
from .nearby import Nearby
from .row_sums import OneEffect, RowSums
from .surrogate import NotSmooth

DEGREES = 8, 12, 16, 24, 32, 48, 64  # of series, the first that suffices is taken
_SMALL = 1e-4  # of all levels' sums, what the last terms of a series may be
_MISSED, _SELDOM = 256, 0.02  # points beyond a table that rows are asked of, and their share of all
_ASKED = 16  # draws, about, where a table is compared with the rows
_SERIES = 2.0  # what a node of a series costs, in evaluations of a row's density


class Table(Nearby):
    """Sums of a factor's rows near `center` (d,), by polynomials within some `spread` (d,).

    low and high (G,) are what w − A·center is between in every group.
    """

    def __init__(
        self,
        inside: Factor,
        center: np.ndarray,
        spread: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rough: bool = False,
    ):
        own, A = own_coordinates(inside)
        super().__init__(center, np.flatnonzero(~own), spread)
        self.inside, self.A = inside, A[0]
        self.middle, self.half = (low + high) / 2, (high - low) / 2
        self._follow(self._base(), rough)
        self.asked = self.missed = 0

    @property
    def rates(self) -> bool:
        """Whether log T_g is all there is to know."""
        exponential = self.inside._exponential
        return exponential is not None and exponential.additive and exponential.intercept

    def _base(self) -> np.ndarray:
        """What is known at the center, of series of a degree that suffices; `NotSmooth` where none does."""
        rows = self.inside._rows_at(self.center[None])
        if self.rates:
            return self._of(rows)
        for self.degree in DEGREES:
            angles = np.pi * (np.arange(self.degree + 1) + 0.5) / (self.degree + 1)
            self.places = np.cos(angles)
            transform = np.cos(np.outer(angles, np.arange(self.degree + 1)))
            self.transform = transform * (2 / (self.degree + 1))
            self.transform[:, 0] /= 2
            base = self._of(rows)
            if np.abs(base[:, -2:]).sum(0).max() < _SMALL:
                return base
        raise NotSmooth("Levels' effects range so far that no series follows their rows.")

    def _known(self, t: np.ndarray) -> np.ndarray:
        """log T_g (G,), or coefficients of the series (G, degree + 1), where others moved by t steps."""
        theta = self.center.copy()
        theta[self.others] += t * self.step
        return self._of(self.inside._rows_at(theta[None]))

    def _of(self, rows: RowSums) -> np.ndarray:
        """The same from the rows' sums at a point."""
        if self.rates:  # of rows whose sums have them
            return np.log(rows.total[:, 0])  # type: ignore[attr-defined]
        nodes = self.middle[:, None] + self.half[:, None] * self.places
        return rows.line(nodes[None])[0] @ self.transform

    def at(self, theta: np.ndarray) -> RowSums:
        """The sums of rows at points θ (n, d)."""
        known, moved = self._at(theta), (theta - self.center) @ self.A
        if self.rates:
            return Rates(self.inside, theta, known + moved[:, None])
        return Series(self, theta, known, moved)


class Rates(OneEffect):
    """Rows of rates from log T_g (n, G). See: RowSums."""

    def __init__(self, inside: Factor, theta: np.ndarray, log_total: np.ndarray):
        fixed = inside._exponential
        assert fixed is not None
        self.inside, self.theta, self.log_total = inside, theta, log_total
        self.linear = fixed.yX @ theta[:, : inside.p].T + fixed.y_offset[:, None]
        self.total, self.yR = np.exp(log_total).T, fixed.yR

    def take(self, points: np.ndarray) -> RowSums:
        """At some of the points."""
        return Rates(self.inside, self.theta[points], self.log_total[points])

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""
        z = np.ascontiguousarray(Z.swapaxes(0, 1))
        return rate_line(self.linear, self.yR, self.total, z).swapaxes(0, 1)

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at effects (n, G, 1)."""
        return rate_slopes(self.yR, self.total, z)


class Series(OneEffect):
    """Any rows from Chebyshev series (n, G, degree + 1), where effects are within reach. See: RowSums."""

    def __init__(self, table: Table, theta: np.ndarray, c: np.ndarray, moved: np.ndarray):
        self.table, self.theta, self.c, self.moved = table, theta, c, moved

    def take(self, points: np.ndarray) -> RowSums:
        """At some of the points."""
        return Series(self.table, self.theta[points], self.c[points], self.moved[points])

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""
        u, beyond = self._places(Z)
        result = _clenshaw(self.c, u)
        if len(beyond):
            result[beyond] = self._rows(beyond).line(Z[beyond])
        return result

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, 1) and information (n, G, 1, 1) at effects (n, G, 1)."""
        (u, beyond), half = self._places(z), self.table.half[:, None]
        first = _derived(self.c)
        gradient = _clenshaw(first, u) / half
        information = -_clenshaw(_derived(first), u) / half**2
        information = information[..., None]
        if len(beyond):
            gradient[beyond], information[beyond] = self._rows(beyond).slopes(z[beyond])
        return gradient, information

    def _places(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places between −1 and 1 within the table, and the points that have some beyond."""
        table = self.table
        u = (Z + self.moved[:, None, None] - table.middle[:, None]) / table.half[:, None]
        beyond = np.flatnonzero(np.abs(u).max((1, 2), initial=0.0) > 1)
        table.asked += len(u)
        return np.clip(u, -1.0, 1.0, out=u), beyond

    def _rows(self, points: np.ndarray) -> RowSums:
        """The rows themselves; `NotSmooth` where they would be asked too often."""
        table = self.table
        table.missed += len(points)
        if table.missed > _MISSED + _SELDOM * table.asked:
            raise NotSmooth("The posterior is wider than a table.")
        return table.inside._rows_at(self.theta[points])


class Tabled:
    """log p(y, θ) of one effect a level with a table in place of the rows. See: Factor."""

    def __init__(self, inside: Factor, table: Tabulated, spread: np.ndarray):
        self.rows, self.inside, self.p, self.spread = inside, copy(inside), inside.p, spread
        self.inside.table = table

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.inside.kinds

    @property
    def work(self) -> float:
        """What a point costs, in evaluations of a row's density."""
        return table_work(self.inside)

    def choose_nodes(self, theta: np.ndarray) -> None:
        """Ends, and the fewest nodes, that suffice at n points; the first of them is the center."""
        self.inside.choose_nodes(theta)

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What sums with these nodes are off by at n points, (n,)."""
        return self.inside.error(theta)

    def off(self, theta: np.ndarray) -> float:
        """Root mean square of what the table is off by over n draws of θ, as the rows say at a few of them.

        Polynomials go astray far out, so draws are ranked by their distance from the center, the outermost
        first: the rows are asked at ranks in a geometric series, and each stands for those up to the next.
        They are asked at the table's nodes: integrands are log-concave, so that rows which say what the
        table does up to the ends have as little beyond them.
        """
        table = self.inside.table
        assert table is not None
        order = np.argsort(-table.distance(theta))
        ranks = np.unique(np.geomspace(1, len(order) + 1, _ASKED + 1).astype(int)) - 1
        at = theta[order[ranks[:-1]]]
        self.lend()
        square = (self.log_density(at) - self.rows.exact.log_density(at, self.inside)) ** 2
        return float(np.sqrt(np.diff(ranks) @ square / len(order)))

    def lend(self) -> None:
        """The nodes that were chosen, to the sums of the rows themselves."""
        own = {"table", "rows", "R", "groups"}
        self.rows.__dict__.update({k: v for k, v in vars(self.inside).items() if k not in own})

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        return self.inside.log_density(theta)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with moments of every group."""
        return self.inside.evaluate(theta)

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point, by differences over an eighth of `spread`."""
        return differenced(self.log_density, 0.125 * self.spread)(theta)


def own_coordinates(inside: Factor) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (d,) that are no business of the polynomials, and A (1, d). See: shared."""
    own, A = shared(inside)
    p, k = inside.p, inside.k
    own[p + k + inside.extra :] &= inside.rows.likelihood.moving != 0
    return own, A


def table_work(inside: Factor) -> float:
    """What a point of a table costs, in evaluations of a row's density."""
    exponential = inside._exponential
    if exponential is not None and exponential.additive and exponential.intercept:
        return inside.G * (inside.nodes + 10.0)
    return inside.G * _SERIES * inside.nodes


def reach(
    inside: Factor, theta: np.ndarray, center: np.ndarray, room: float = 1.6
) -> tuple[np.ndarray, np.ndarray]:
    """Ends (G,) of w − A·center over what the sums at points (n, d) need, with some room."""
    ends = inside._ends(theta)
    moved = ((theta - center) @ own_coordinates(inside)[1][0])[:, None]
    low = (ends.z + ends.C[..., 0] * ends.low)[..., 0] + moved
    high = (ends.z + ends.C[..., 0] * ends.high)[..., 0] + moved
    bottom, top = low.min(0), high.max(0)
    more = (room - 1) * (top - bottom) / 2
    return bottom - more, top + more


def _clenshaw(c: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Σ_k c_k T_k(u): c (n, G, degree + 1), u (n, G, Q)."""
    high, low = np.zeros_like(u), np.zeros_like(u)
    double = 2 * u
    for k in range(c.shape[2] - 1, 0, -1):
        low *= -1
        low += double * high
        low += c[..., k, None]
        high, low = low, high
    return c[..., 0, None] + u * high - low


def _derived(c: np.ndarray) -> np.ndarray:
    """The series of the derivative in u: d_{k−1} = d_{k+1} + 2k c_k, half of that for the constant."""
    degree = c.shape[2] - 1
    d = np.zeros_like(c)
    for k in range(degree, 0, -1):
        d[..., k - 1] = 2 * k * c[..., k]
        if k + 1 <= degree:
            d[..., k - 1] += d[..., k + 1]
    d[..., 0] /= 2
    return d
