"""Random effects of an integrated model as tables."""

from __future__ import annotations

import numpy as np

from ....integrated.gaussian import Gaussian
from ....integrated.importance import resampled
from ....posterior.intervals import normal_ends
from ..answers.effects import LevelEffects, LevelMoments
from .fit import IntegratedFit
from .parts import Parts

DRAWS = 256  # at which levels are asked for their conditional means and sds
ROWS = 2**12  # levels at a time


class IntegratedEffects(LevelEffects):
    """The effects of an integrated model, whose intervals are those of a mixture over the draws."""

    def __init__(self, fit: IntegratedFit):
        super().__init__(fit.design, list(fit.estimate.index))
        self.fit = fit

    def moments(self, t: int, j: int) -> LevelMoments:
        """Of the j-th coefficient of term t."""
        fit = self.fit
        cov = fit.cross[t][:, j][:, list(fit.estimate.index.values())]
        return LevelMoments(
            fit.effects[t].mean[:, j], fit.effects[t].sd[:, j], fit.mfvb_sds[t][:, j], cov
        )

    def ends(self, name: str, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles of Σ_s w_s N(E[z | θ_s], Var[z | θ_s]) over draws θ_s of the hyperparameters."""
        t, j = self.found[name]
        given = self._given_draws(t, j)
        moments = self.moments(t, j)
        if given is None:
            return normal_ends(moments.mean, moments.sd, prob)
        mean, variance = given
        # few draws say how the mixture is shaped; where it is and how wide, all of them have said
        center = mean.mean(0)
        scale = np.sqrt(((mean - center) ** 2 + variance).mean(0))
        ends = np.array([0.5 - prob / 2, 0.5 + prob / 2])
        w = np.full(len(mean), 1 / len(mean))
        parts = [
            Parts(w, mean[:, at], variance[:, at]).quantiles(ends)
            for at in np.array_split(np.arange(len(center)), -(-len(center) // ROWS))
        ]
        found = (np.concatenate(parts).T - center) / np.maximum(scale, 1e-300)
        lower, upper = moments.mean + found * moments.sd
        return lower, upper

    def _given_draws(self, t: int, j: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and variances (draws, levels) of a coefficient given draws of θ; None if not kept."""
        fit, integral = self.fit, self.fit.integral
        inside, place = fit.statement.inside, fit.statement.order.index(t)
        if isinstance(inside, Gaussian):
            return self._of_gaussian(inside, t, j)
        if integral.first is None or integral.second is None or integral.inside is None:
            return None
        first, second, theta = integral.first, integral.second, integral.sample
        if theta is None:
            at = resampled(integral.weighted.weights, DRAWS)
            first, second, theta = first[at], second[at], integral.theta[at]
        n = len(first)
        squares = second
        if second.shape[1] != first.shape[1]:  # squares of a level's effects come first
            groups = second.shape[1] - first.shape[1]
            squares = second.reshape(n, groups, -1)[:, :, : first.shape[1] // groups].reshape(n, -1)
        mean = integral.inside.expand(first.T)[place][:, j].T
        variance = integral.inside.expand(squares.T)[place][:, j].T - mean**2
        prior = fit.statement.spreads(theta)[t].sd[:, [j]] ** 2
        none = ~np.any(variance, axis=0)  # a level without rows
        return mean, np.where(none, prior, np.maximum(variance, 0.0))

    def _of_gaussian(self, inside: Gaussian, t: int, j: int) -> tuple[np.ndarray, np.ndarray]:
        """As rows with nothing but this effect."""
        fit = self.fit
        theta = fit.theta[resampled(fit.weights, DRAWS)]
        levels = len(fit.design.factors[fit.design.terms[t].factor].levels)
        mean, variance = np.empty((DRAWS, levels)), np.empty((DRAWS, levels))
        for start in range(0, levels, ROWS):
            here = np.arange(start, min(start + ROWS, levels))
            codes, R = [], []
            for term in fit.statement.order:
                own = term == t
                q = len(fit.design.terms[term].coefficients)
                codes.append(here if own else np.zeros(len(here), dtype=int))
                R.append(np.tile(np.eye(q)[j] if own else np.zeros(q), (len(here), 1)))
            for found in inside.lines(theta, np.zeros((len(here), fit.statement.p)), codes, R):
                mean[np.ix_(found.at, here)] = (found.P * found.eta).sum(2)
                variance[np.ix_(found.at, here)] = found.extra
        return mean, variance
