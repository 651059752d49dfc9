"""Predictions and levels' effects from joint draws alone, where the sums of a fit are not at hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....likelihoods import Given
from ....posterior.posterior import Posterior
from ..design.design import Design, NewRows
from .effects import LevelEffects, LevelMoments
from .joint import JointDraws, predictors
from .marginal import Asked, expected
from .prediction import LINK, Answer, Shares, fitted_rows, left_out
from .simulated import drawn_at, given_at

SEED = 1  # of new levels and new observations: the same question has the same answer


class DrawnAnswers(NamedTuple):
    """Means, sds and quantiles over the draws."""

    design: Design
    draws: JointDraws

    def fitted(self, given: Given, interval: float | None, kind: str) -> Answer | Shares:
        """The rows of the fit, which are not here."""
        return self.of(fitted_rows(self.design), given, interval, kind)  # which says so

    def of(self, rows: NewRows, given: Given, interval: float | None, kind: str) -> Answer | Shares:
        """Other rows."""
        draws, design = self.draws, self.design
        if kind == "probability":
            return self._shares(rows)
        if kind == "response":
            return self._observed(rows, interval)
        scale = "link" if kind == LINK else "response"
        asked = Asked(left_out(design, "all"), scale, draws, SEED, 0.5, 0.0)
        parts = [_summary(values, interval) for _, values in expected(design, asked, rows)]
        return _joined(parts)

    def _shares(self, rows: NewRows) -> Shares:
        """Of ordered categories the probability of each."""
        family, draws, rng = self.design.family, self.draws, np.random.default_rng(SEED)
        given = given_at(draws, None)
        parts = [
            family.probabilities(eta, np.zeros_like(eta), given).mean(1).T
            for _, _, eta in predictors(self.design, draws, rows, rng)
        ]
        return Shares(np.concatenate(parts), self.design.categories)

    def _observed(self, rows: NewRows, interval: float | None) -> Answer:
        """New observations: moments by the laws of total expectation and variance, ends by draws."""
        family, draws, rng = self.design.family, self.draws, np.random.default_rng(SEED)
        parts = []
        for _, lot, eta in predictors(self.design, draws, rows, rng):
            given = given_at(draws, lot.trials)
            mean = family.mean(eta, given)
            variance = mean.var(0) + np.broadcast_to(family.variance(eta, given), eta.shape).mean(0)
            drawn = _summary(drawn_at(family, eta, given, rng), interval)
            parts.append(drawn._replace(mean=mean.mean(0), sd=np.sqrt(variance)))
        return _joined(parts)


class DrawnEffects(LevelEffects):
    """Effects as a file has them: moments in tables, intervals from draws."""

    def __init__(
        self, design: Design, quantities: list[str], posterior: Posterior, draws: JointDraws
    ):
        super().__init__(design, quantities)
        self.posterior, self.draws = posterior, draws

    def moments(self, t: int, j: int) -> LevelMoments:
        """Of the j-th coefficient of term t."""
        name = next(name for name, at in self.found.items() if at == (t, j))
        found = self.posterior.local(name)
        return LevelMoments(*(found[key].values for key in ("mean", "sd", "mfvb_sd", "cov")))

    def ends(self, name: str, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Quantiles of the draws."""
        t, j = self.found[name]
        lower, upper = np.quantile(
            self.draws.effects[t][:, :, j], [0.5 - prob / 2, 0.5 + prob / 2], axis=0
        )
        return lower, upper


def _summary(values: np.ndarray, interval: float | None) -> Answer:
    """Of m rows from their draws (n, m)."""
    mean, sd = values.mean(0), values.std(0)
    if interval is None:
        return Answer(mean, sd)
    lower, upper = np.quantile(values, [0.5 - interval / 2, 0.5 + interval / 2], axis=0)
    return Answer(mean, sd, lower, upper)


def _joined(parts: list[Answer]) -> Answer:
    found: list[Any] = [
        None if part[0] is None else np.concatenate(part) for part in zip(*parts, strict=True)
    ]
    return Answer(*found)
