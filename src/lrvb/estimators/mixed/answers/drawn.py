"""Predictions and levels' effects from joint draws alone, where the sums of a fit are not at hand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....likelihoods import IDENTITY, Given
from ....posterior.posterior import Posterior
from ..design.design import Design, NewRows
from .effects import LevelEffects, LevelMoments
from .joint import JointDraws, predictors, some_rows
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
        if kind == "probability":
            return self._shares(rows)
        answer = (
            self._observed(rows, interval)
            if kind == "response"
            else self._mean(rows, interval, kind)
        )
        new = np.flatnonzero(np.any([codes < 0 for codes in rows.codes], axis=0))
        if len(new):
            answer.mean[new], answer.sd[new] = self._of_new(some_rows(rows, new), kind)
        return answer

    def _mean(self, rows: NewRows, interval: float | None, kind: str) -> Answer:
        """The expected response, or η without what would be a new row's own effect."""
        design, scale = self.design, "response"
        if kind == LINK:
            scale, R = "link", list(rows.R)
            for t, term in enumerate(design.terms):
                if term.factor == design.observation:
                    R[t] = np.where((rows.codes[term.factor] < 0)[:, None], 0.0, R[t])
            rows = rows._replace(R=R)
        asked = Asked(left_out(design, "all"), scale, self.draws, SEED, 0.5, 0.0)
        parts = [_summary(values, interval) for _, values in expected(design, asked, rows)]
        return _joined(parts)

    def _of_new(self, rows: NewRows, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Means and sds of rows with new levels, whose normal is integrated and not drawn.

        Through a link without bounds it has its expected variance: exp of a new level has no mean over sds
        with a long tail.
        """
        design, draws, family = self.design, self.draws, self.design.family
        link = IDENTITY if kind == LINK else family.link
        R, shape = [], (len(draws), len(rows.X))
        variance, own = np.zeros(shape), np.zeros(shape)
        for t, term in enumerate(design.terms):
            new = (rows.codes[term.factor] < 0)[:, None]
            S, r = draws.covariances[t], np.where(new, rows.R[t], 0.0)
            S = S if link.bounded else S.mean(0, keepdims=True)
            into = own if term.factor == design.observation else variance
            into += np.einsum("mi,nij,mj->nm", r, S, r)
            R.append(np.where(new, 0.0, rows.R[t]))
        means, sds = [], []
        rng = np.random.default_rng(SEED)
        for here, lot, eta in predictors(design, draws, rows._replace(R=R), rng):
            v, e = variance[:, here], own[:, here]
            if kind == "response":
                value, spread = family.averaged(eta, v + e, given_at(draws, lot.trials))
            elif kind == LINK:
                value, sd = link.moments(eta, v, e)
                spread = sd**2
            else:
                value, sd = family.mean_moments(eta, v, e, given_at(draws, None))
                spread = sd**2
            means.append(value.mean(0))
            sds.append(np.sqrt(value.var(0) + np.broadcast_to(spread, eta.shape).mean(0)))
        return np.concatenate(means), np.concatenate(sds)

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
