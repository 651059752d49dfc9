"""log p(y, θ) of one factor with its levels summed out, at points where the nodes of the sums are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from .coordinates import FREE, Kind
from .exponents import Exponential
from .frame import Frame
from .groups import gather, repeat
from .inside import Evaluated
from .regression import Regression
from .row_sums import Directly, RowSums
from .terms import Term, split_by_size

FAR, NEAR = 20.0, 14.0  # fall of the log integrand at the ends: e^−20 = 2e-9, e^−14 = 8e-7
MANY = 10_000  # rows from which on a mode is looked for with few nodes at first
_CELLS = 2.0**15  # nodes of groups × points at a time: what fits a processor's cache
_ROWS = 2.0**17  # rows × points at a time
_REACH = 12.0  # |log sd|, and |atanh ρ|, up to which double precision carries the sums


class Tabulated(Protocol):
    """What knows the sums of rows without them."""

    def at(self, theta: np.ndarray) -> RowSums:
        """The sums of rows at points θ (n, d)."""

    def distance(self, theta: np.ndarray) -> np.ndarray:
        """How far points are from where it is sure, (n,)."""


class Sums(NamedTuple):
    """Of n points: log density (n,); the groups' grids; probabilities (n, G, Q, …) and their sums (n, G).

    each (n, G) is the log of each group's integral, but for its rows' constant.
    """

    value: np.ndarray
    grid: Any
    P: np.ndarray
    total: np.ndarray
    each: np.ndarray


class Ends(NamedTuple):
    """Each group's mode z (n, G, q), C (n, G, q, q) with CCᵀ the inverse curvature, and its box.

    The sums are over z + Ce with e between low and high (n, G, q).
    """

    z: np.ndarray
    C: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def at(self, points: slice) -> Ends:
        """Those of some of the points."""
        return Ends(*(part[points] for part in self))


class Priors(NamedTuple):
    """Of n points: Λ = Σ⁻¹ (n, q, q), log |Σ| (n,) and log p(θ) (n,)."""

    precision: np.ndarray
    logdet: np.ndarray
    log_p: np.ndarray

    def at(self, points: slice) -> Priors:
        """Those of some of the points."""
        return Priors(*(part[points] for part in self))


class Step(NamedTuple):
    """Newton's step (n, G, q) to each group's mode, bounded; its length in sds (n, G), C, the gradient."""

    step: np.ndarray
    length: np.ndarray
    C: np.ndarray
    gradient: np.ndarray


class FactorDensity(ABC):
    """θ = (β, covariance of a level's q effects, dispersions): one factor's levels summed out."""

    ladder: tuple[int, ...]  # numbers of nodes an axis, of which the first that suffices is taken
    extra = 0  # coordinates of what is summed out within the rows, before the dispersions

    def __init__(self, rows: Regression, terms: Sequence[Term], merge: bool, nodes: int):
        R = np.concatenate([term.R for term in terms], axis=1)
        self.terms, self._first = tuple(terms), nodes
        values = np.column_stack([rows.X, rows.offset, R, *rows.columns])
        alike = values if merge and repeat(values) else None
        self.groups = gather(terms[0].codes, terms[0].levels, alike, by_size=True)
        self.constant = rows.likelihood.constant(rows.columns)
        self.p, self.q, self.k = rows.p, R.shape[1], sum(term.size for term in terms)
        self._arrange(rows.take(self.groups.rows), R[self.groups.rows])
        kinds = np.array(self.kinds)
        self._log, self._bounded = kinds == "log", np.isin(kinds, ("log", "correlation"))
        self._sds = np.flatnonzero(self._log[: self.p + self.k])  # of the terms, in θ
        self._box: tuple[np.ndarray, np.ndarray] | None
        self._frame: Frame | None
        self.forget()

    def forget(self) -> None:
        """Nothing is known of where the groups' effects are, nor how many nodes they need."""
        self.nodes, self.bent, self._center = self._first, False, self.start()
        # where searches for modes begin: at the center, and how that moves with θ
        self._start = np.zeros((self.G, self.q))
        self._moves = np.zeros((self.G, self.q, len(self._center)))
        # in place of modes where there may be several
        concave = self.rows.likelihood.concave
        self._frame = None if concave else Frame.nothing(self.G, self.q, self._center)
        self.drop = FAR if self.N < MANY else NEAR
        self._known = 0.0  # what the log density is off by at the center
        self._box = None  # once chosen, (G, q) each
        self.hurried = False  # whether bumps far from all others may be missed

    def be_quick(self, nodes: int) -> None:
        """So few nodes, and near ends: what a search for a mode needs that is not the last."""
        self._first = self.nodes = nodes
        self.drop, self.hurried = NEAR, True

    def _arrange(self, rows: Regression, R: np.ndarray) -> None:
        self.rows, self.R = rows, R
        self.N, self.G = len(R), len(self.groups.starts)
        self._alike: np.ndarray | None = None  # effects that move rows as β does
        self.table: Tabulated | None = None  # what stands for the rows, where there is such a thing
        self._exponential = (
            Exponential(rows, self.groups, R) if rows.likelihood.exponential else None
        )

    # ---- what one and two effects differ in -------------------------------------------------

    @abstractmethod
    def _step(self, sums: RowSums, precision: np.ndarray, z: np.ndarray) -> Step:
        """A step towards the modes from z (n, G, q)."""

    @abstractmethod
    def _search(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray, C: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends in e where the log integrand has fallen by `drop`, (n, G, q) each."""

    @abstractmethod
    def _heights(self, sums: RowSums, precision: np.ndarray, ends: Ends) -> tuple[Any, np.ndarray]:
        """A grid for each group and the log integrand at its nodes, (n, G, Q) or (n, G, Q, Q)."""

    @abstractmethod
    def _nodes(self, grid: Any) -> np.ndarray:
        """The nodes of a grid, (n, G, K, q)."""

    @abstractmethod
    def _moments(self, grid: Any, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ P z (n, G, q) and Σ P z_i z_j (n, G, q(q + 1)/2), squares first."""

    @abstractmethod
    def _draw(
        self, grid: Any, P: np.ndarray, which: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws (k, q) from the densities at the nodes, `which` (k,) among points times groups."""

    @abstractmethod
    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian of one θ (d,)."""

    @abstractmethod
    def on(self, rows: Regression, terms: Sequence[Term]) -> Self:
        """The same sums of other rows and levels."""

    @abstractmethod
    def _ends(self, theta: np.ndarray) -> Ends:
        """Where each group's integrand is, at n points."""

    # ---- the density ------------------------------------------------------------------------

    @property
    def exact(self) -> FactorDensity:
        """The same log density from the rows themselves."""
        return self

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        spread = [kind for term in self.terms for kind in term.kinds]
        return FREE * self.p + spread + self.rows.likelihood.kinds

    @property
    def fewest(self) -> int:
        """Levels of the factor."""
        return self.terms[0].levels

    @property
    def work(self) -> float:
        """Rows times nodes, where a density costs two products and not an exponential and a logarithm."""
        cost = 1.0 if self._exponential is None else self._exponential.cost
        if (
            self._exponential is not None
            and self._exponential.additive
            and self._exponential.intercept
        ):
            return self.N + self.G * (self.nodes + 10.0)
        return (
            self.N * (cost * self.nodes**self.q + 2.0 * self.q) + 5.0 * self.G * self.nodes**self.q
        )

    @property
    def cost(self) -> float:
        """What an evaluation costs, of those that `work` counts."""
        return 1.0 if self._exponential is not None else self.rows.likelihood.likelihood.cost

    def start(self) -> np.ndarray:
        """A first θ: β at its prior mean, effects that move rows by about ½, dispersions at their start."""
        spread = [term.start(0.5 * self.rows.unit) for term in self.terms]
        return np.concatenate([self.rows.mean, *spread, self.rows.dispersion_start()])

    def log_density(self, theta: np.ndarray, like: FactorDensity | None = None) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where an sd is so large that double precision ends.

        From the nodes of sums that are `like` these, if given, so that no modes are looked for.
        """
        result = np.full(len(theta), -np.inf)
        for at, sums in self._run(theta, self._possible(self._covered(theta)), like):
            result[at] = sums.value
        return result

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z (n, Gq) and E z_i z_j (n, Gq(q + 1)/2) of every group."""
        n = len(theta)
        first, second = np.zeros((n, self.G, self.q)), np.zeros((n, self.G, len(self._pairs)))
        value = np.full(n, -np.inf)
        for at, sums in self._run(theta, self._possible(self._covered(theta))):
            value[at] = sums.value
            m1, m2 = self._moments(sums.grid, sums.P)
            first[at], second[at] = m1 / sums.total[..., None], m2 / sums.total[..., None]
        return Evaluated(value, first.reshape(n, -1), second.reshape(n, -1))

    def together(self, rows: int) -> int:
        """Points at which so many rows, or groups, have nodes at a time."""
        return max(1, int(_CELLS / (max(rows, 1) * self.nodes**self.q)))

    def _run(
        self, theta: np.ndarray, points: np.ndarray, like: FactorDensity | None = None
    ) -> Iterator[tuple[np.ndarray, Sums]]:
        """Sums at points with these indices: modes of many at a time, nodes of fewer.

        Of an sd so small that it is as good as none, and of a correlation as good as ±1, the levels' part is
        that of the nearest within reach.
        """
        regular = self._regular(theta)
        n = self.together(self._width)
        many = n * max(1, int(_ROWS / (n * max(self.N, 1))))
        for start in range(0, len(points), many):
            together = points[start : start + many]
            ends = (like or self)._ends(regular[together])
            priors = Priors(*self._precision(regular[together]), self._log_prior(theta[together]))
            for first in range(0, len(together), n):
                some = slice(first, first + n)
                at = together[some]
                yield at, self._sums(regular[at], ends.at(some), priors.at(some))

    def _sums(self, theta: np.ndarray, ends: Ends, priors: Priors | None = None) -> Sums:
        """The trapezoid sums of all groups at n points."""
        priors = priors or Priors(*self._precision(theta), self._log_prior(theta))
        precision, logdet, log_prior = priors
        grid, f = self._heights(self._rows_at(theta), precision, ends)
        q, axes = self.q, tuple(range(2, f.ndim))
        top = f.max(axes)
        f -= top.reshape(*top.shape, *(1,) * q)
        P = np.exp(f, out=f)
        total = P.sum(axes)
        cell = ((ends.high - ends.low) / (self.nodes - 1)).prod(-1)
        cell = cell * np.diagonal(ends.C, axis1=2, axis2=3).prod(-1)
        each = top + np.log(total * cell) - q * np.log(2 * np.pi) / 2 - logdet[:, None] / 2
        value = each @ self.groups.counts + log_prior - self._known
        return Sums(value, grid, P, total, each)

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        """log p(θ) and the rows' constant, (n,)."""
        return self.rows.log_prior(theta[:, : self.p]) + self.constant + self._log_hyperprior(theta)

    def _log_hyperprior(self, theta: np.ndarray) -> np.ndarray:
        """log p of the levels' covariance and the dispersions, (n,)."""
        p, k, total = self.p, self.k, np.zeros(len(theta))
        for term, part in zip(
            self.terms, split_by_size(theta[:, p : p + k], self.terms), strict=True
        ):
            total = total + term.log_prior(part, term.spread(part))
        return total + self.rows.log_prior_dispersion(theta[:, p + k :])

    # ---- parts ------------------------------------------------------------------------------

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        return pairs_of(self.q)

    @property
    def _places(self) -> list[slice]:
        """Each term's effects among all of a level."""
        ends = np.cumsum([term.q for term in self.terms])
        return [slice(end - term.q, end) for term, end in zip(self.terms, ends, strict=True)]

    def _possible(self, theta: np.ndarray) -> np.ndarray:
        """Indices of points whose sds and correlations are within double precision's reach."""
        away = np.abs(theta - self.start())[:, self._bounded]
        return np.flatnonzero((away <= _REACH).all(1))

    def _covered(self, theta: np.ndarray) -> np.ndarray:
        """The points with sds of effects no smaller than double precision reaches."""
        least = self.start() - _REACH
        found = theta.copy()
        found[:, self._sds] = np.maximum(theta[:, self._sds], least[self._sds])
        return found

    def _regular(self, theta: np.ndarray) -> np.ndarray:
        """The points covered, and with covariances that are not singular: those of the levels' part."""
        found, end = self._covered(theta), self.p
        for term in self.terms:
            start, end = end, end + term.size
            found[:, start:end] = term.regular(found[:, start:end])
        return found

    @property
    def _width(self) -> int:
        """What has nodes: groups, or their rows."""
        return self.N if self._exponential is None and self.table is None else self.G

    def _rows_at(self, theta: np.ndarray) -> RowSums:
        if self.table is not None:
            return self.table.at(theta)
        if self._exponential is not None:
            return self._exponential.at(theta, self.k)
        return Directly(self.rows, self.groups, self.R, theta, self.k)

    def _precision(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ⁻¹ (n, q, q) and log |Σ| (n,) at n points θ."""
        return self._precision_of(theta[:, self.p : self.p + self.k])

    def _precision_of(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ⁻¹ (n, q, q) and log |Σ| (n,) at n points of the terms' part of θ."""
        parts = split_by_size(u, self.terms)
        spreads = [term.spread(part) for term, part in zip(self.terms, parts, strict=True)]
        if len(spreads) == 1:
            return spreads[0].precision, spreads[0].logdet
        both = np.zeros((len(u), self.q, self.q))
        for at, spread in zip(self._places, spreads, strict=True):
            both[:, at, at] = spread.precision
        return both, np.sum([spread.logdet for spread in spreads], axis=0)


def pairs_of(q: int) -> list[tuple[int, int]]:
    """Products of a level's q effects whose means are kept: squares first."""
    return [(i, i) for i in range(q)] + [(i, j) for i in range(q) for j in range(i)]
