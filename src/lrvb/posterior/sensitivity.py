"""What if: another prior, or some rows less. One solve each with the factorisation that gave Σ̂.

dm*/dε = Σ̂ ∂²L̄/∂m∂ε for a hyperparameter, −Σ̂g_n for a row that is left out, and Σ_n (Σ̂g_n)(Σ̂g_n)ᵀ, the
infinitesimal jackknife, for the variance of m* over other rows from where these came from.
See: `engine.sensitivity`
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..engine.curvature import linearize
from ..engine.fitting import Fit
from ..engine.numbers import number_changes, number_steps, standing_rows
from ..engine.response import Response, respond
from ..engine.sensitivity import (
    map_parts,
    refit_weighted,
    refit_with,
    require_rows,
    row_scores,
    settled,
)
from ..errors import InvalidModel, NotAMaximum, NotConverged
from .answering import REFITTED, Elsewhere, Influence, PriorChange, largest_entry
from .deletion import MANY, MOST, affordable, doubted, refits_worth, rows_of, stepped
from .estimate import Estimate, estimate_of
from .hyperparameters import Hyperparameter, stored_numbers
from .intervals import intervals
from .units import Units, in_units

LARGE = 0.1  # sds by which a first order may move a mean before more is done
ENOUGH = 1e-3  # of a change, and of an sd, that a fit's last Newton step may have
ALL = 200  # rows or levels up to which all get a step: a fifth of a second


def _named(labels: Any, name: str) -> Any:
    import pandas as pd

    return pd.Index(labels, name=name)


def row_weights(fit: Fit) -> np.ndarray:
    """How often each row in memory counts, (N,)."""
    rows = require_rows(fit)
    return np.ones(rows.n) if rows.weights is None else np.asarray(rows.weights, dtype=float)


def _weighted_scores(read: np.ndarray, fit: Fit) -> Iterator[np.ndarray]:
    """w_n g_nᵀ read, chunk by chunk of the rows in memory."""
    w, start = row_weights(fit), 0
    for scores in row_scores(fit):
        stop = start + len(scores)
        yield (scores @ read) * w[start:stop, None]
        start = stop


def _projected(read: np.ndarray, fit: Fit) -> np.ndarray:
    """The same of all rows, (N, k)."""
    return np.concatenate([np.zeros((0, read.shape[1])), *_weighted_scores(read, fit)])


class Spread(NamedTuple):
    """Of n rows: their mean (k,) and the sum of squares about it (k,), which loses no digits."""

    n: int
    mean: np.ndarray
    squares: np.ndarray

    # a sum of spreads, where a tuple's + would join them
    def __add__(self, other: Spread) -> Spread:  # type: ignore[override]
        n, away = self.n + other.n, other.mean - self.mean
        return Spread(
            n,
            self.mean + away * (other.n / n),
            self.squares + other.squares + away**2 * (self.n * other.n / n),
        )


def spread(values: np.ndarray) -> Spread:
    """Of rows (n, k)."""
    mean = values.mean(axis=0)
    return Spread(len(values), mean, ((values - mean) ** 2).sum(axis=0))


def _spread(read: np.ndarray, fit: Fit) -> Spread:
    """Of the scores of the rows in memory."""
    return functools.reduce(operator.add, map(spread, _weighted_scores(read, fit)))


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Answers from the engine's response for the coordinates of the estimate, T = M T′ + c.

    log p of a row of the user's is that of the engine's row plus `volume`, log |∂x′/∂x|.
    """

    response: Response
    estimate: Estimate
    units: Units | None = None
    hyperparameters: Callable[[], Sequence[Hyperparameter]] | None = None
    volume: float = 0.0
    verifies: str = "a refit"
    no_rows: str = ""

    @property
    def fit(self) -> Fit:
        """The engine's optimum."""
        return self.response.fit

    @cached_property
    def M(self) -> np.ndarray:
        """∂T/∂T′."""
        return np.eye(len(self.estimate.m)) if self.units is None else self.units.M

    @cached_property
    def sd(self) -> np.ndarray:
        """Linear response's, of every coordinate."""
        return np.sqrt(np.diag(self.estimate.Sigma))

    # ---- hyperparameters ------------------------------------------------------------------

    def known(self) -> list[Hyperparameter]:
        """The hyperparameters that can be moved."""
        if self.hyperparameters is not None:
            return list(self.hyperparameters())
        return stored_numbers(self.fit.problem.traced)

    def prior_changes(self, at: np.ndarray) -> list[PriorChange]:
        """The derivatives of means and sds in every hyperparameter, in one pass over the rows."""
        known, sd = self.known(), self.sd[at]
        found = number_changes(
            self.response, [h.direction() for h in known], self.M[at], self._sampled
        )
        d_mean = found.d_mean @ self.M[at].T
        d_sd = found.d_variance / (2 * np.where(sd > 0, sd, 1.0))
        steps = np.array([h.steps for h in known]).reshape(-1)
        others = [h.at(h.value + step) for h in known for step in h.steps]
        rows = np.repeat(found.rows, 2, axis=0) * steps[:, None]
        moved = number_steps(self.response, others, rows) - self.fit.m
        at_steps = moved.reshape(len(known), 2, -1) @ self.M[at].T
        return [PriorChange(*each) for each in zip(known, d_mean, d_sd, at_steps, strict=True)]

    @property
    def _sampled(self) -> int | None:
        """How many rows say how sds follow; None for all."""
        return standing_rows(self.fit)

    def remark(self, names: list[str], at: np.ndarray) -> str:
        """Where d_sd is not of all rows, or ""."""
        most = self._sampled
        return "" if most is None else f"d_sd is by a sample of {most:,} of the rows."

    def refitted(self, hyperparameter: Hyperparameter, step: float, prob: float) -> Elsewhere:
        """What is found at value + step, by a fit of its own."""
        value = hyperparameter.value + step
        try:
            moved = self._of(refit_with(self.fit, hyperparameter.at(value)))
        except (NotConverged, NotAMaximum) as error:
            raise InvalidModel(
                f"With {hyperparameter.name} = {value:g} the fit does not converge, so that the step cannot "
                f"be verified: {error}"
            ) from error
        return Elsewhere(moved.estimate.m - self.estimate.m, *moved.intervals(prob))

    # ---- rows -----------------------------------------------------------------------------

    def influence(
        self, at: np.ndarray, codes: np.ndarray | None = None, refits: int | None = None
    ) -> Influence:
        """The change of the coordinates `at` if a row, or a level of `codes` (N,), is left out.

        First order; where that is large, or they are few, a step of the second order, and from there a fit
        without them for the ten largest and those of which that step is not sure (`refits`, or as many as
        take about a second, ten at least and none of more than 100,000 rows), (n, k).
        """
        values = self._moved(at, codes)
        np.negative(values, out=values)  # of a million rows no second table is made
        done = np.zeros((2, len(values)), dtype=bool)
        elsewhere = self.fit.problem.total is not None
        least = 0.0 if len(values) <= ALL and self._near else LARGE
        largest = self._largest(values, at, least)[: MOST if self.fit.curved is not None else 0]
        blocks = rows_of(largest, codes)
        if elsewhere:
            largest = largest[: affordable(blocks)]
        steps = stepped(self.response, blocks[: len(largest)])
        newton, second = ((m - self.fit.m) @ self.M[at].T for m in steps[:2])
        unit = np.where(self.sd[at] > 0, self.sd[at], np.inf)
        unsure = dict(zip(largest, doubted(newton / unit, second / unit), strict=True))
        etas = dict(zip(largest, steps.etas, strict=True))
        step = np.where(np.isfinite(second).all(1)[:, None], second, newton)
        found = np.isfinite(step).all(1)
        values[largest[found]], done[0, largest[found]] = step[found], True
        worth = refits_worth(len(self.weights)) if refits is None else refits
        again = largest[self._largest(values[largest], at)]
        again = [*again[:REFITTED], *(k for k in again[REFITTED:] if unsure[k])]
        astray = 0
        for k in again[: 0 if elsewhere else worth]:
            try:
                size = float(largest_entry(values[[k]], self.sd[at])[0])
                moved = self._fitted_without(rows_of([k], codes)[0], etas[k], size)
            except InvalidModel:  # it does not converge: the step stands, and is told
                astray += 1
                continue
            values[k], done[:, k] = moved[at], (False, True)
            unsure[k] = False
        left = sum(bool(unsure[k]) for k in again)
        return Influence(values, done[1], stepped=done[0], astray=astray, unsure=left)

    def _fitted_without(self, rows: np.ndarray, eta: np.ndarray, size: float) -> np.ndarray:
        """The change (a,) of the means without these rows, foretold to lead to η and to be of `size` sds.

        By exact Newton steps, the last of a thousandth of that (and of an sd) at most: its square is left.
        Where they fail, by a fit from the optimum.
        """
        m = settled(self.fit, self._without(rows), eta, ENOUGH * min(size, 1.0))
        if m is None:
            m = self.left_out(rows).m
        return np.asarray(self.M @ (m - self.fit.m))

    def _largest(self, values: np.ndarray, at: np.ndarray, least: float = LARGE) -> np.ndarray:
        """Which move a mean by `least` sds or more, the largest first."""
        size = largest_entry(values, self.sd[at])
        large = np.flatnonzero(size >= least)
        return large[np.argsort(-size[large], kind="stable")]

    def _moved(self, at: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """M Σ̂ Σ_n w_n g_n of every row or level, (n, k), chunk by chunk of the rows."""
        read = self._read(at)
        parts = (
            _weighted_scores(read, self.fit)
            if self.fit.problem.total is None
            else map_parts(self.fit, functools.partial(_projected, read))
        )
        n = len(self.weights) if codes is None else int(codes.max(initial=-1)) + 1
        moved, start = np.zeros((n, len(at))), 0
        for part in parts:
            stop = start + len(part)
            if codes is None:
                moved[start:stop] = part
            else:
                np.add.at(moved, codes[start:stop], part)
            start = stop
        return moved

    def _read(self, at: np.ndarray) -> np.ndarray:
        """Σ̂Mᵀ of the coordinates `at`, (a, k)."""
        return self.response.Sigma @ self.M[at].T

    def robust(
        self, at: np.ndarray, codes: np.ndarray | None = None, refits: int | None = None
    ) -> np.ndarray:
        """Variances (k,) of m* over other rows, or other levels, drawn from where these came from.

        Of rows the infinitesimal jackknife; of levels the jackknife, each left out by its Newton step,
        because few levels have much weight each; of more than `MOST`, which have not, to the first order.
        """
        if codes is None:
            parts = map_parts(self.fit, functools.partial(_spread, self._read(at)))
            found = functools.reduce(operator.add, parts)
        else:
            found = spread(self._levels_left_out(at, codes))
        if found.n < 2:
            raise InvalidModel("A robust sd needs two rows, or two levels, at least.")
        by_steps = codes is not None and self._stepwise(found.n)
        share = (found.n - 1) / found.n if by_steps else found.n / (found.n - 1)
        return found.squares * share

    def _levels_left_out(self, at: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """The change (G, k) without each level: by Newton steps, or of many to the first order."""
        count = int(codes.max(initial=-1)) + 1
        if not self._stepwise(count):
            return -self._moved(at, codes)
        blocks = rows_of(range(count), codes)
        means = stepped(self.response, blocks, second=False).newton
        for k in np.flatnonzero(~np.isfinite(means).all(1)):
            means[k] = self.left_out(blocks[k]).m
        return np.asarray((means - self.fit.m) @ self.M[at].T)

    def _stepwise(self, count: int) -> bool:
        """Whether so many levels are each left out by a step."""
        return self._near and 1 < count <= MOST and self.fit.curved is not None

    @property
    def _near(self) -> bool:
        """Whether all rows are in memory, or few enough elsewhere to be fetched."""
        return self.fit.problem.total is None or self.fit.problem.total <= MANY

    def left_out(self, rows: np.ndarray) -> Fit:
        """The fit without these rows."""
        try:
            return refit_weighted(self.fit, self._without(rows))
        except NotConverged as error:
            raise InvalidModel(
                f"Without {len(rows)} rows the fit does not converge: {error}"
            ) from error

    def _without(self, rows: np.ndarray) -> np.ndarray:
        """The weights of all rows, those of some being zero."""
        weights = self.weights.copy()
        weights[rows] = 0.0
        return weights

    def without(self, rows: np.ndarray) -> tuple[Sensitivity, np.ndarray]:
        """The same questions of the fit without these rows, which it has with weight zero."""
        return self._of(self.left_out(rows)), np.arange(len(self.weights))

    def _of(self, fit: Fit) -> Sensitivity:
        """The same questions of another fit of the same quantities."""
        response = respond(linearize(fit))
        estimate = estimate_of(response)
        if self.units is not None:
            estimate = in_units(estimate, self.units, self.estimate.labels)
        return replace(self, response=response, estimate=estimate)

    def intervals(self, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals of all coordinates."""
        return intervals(self.estimate, prob)

    def moved_mean(self, other: Fit) -> np.ndarray:
        """The means (a,) of another fit of the same blocks."""
        return self.estimate.m + self.M @ (other.m - self.fit.m)

    @cached_property
    def weights(self) -> np.ndarray:
        """Of the rows; of rows in parts elsewhere, which bring their own, ones."""
        if self.fit.problem.total is not None:
            return np.ones(self.fit.problem.total)
        return row_weights(self.fit)

    @property
    def columns(self) -> Mapping[str, Any]:
        """None beside those observed."""
        return {}

    @property
    def clusters(self) -> None:
        """Every row is independent of the others."""

    @property
    def labels(self) -> Any:
        """Of the rows, named where each is a group of the data's; of rows elsewhere their numbers."""
        if self.fit.problem.total is not None:
            return np.arange(self.fit.problem.total)
        rows = require_rows(self.fit)
        labels = np.arange(rows.n) if rows.labels is None else rows.labels
        return labels if rows.dim == "row" else _named(labels, rows.dim)
