"""Joint draws of an integrated model: hyperparameters by their weights, then all that is inside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....integrated.importance import resampled
from ....integrated.inside import Drawn
from ....integrated.normal import Normal
from ....likelihoods.dispersion import labels_of
from ..answers.joint import JointDraws
from .fit import IntegratedFit

WORK, FEWEST = 2e8, 200  # evaluations of a row's density that draws may cost, points they have


def integrated_draws(
    fit: IntegratedFit, n: int, rng: np.random.Generator, levels: bool = True
) -> JointDraws:
    """n draws of θ in proportion to their weights, systematic, and of the coefficients given each.

    Where a point costs much, several draws of the coefficients share one. Those of `levels` may be left out.
    """
    inside, design = fit.statement.inside, fit.design
    work = getattr(inside, "work", 0.0)
    points = n if work * n <= WORK else min(n, max(FEWEST, int(WORK / work)))
    chosen = resampled(fit.weights, points, rng)
    at = rng.permutation(np.resize(rng.permutation(chosen), n))
    theta = fit.theta[at]
    if levels or isinstance(inside, Normal):  # whose fixed effects are inside, too
        drawn = inside.sample(theta, rng)
    else:
        nothing = tuple(np.empty((n, 0, 0)) for _ in fit.statement.order)
        drawn = Drawn(theta[:, : fit.standard.T.shape[1]], nothing)
    values = fit.weighted.values[at]
    beta = drawn.beta @ fit.standard.T.T + fit.standard.t
    values[:, : beta.shape[1]] = beta
    found = dict(zip(fit.statement.order, drawn.effects, strict=True))
    if isinstance(inside, Normal):
        noise = {"residual": np.exp(theta[:, -1])}
    else:
        names = labels_of(fit.statement.parameters)
        noise = dict(
            zip(names, fit.statement.outside(theta, beta, design, fit.standard), strict=True)
        )
    labels = [label for label in fit.estimate.labels if label is not None]
    return JointDraws(
        beta,
        [found[t] for t in range(len(design.terms))],
        [spread.covariance for spread in fit.statement.spreads(theta)],
        noise,
        dict(zip(labels, values.T, strict=True)),
    )


class IntegratedDraws(NamedTuple):
    """Draws of an integrated fit."""

    fit: IntegratedFit

    @np.errstate(over="ignore")  # nodes far out have no probability
    def draw(self, n: int, rng: np.random.Generator, levels: bool = True) -> JointDraws:
        """n joint draws, with those of `levels` or without."""
        return integrated_draws(self.fit, n, rng, levels)
