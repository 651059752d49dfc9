"""Zeros and ones with an effect of every row within groups: levels of one factor, rows of scattered log odds.

A row's effect e ~ N(0, sd²) is known only through its own zero or one, so that ∫ p(y | η + o + e) N(e) de
is a function of η + o and sd that is made once for all. See: LogisticNormal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ..likelihoods import BERNOULLI, Dispersion
from .coordinates import Kind
from .density import Columns, Density
from .factor_nodes import TOLERANCE
from .few import some_inner
from .groups import repeat
from .inside import Evaluated
from .levels import Levels
from .logistic_normal import LogisticNormal, shrinkage
from .nested import Nested
from .nested_sums import largest
from .regression import Regression
from .terms import Term

_CELLS = 2**17  # rows × nodes at a time, which fit a processor's cache
_LOT = 2**15  # of several sds, each of which has
_KNOTS = 2**11  # numbers of its own
_OTHERS = 8.0  # nodes that a search for a mode is worth
_WORK = 1.5  # what a node of a row costs, in evaluations of a row's density


class AveragedOdds(Density):
    """log p(y | η, sd) = ℓ(±η, sd) of rows whose only dispersion is the sd of their own effects."""

    concave, exponential = True, ""

    def __init__(self, weighted: bool = False):
        scatter = Dispersion("scatter", lambda scale: None)
        super().__init__(BERNOULLI, (), (scatter,), weighted)

    def counting(self) -> AveragedOdds:
        """The same of rows with weights."""
        return AveragedOdds(True)

    def linear(self, columns: Columns) -> np.ndarray | None:
        """None: log p has no such part."""
        return None

    def log_p(self, columns: Columns, eta: Any, phi: Sequence[Any] = ()) -> Any:
        """ℓ at η, whose first axis is that of the sds, or has one for all."""
        return self._counted(columns, self._asked(columns, eta, phi, 0)[0])

    def derivatives(self, columns: Columns, eta: Any, phi: Sequence[Any] = ()) -> tuple[Any, Any]:
        """Score and information."""
        _, first, second = self._asked(columns, eta, phi, 2)
        return self._counted(columns, _sign(columns) * first), self._counted(columns, -second)

    def _asked(
        self, columns: Columns, eta: Any, phi: Sequence[Any], order: int
    ) -> list[np.ndarray]:
        sds, toward = np.ravel(phi[0]), _sign(columns) * eta
        flat = toward.reshape(len(sds), -1)
        found, few = np.empty((order + 1, *flat.shape)), max(1, _LOT // (_KNOTS + flat.shape[1]))
        for first in range(0, len(sds), few):
            some = slice(first, first + few)
            odds = LogisticNormal(sds[some])
            for start in range(0, flat.shape[1], _CELLS):
                here = some, slice(start, start + _CELLS)
                if order:
                    found[:, *here] = odds.slopes(flat[here], order)
                else:
                    found[0, *here] = odds.log_p(flat[here])
        return list(found.reshape(order + 1, *toward.shape))


class SingleRows(Levels):
    """θ = (β, log sd of outer, log sd of inner), where every inner level is one zero or one. See: Nested."""

    def __init__(self, nested: Nested):
        self.nested = nested
        rows, outer, which = _distinct(nested)
        super().__init__(rows, outer, merge=False)
        # of every inner level of the nested sums its row here, and of every group its place there
        row = np.empty(nested.inner.levels, dtype=np.int64)
        row[nested.inner.codes] = which
        place = np.argsort(self.groups.rows)
        self._inner = place[row[nested.inner_level]]
        there = self.groups.group >= 0
        self._outer = np.empty(self.G, dtype=np.int64)
        self._outer[self.groups.group[there]] = nested.above.group[there]

    def start(self) -> np.ndarray:
        """A first θ."""
        return self.nested.start()

    @property
    def work(self) -> float:
        """Rows times nodes."""
        return work_of(self.N, self.nodes)

    @property
    def cost(self) -> float:
        """That of a row's density."""
        return 1.0

    def choose_nodes(self, theta: np.ndarray, *args: Any, **kwargs: Any) -> None:
        """Also of the nested sums, which are asked later of what lies within levels.

        Their step is found with some of the rows, whose sums are off by as much less.
        """
        super().choose_nodes(theta, *args, **kwargs)
        nested, some = self.nested, some_inner(self.nested)
        some.choose_nodes(theta, TOLERANCE * some.N / nested.N)
        nested.step, nested.single, nested._center = some.step, some.single, some._center
        nested.information = largest([nested._informations(point) for point in theta])

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z and E z² of outer levels, then inner ones, (n, G + M)."""
        n, G, M = len(theta), self.G, len(self._inner)
        value, first, second = np.full(n, -np.inf), np.zeros((n, G + M)), np.zeros((n, G + M))
        y, alone, of = (self.rows.columns[0][:, None],), AveragedOdds(), self.groups.of
        for at, sums in self._run(theta, self._possible(theta)):
            value[at] = sums.value
            P = sums.P / sums.total[..., None]
            first[np.ix_(at, self._outer)] = (P * sums.grid).sum(2)
            second[np.ix_(at, self._outer)] = (P * sums.grid**2).sum(2)
            # of e ~ N(0, σ²) with p(y | η) its mean: E e = σ²ℓ′, E e² = σ² + σ⁴(ℓ″ + ℓ′²)
            variance = np.exp(2 * theta[at, self.p + 1])
            eta = self.rows.predictor(theta[at, : self.p])[:, :, None] + sums.grid[:, of]
            score, information = alone.derivatives(y, eta, [np.sqrt(variance)])
            share, variance = P[:, of], variance[:, None]
            mean, square = (score * share).sum(2), ((score**2 - information) * share).sum(2)
            first[at, G:] = variance * mean[:, self._inner]
            second[at, G:] = variance * (1 + variance * square[:, self._inner])
        return Evaluated(value, first, second)

    def scale(self, theta: np.ndarray) -> np.ndarray:
        """κ and the outer sd, with which effects grow, at n points (n, 2)."""
        return scale_of(theta, self.p)

    def _possible(self, theta: np.ndarray) -> np.ndarray:
        """Those that the nested sums can cover too, which are asked later."""
        nested = self.nested
        return nested._possible(theta) if nested.information is None else nested.covered(theta)

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        return self.nested._log_prior(theta)

    def _log_hyperprior(self, theta: np.ndarray) -> np.ndarray:
        return self.nested._log_hyperprior(theta)


def work_of(rows: int, nodes: int) -> float:
    """What a point of so many rows costs."""
    return _WORK * rows * (nodes + _OTHERS)


def scale_of(theta: np.ndarray, p: int) -> np.ndarray:
    """κ and the outer sd, with which effects grow, at n points (n, 2)."""
    return np.column_stack([_kappa(theta[:, p + 1]), np.exp(theta[:, p])])


class Averaged(Protocol):
    """Sums of rows whose own effects are averaged out, wherever they are. See: SingleRows."""

    p: int

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""

    @property
    def fewest(self) -> int:
        """Levels of the outer factor."""

    @property
    def work(self) -> float:
        """Rows times nodes."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point."""

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with moments of outer levels, then inner ones."""

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What the log density is off by at n points, (n,)."""

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The fewest nodes that suffice at n points."""

    def scale(self, theta: np.ndarray) -> np.ndarray:
        """κ and the outer sd, with which effects grow, at n points (n, 2)."""

    def _log_prior(self, theta: np.ndarray) -> np.ndarray: ...


class Starred:
    """The same at θ* = (β/κ, log sd of outer − log κ, log σ), κ that of the inner sd σ.

    Rows say next to nothing of σ, for ℓ hangs on η/κ: it is nearly independent of the others here.
    """

    def __init__(self, rows: Averaged):
        self.rows, self.p, self.kinds, self.fewest = rows, rows.p, rows.kinds, rows.fewest

    @property
    def work(self) -> float:
        """What one point costs, in evaluations of a row's density."""
        return self.rows.work

    def starred(self, theta: np.ndarray) -> np.ndarray:
        """θ* of θ (..., d)."""
        return self._scaled(theta, -1.0)

    def stated(self, starred: np.ndarray) -> np.ndarray:
        """θ of θ* (..., d)."""
        return self._scaled(starred, 1.0)

    def _scaled(self, theta: np.ndarray, power: float) -> np.ndarray:
        found, p = np.array(theta, dtype=np.float64), self.p
        log_kappa = power * np.log(_kappa(found[..., p + 1]))
        found[..., :p] *= np.exp(log_kappa)[..., None]
        found[..., p] += log_kappa
        return found

    def log_density(self, starred: np.ndarray) -> np.ndarray:
        """log p(y, θ*) at n points."""
        return self.rows.log_density(self.stated(starred)) + self._log_volume(starred)

    def evaluate(self, starred: np.ndarray) -> Evaluated:
        """The same, with the moments of the levels."""
        found = self.rows.evaluate(self.stated(starred))
        return found._replace(value=found.value + self._log_volume(starred))

    def derivatives(self, starred: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian of one θ* (d,), by the chain rule from those of θ."""
        p, theta = self.p, self.stated(starred)
        value, gradient, H = self.rows.derivatives(theta)
        kappa = float(_kappa(starred[p + 1]))
        tau = 1 - kappa**-2.0  # d log κ/d log σ
        bend = 2 * tau * (1 - tau)
        J = np.eye(p + 2)
        J[:p, :p] *= kappa
        J[:p, p + 1], J[p, p + 1] = tau * theta[:p], tau
        H = J.T @ H @ J
        H[:p, p + 1] += kappa * tau * gradient[:p]
        H[p + 1, :p] += kappa * tau * gradient[:p]
        H[p + 1, p + 1] += (tau**2 + bend) * (gradient[:p] @ theta[:p]) + bend * (gradient[p] + p)
        gradient = J.T @ gradient
        gradient[p + 1] += p * tau
        return value + p * np.log(kappa), gradient, H

    def error(self, starred: np.ndarray) -> np.ndarray:
        """What sums with these nodes are off by at n points, (n,)."""
        return self.rows.error(self.stated(starred))

    def choose_nodes(self, starred: np.ndarray) -> None:
        """The fewest nodes that suffice at n points."""
        self.rows.choose_nodes(self.stated(starred))

    def log_known(self, starred: np.ndarray) -> np.ndarray:
        """The priors' part of the log density at n points, (n,)."""
        return self.rows._log_prior(self.stated(starred)) + self._log_volume(starred)

    def smooth(self, starred: np.ndarray, x: np.ndarray, mode: np.ndarray) -> np.ndarray:
        """Coordinates (n, d) in which the likelihood is smooth: x, but log(1 + sd²) of outer, and 1/κ.

        1/κ² would do as well, but has a long tail.
        """
        p, found = self.p, x.copy()
        found[:, p] = np.logaddexp(0.0, 2 * (starred[:, p] - mode[p]))
        found[:, p + 1] = 1 / _kappa(starred[:, p + 1])
        return found

    def _log_volume(self, starred: np.ndarray) -> np.ndarray:
        """log |∂θ/∂θ*| = p log κ at n points, (n,)."""
        return self.p * np.log(_kappa(starred[:, self.p + 1]))


def are_single(nested: Nested) -> bool:
    """Whether every inner level is one zero or one, of a logit."""
    rows = nested.rows
    return nested.largest == 1 and rows.weights is None and rows.likelihood.exponential == "odds"


def _distinct(nested: Nested) -> tuple[Regression, Term, np.ndarray]:
    """Rows that differ, each as often as it is there; the outer term of them; which of them every row is."""
    outer, given, (y, *_) = nested.outer, nested.given, nested.given.columns
    rows = replace(given, likelihood=AveragedOdds(), columns=(y,))
    values = np.column_stack([outer.codes, y, given.X, given.offset])
    if not repeat(values):
        return rows, outer, np.arange(len(y))
    _, first, which, times = np.unique(
        values, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return rows.take(first).weighted(times.astype(float)), outer.take(first), which.reshape(-1)


def _kappa(log_sd: np.ndarray) -> np.ndarray:
    return shrinkage(np.exp(log_sd))


def _sign(columns: Columns) -> np.ndarray:
    return 2.0 * columns[0] - 1.0
