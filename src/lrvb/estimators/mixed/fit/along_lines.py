r"""Whether the second order of a precision can be believed: its density as far as it reaches.

Linear response moves all unconstrained coordinates u of the precisions together with a quantity dᵀT:
along the line u(x) = E u + a(x₀ + x), with a ∝ Cov(u, dᵀT) one sd of u and x₀ the second order's shift.
Where the posterior is nearly normal the density along the line is the quantity's own, whatever else there
is. It is asked at five points; its logarithm over that of a standard normal x, a polynomial through them
and straight beyond, gives mean and sd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from ....engine.response import Response
from ....numerics.double import in_double
from ....posterior.target import Target
from .tilted_block import Cumulants

Evidence = Callable[[np.ndarray], np.ndarray]

POINTS = np.linspace(-2.5, 2.5, 5)
KNOWN = 0.45  # sd of a log precision, and relative change of a variance, up to which no density is asked
SLIGHT = 0.2
GRID = np.linspace(-8.0, 8.0, 641)


class AlongLines:
    """Means and sds of dᵀT by the density along lines.

    `evidence` is log ∫ of the coefficients at point moments (S, a); `shift` (a,) the second order's of T.
    """

    def __init__(self, response: Response, evidence: Evidence, shift: np.ndarray):
        self.response, self.evidence, self.shift = response, evidence, shift
        self._known: list[tuple[np.ndarray, np.ndarray]] = []

    @cached_property
    def priors(self) -> Target:
        """log p of the precisions alone, in coordinates u."""
        return Target(replace(self.response, fit=replace(self.response.fit, local_sum=None)))

    def off(self, d: np.ndarray, found: Cumulants) -> tuple[float, float]:
        """Of dᵀT: how far the corrected mean is from the density's, in its sds, and the ratio of sds.

        (0, 1), and nothing asked, where d is zero, or the precisions are well known and the variance hardly
        changes.
        """
        if not d.any():
            return 0.0, 1.0
        known = [np.sqrt(self.response.Sigma[s.stop - 1, s.stop - 1]) for s in self._touched(d)]
        if max(known, default=0.0) <= KNOWN and abs(found.variance / found.first - 1) <= SLIGHT:
            return 0.0, 1.0
        mean, sd = self.moments(d)
        corrected = d @ self.response.m + found.shift
        return float(corrected - mean) / sd, float(np.sqrt(found.variance)) / sd

    def _touched(self, d: np.ndarray) -> list[slice]:
        """Of each block of precisions in dᵀT: log τ or log |Λ| is its last coordinate."""
        return [s for s in self.response.alpha.slices.values() if d[s].any()]

    @in_double
    def moments(self, d: np.ndarray) -> tuple[float, float]:
        """Mean and sd of dᵀT; not finite where the density has no values."""
        W, Sigma = self.priors.W, self.response.Sigma
        a = W @ Sigma @ d
        a = a / np.linalg.norm(np.linalg.solve(self.priors.root, a))
        start = self.priors.center + a * (a @ (W @ self.shift)) / (a @ a)
        p = self._density(start, a)
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.priors.statistics(start + GRID[:, None] * a) @ d
            mean = float(p @ values)
            return mean, float(np.sqrt(p @ (values - mean) ** 2))

    def _density(self, start: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Shares of the density at GRID, or NaN; a precision and its logarithm have one line."""
        for known, p in self._known:
            if np.allclose(known, a, rtol=1e-6):
                return p
        u = start + POINTS[:, None] * a
        over = self.priors(u) + self.evidence(self.priors.statistics(u)) + POINTS**2 / 2
        if not np.isfinite(over).all():
            return np.full(len(GRID), np.nan)
        ratio = np.polynomial.Polynomial.fit(POINTS, over, len(POINTS) - 1)
        inner = np.clip(GRID, POINTS[0], POINTS[-1])
        log_p = ratio(inner) + ratio.deriv()(inner) * (GRID - inner) - GRID**2 / 2
        p = np.exp(log_p - log_p.max())
        p = p / p.sum()
        self._known.append((a, p))
        return p
