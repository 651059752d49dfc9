r"""Precisions by their density: mean and sd along a line, and whether the second order agrees.

Linear response moves all unconstrained coordinates u of the precisions together with a quantity dᵀT:
along the line u(x) = E u + a(x₀ + x), with a ∝ Cov(u, dᵀT) one sd of u and x₀ the second order's shift.
Where the posterior is nearly normal the density along the line is the quantity's own, whatever else there
is; of a single precision it always is. The integral of the coefficients is asked at five points, and at more
where much of a variance lies beyond them: the best Gaussian's logarithms by cubics with their slopes, what it
leaves out by a spline, straight beyond, beside the priors.

Fixed effects are a mixture along the same lines: Var cᵀb is at least E Var(cᵀb | x) + Var E(cᵀb | x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ....engine.response import Response
from ....numerics.double import in_double
from ....numerics.lazy import interpolate
from ....posterior.correction import LARGE_CHANGE, WRONG_RATIO
from ....posterior.target import Target
from .tilted_block import Asked


class Integrated(NamedTuple):
    """log ∫ of the coefficients at points x (S,) of a line, and the fixed effects' Gaussians there.

    `values` are the best Gaussians', `slopes` their derivatives in x, `gaps` what they leave out; means
    (S, p), covariances (S, p, p). −∞ and NaN where there is no integral.
    """

    values: np.ndarray
    slopes: np.ndarray
    gaps: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


Moments = Callable[[np.ndarray], np.ndarray]  # of the precisions (S, a) at points x (S,) of a line
Evidence = Callable[[Moments], Callable[[np.ndarray], Integrated]]

POINTS = np.linspace(-3.5, 3.5, 5)
FARTHER = 1.4  # times as far is the next point
BEYOND = 0.01  # share of a variance beyond the last point on either side that asks for the next
FAR, FARTHEST = 4.0, 16.0
TAIL = 0.15  # share of a variance beyond FAR, or where no point is, from which on it is not known
# sd of a log precision up to which no density is asked of a precision, nor of its logarithm, and the
# relative change of a variance
KNOWN, KNOWN_LOG, SLIGHT = 0.2, 0.45, 0.2
GRID = np.linspace(-20.0, 20.0, 801)  # twenty points an sd: a sum over them has next to no error


class Judged(NamedTuple):
    """The correction of a mean and the corrected variance; how far the second order is from the density.

    `off` has that of a mean in sds, and the ratio of sds; NaN where no density was asked, ∞ where it has no
    answer. Of what is not a logarithm, which a long tail moves far, it is that of its precision's logarithm,
    the mean alone.
    """

    shift: float
    variance: float
    off: tuple[float, float]


class Line:
    """log ∫ of the coefficients at points x of a line, and log p of the precisions at GRID."""

    def __init__(self, start: np.ndarray, a: np.ndarray, priors: Target, evidence: Evidence):
        self.a = a
        self._evidence = evidence(lambda x: priors.statistics(start + x[:, None] * a))
        u = start + GRID[:, None] * a
        with np.errstate(over="ignore", invalid="ignore"):
            self.T, self.prior = priors.with_statistics(u)
        given = self._evidence(POINTS)
        log_p = self._log_p(POINTS, given)
        kept = np.ones(len(POINTS), dtype=bool)
        kept[[0, -1]] = log_p[[0, -1]] <= log_p[1:-1].max()
        self.x, self.given = POINTS[kept], Integrated(*(part[kept] for part in given))

    @property
    def known(self) -> bool:
        """Whether the density has values."""
        return all(np.isfinite(part).all() for part in self.given[:3])

    def shares(self) -> np.ndarray:
        """Of the density, at GRID; NaN where it rises at an end."""
        inner = np.clip(GRID, self.x[0], self.x[-1])
        values, slopes, gaps = self.given[:3]
        # a spline through the gaps is the cubic of its own slopes
        slopes = slopes + interpolate.CubicSpline(self.x, gaps)(self.x, 1)
        log_p = interpolate.CubicHermiteSpline(self.x, values + gaps, slopes)(inner)
        log_p += self.prior + np.where(inner > GRID, slopes[0], slopes[-1]) * (GRID - inner)
        if not self.x[0] <= GRID[np.argmax(log_p)] <= self.x[-1]:
            return np.full(len(GRID), np.nan)
        p = np.exp(log_p - log_p.max())
        return np.asarray(p / p.sum())

    def farther(self, up: bool) -> bool:
        """One point more at an end; whether there is one.

        None is where the density would rise again, nor one of the first at an end where it would be
        largest: far out in large effects of counts the integral rises.
        """
        end = -1 if up else 0
        x = np.array([self.x[end] * FARTHER])
        if abs(x[0]) > FARTHEST:
            return False
        found = self._evidence(x)
        if not self._log_p(x, found)[0] <= self._log_p(self.x, self.given)[end]:
            return False
        both = [(self.x, x), *zip(self.given, found, strict=True)]
        self.x, *given = (np.concatenate(each if up else each[::-1]) for each in both)
        self.given = Integrated(*given)
        return True

    def _log_p(self, x: np.ndarray, given: Integrated) -> np.ndarray:
        return np.asarray(given.values + given.gaps + np.interp(x, GRID, self.prior))

    def mixed(self, c: np.ndarray) -> float:
        """The variance of cᵀb along the line."""
        p, inner = self.shares(), np.clip(GRID, self.x[0], self.x[-1])
        means = interpolate.CubicSpline(self.x, self.given.means @ c)(inner)
        variances = np.exp(
            interpolate.CubicSpline(self.x, np.log(self.given.covariances @ c @ c))(inner)
        )
        return float(p @ (variances + (means - p @ means) ** 2))


class AlongLines:
    """Means and sds of dᵀT by the density along lines.

    `evidence` is log ∫ of the coefficients along a line of moments; `shift` (a,) the second order's of T.
    """

    def __init__(self, response: Response, evidence: Evidence, shift: np.ndarray):
        self.response, self.evidence, self.shift = response, evidence, shift
        self._lines: list[Line] = []

    @cached_property
    def priors(self) -> Target:
        """log p of the precisions alone, in coordinates u."""
        return Target(replace(self.response, fit=replace(self.response.fit, local_sum=None)))

    def judged(self, d: np.ndarray, asked: Asked) -> Judged:
        """dᵀT by its density; by the second order where d is zero, or the precisions are well known.

        Of a matrix of precisions the line is one of many: its density judges, and answers nothing.
        """
        m, Sigma = self.response.m, self.response.Sigma
        alpha = self.response.alpha.slices.values()
        touched = [s for s in alpha if d[s].any()]
        logs = [s.stop - 1 for s in touched]
        known = max((float(np.sqrt(Sigma[at, at])) for at in logs), default=0.0)
        of_logs = np.count_nonzero(d[logs]) == np.count_nonzero(d)
        enough = KNOWN_LOG if of_logs else KNOWN
        if not logs or known <= enough:
            found = asked.cumulants
            if not logs or abs(found.variance / found.first - 1) <= SLIGHT:
                return Judged(found.shift, found.variance, (np.nan, np.nan))
        mean, sd, tail = self.moments(d)
        scalar = all(s.stop - s.start == 2 for s in touched)
        log = np.zeros(len(d))
        log[logs] = 1.0
        own = mean, sd
        if scalar and not of_logs:
            own = self.moments(log)[:2]
        if not (sd > 0 and own[1] > 0):
            return Judged(asked.cumulants.shift, asked.cumulants.variance, (np.inf, np.inf))
        shift = mean - float(d @ m)
        if scalar and not of_logs:
            off = float(log @ (m + self.shift) - own[0]) / own[1], 1.0
            # with more than one precision not well known the line is one of many, and a long tail a guess
            several = sum(Sigma[s.stop - 1, s.stop - 1] > KNOWN**2 for s in alpha) > 1
            if several and sd**2 / asked.first - 1 > LARGE_CHANGE:
                off = off[0], np.inf
        else:
            variance = asked.rough_variance if scalar else asked.cumulants.variance
            off = float(d @ self.shift - shift) / sd, float(np.sqrt(max(variance, 0.0))) / sd
        if tail > TAIL:
            off = off[0], np.inf
        if scalar:
            return Judged(shift, sd**2, off)
        return Judged(asked.cumulants.shift, asked.cumulants.variance, off)

    @in_double
    def wider(self, c: np.ndarray, asked: Asked) -> tuple[float, float]:
        """`off` of cᵀb: where a precision that is not well known makes it wider by more than WRONG_RATIO."""
        least = np.inf
        for s in self.response.alpha.slices.values():
            if s.stop - s.start != 2 or self.response.Sigma[s.stop - 1, s.stop - 1] <= KNOWN_LOG**2:
                continue
            d = np.zeros(len(self.response.m))
            d[s.stop - 1] = 1.0
            if not self.moments(d)[1] > 0:
                return np.inf, np.inf
            least = min(least, asked.cumulants.variance / self._line(d).mixed(c))
        return (0.0, float(np.sqrt(least))) if least < WRONG_RATIO**-2 else (np.nan, np.nan)

    @in_double
    def moments(self, d: np.ndarray) -> tuple[float, float, float]:
        """Mean and sd of dᵀT, and the share of its variance beyond FAR; NaN where there is no density."""
        line = self._line(d)
        while line.known:
            with np.errstate(over="ignore", invalid="ignore"):
                values, p = line.T @ d, line.shares()
                mean = float(p @ values)
                squares = p * (values - mean) ** 2
            variance = squares.sum()
            low, high = line.x[[0, -1]]
            ends = squares[low > GRID].sum(), squares[high < GRID].sum()
            if not max(ends) > BEYOND * variance or not line.farther(ends[1] > ends[0]):
                tail = squares[(min(FAR, high) < GRID) | (max(-FAR, low) > GRID)].sum()
                return mean, float(np.sqrt(variance)), float(tail / variance)
        return np.nan, np.nan, np.nan

    def _line(self, d: np.ndarray) -> Line:
        """A precision and its logarithm have one."""
        W, Sigma = self.priors.W, self.response.Sigma
        a = W @ Sigma @ d
        a = a / np.linalg.norm(np.linalg.solve(self.priors.root, a))
        for line in self._lines:
            if np.allclose(line.a, a, rtol=1e-6):
                return line
        start = self.priors.center + a * (a @ (W @ self.shift)) / (a @ a)
        self._lines.append(Line(start, a, self.priors, self.evidence))
        return self._lines[-1]
