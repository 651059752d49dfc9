"""What another prior would do to an integrated model: covariances with the prior's score, no refit.

With weighted draws of the posterior dE[q]/dε = Cov(q, ∂log p(θ, β; ε)/∂ε) for any number ε of a prior,
and dE[q²]/dε likewise, so that sds follow too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ....errors import InvalidModel
from ....integrated.normal import Normal
from ....integrated.terms import Spread, split_by_size
from ....likelihoods.dispersion import split_coordinates
from ....numerics.pareto import smooth
from ....posterior.answering import Elsewhere, PriorChange
from ....posterior.hyperparameters import Hyperparameter
from ....posterior.what_if import RELIABLE
from ..priors.stated import MixedPriors, SpreadPrior
from .fit import IntegratedFit, integrate_model
from .prior_numbers import Stated, stated_numbers
from .quantities import sd_name

_DIFFERENCE = 1e-5  # relative: the error of a central difference of a log density is its square


class _Score(NamedTuple):
    """∂log p/∂ε at the draws: its mean given θ (n,), and what β adds within each draw.

    linear (n,) and square (n,) are its coefficients of (β_k − b_k) and (β_k − b_k)², of `coefficient` k.
    """

    mean: np.ndarray
    coefficient: int = -1
    linear: float = 0.0
    square: float = 0.0
    center: float = 0.0


@dataclass(frozen=True, eq=False)
class PriorSensitivity:
    """The same questions as of `posterior.sensitivity.Sensitivity`, of priors only."""

    found: IntegratedFit
    priors: MixedPriors
    verifies: str = "a refit"
    no_rows: str = ""

    @property
    def estimate(self) -> Any:
        """Of the integrated fit."""
        return self.found.estimate

    @cached_property
    def sd(self) -> np.ndarray:
        """Of every coordinate."""
        return np.sqrt(np.diag(self.found.estimate.Sigma))

    @cached_property
    def _stated(self) -> dict[str, Stated]:
        return stated_numbers(self.priors)

    def known(self) -> list[Hyperparameter]:
        """Every number of every proper prior."""
        return [h for h, _ in self._stated.values()]

    def prior_changes(self, at: np.ndarray) -> list[PriorChange]:
        """Derivatives of the means and sds `at` in every hyperparameter."""
        found = map(self.prior_change, self.known())
        return [PriorChange(h, *(part[..., at] for part in parts)) for h, *parts in found]

    def prior_change(self, hyperparameter: Hyperparameter) -> PriorChange:
        """Derivatives of all means and sds in one number of a prior."""
        draws, score = self.found.weighted, self._score(hyperparameter)
        w, T, p = draws.weights, draws.values, draws.p
        C = draws.root @ draws.root.swapaxes(1, 2)
        second = T**2
        second[:, :p] += np.diagonal(C, axis1=1, axis2=2)
        s = score.mean - w @ score.mean
        first_moment, second_moment = (w * s) @ T, (w * s) @ second
        k = score.coefficient
        if 0 <= k < p:
            mu, C_k = T[:, :p], C[:, :, k]
            away = (T[:, k] - score.center)[:, None]
            slope = score.linear + 2 * score.square * away
            first_moment[:p] += w @ (slope * C_k)
            second_moment[:p] += w @ (2 * mu * slope * C_k + 2 * score.square * C_k**2)
        d_variance = second_moment - 2 * self.found.estimate.m * first_moment
        d_sd = d_variance / (2 * np.where(self.sd > 0, self.sd, 1.0))
        at_steps = [self._at_step(hyperparameter, step) for step in hyperparameter.steps]
        return PriorChange(hyperparameter, first_moment, d_sd, np.array(at_steps))

    def refitted(self, hyperparameter: Hyperparameter, step: float, prob: float) -> Elsewhere:
        """What is found at value + step, by an integration of its own."""
        found = self.found
        moved = self._stated[hyperparameter.name][1](hyperparameter.value + step)
        again = integrate_model(found.design, moved, found.standard)
        change = again.estimate.m - found.estimate.m
        return Elsewhere(change, *again.weighted.intervals(prob))

    def intervals(self, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals of all coordinates."""
        return self.found.weighted.intervals(prob)

    def _at_step(self, hyperparameter: Hyperparameter, step: float) -> np.ndarray:
        """The change (a,) of all means at value + step, by weights of the draws; NaN where those are bad."""
        draws, moved = self.found.weighted, np.zeros(0)
        T, which = draws.values, self._fixed_effect(hyperparameter)
        if which is None:
            at = self._stated[hyperparameter.name][1]
            ends = [self._log_prior(at(hyperparameter.value + e)) for e in (step, 0.0)]
            log_ratio = ends[0] - ends[1]
        else:
            log_ratio, moved = self._tilted(*which, hyperparameter.value + step)
        with np.errstate(divide="ignore"):
            log_w = np.log(draws.weights) + log_ratio
        if not smooth(log_w)[1] <= RELIABLE:
            return np.full(T.shape[1], np.nan)
        w = np.exp(log_w - logsumexp(log_w))
        change = w @ T - draws.weights @ T
        if moved.size:
            change[: draws.p] += w @ moved
        return change

    def _tilted(self, k: int, field: str, value: float) -> tuple[np.ndarray, np.ndarray]:
        r"""log ∫ r(β_k) q(β | θ) dβ (n,) of r = p_new/p_old of a coefficient; how E[β | θ] moves (n, p).

        log r = −½λx² + lx + const in x = β_k − b, λ = 1/s′² − 1/s² and l = (b′ − b)/s′². With x ~ N(μ, c)
        given θ the integral is (1 + λc)^(−½) exp(½(−λμ² + 2lμ + l²c)/(1 + λc)), and β moves by
        C_k (l − λμ)/(1 + λc).
        """
        draws = self.found.weighted
        b, s = float(self.priors.mean[k]), float(self.priors.sd[k])
        b_new, s_new = (value, s) if field == "mean" else (b, value)
        precision, pull = 1 / s_new**2 - 1 / s**2, (b_new - b) / s_new**2
        mu = draws.values[:, k] - b
        if k >= draws.p:
            return -precision * mu**2 / 2 + pull * mu, np.zeros(0)
        C_k = np.einsum("npq,nq->np", draws.root, draws.root[:, k])
        spread = 1 + precision * C_k[:, k]
        with np.errstate(
            invalid="ignore"
        ):  # a weaker prior of what the data do not know has no integral
            log_ratio = -np.log(spread) / 2
        log_ratio += (-precision * mu**2 + 2 * pull * mu + pull**2 * C_k[:, k]) / (2 * spread)
        return log_ratio, C_k * ((pull - precision * mu) / spread)[:, None]

    def remark(self, names: list[str], at: np.ndarray) -> str:
        """Nothing."""
        return ""

    def _score(self, hyperparameter: Hyperparameter) -> _Score:
        which = self._fixed_effect(hyperparameter)
        if which is not None:
            return self._score_of_fixed(*which)
        at = self._stated[hyperparameter.name][1]
        h = _DIFFERENCE * (abs(hyperparameter.value) or hyperparameter.step)
        up, down = (self._log_prior(at(hyperparameter.value + e)) for e in (h, -h))
        return _Score((up - down) / (2 * h))

    def _fixed_effect(self, hyperparameter: Hyperparameter) -> tuple[int, str] | None:
        """Which coefficient's prior, and which of its numbers; None where it is of something else."""
        name, _, field = hyperparameter.name.rpartition(".")
        if name in self.priors.names and field in ("mean", "sd"):
            return self.priors.names.index(name), field
        return None

    def _score_of_fixed(self, k: int, field: str) -> _Score:
        """(β − b)/s² of a mean b; ((β − b)² − s²)/s³ of an sd s."""
        b, s = float(self.priors.mean[k]), float(self.priors.sd[k])
        draws = self.found.weighted
        away = draws.values[:, k] - b
        if field == "mean":
            return _Score(away / s**2, k, linear=1 / s**2, center=b)
        within = (draws.root[:, k] ** 2).sum(-1) if k < draws.p else 0.0
        return _Score((away**2 + within - s**2) / s**3, k, square=1 / s**3, center=b)

    @cached_property
    def _parts(self) -> dict[int, tuple[np.ndarray, Spread]]:
        """Of each term its part of θ (n, size) at the draws, and Σ there, which no prior changes."""
        statement, theta = self.found.statement, self.found.theta
        first = 0 if isinstance(statement.inside, Normal) else statement.inside.p
        ordered = [statement.terms[t] for t in statement.order]
        parts = zip(statement.order, split_by_size(theta[:, first:], ordered), strict=True)
        return {t: (part, statement.terms[t].spread(part)) for t, part in parts}

    def _log_prior(self, priors: MixedPriors) -> np.ndarray:
        """log p(θ) of every term and the residual at the draws, (n,)."""
        statement, theta = self.found.statement, self.found.theta
        total = np.zeros(len(theta))
        for t, prior in enumerate(priors.terms):
            if prior is self.priors.terms[t]:
                continue  # the same in both of a difference
            term = statement.terms[t]
            # a prior that is no SpreadPrior is one of the sds, or of the whole matrix, as `sds` takes both
            changed = (
                replace(term, sds=prior.sds, correlations=prior.correlations)
                if isinstance(prior, SpreadPrior)
                else replace(term, sds=prior)  # type: ignore[arg-type]
            )
            total += changed.log_prior(*self._parts[t])
        if priors.residual is not self.priors.residual:
            if priors.residual is None:
                raise InvalidModel("A gaussian model needs a prior of its residual sd.")
            total += priors.residual.log_density(np.exp(theta[:, -1]))
        index = self.found.estimate.index
        for (label, now), (_, before) in zip(priors.smooths, self.priors.smooths, strict=True):
            if now is not before:
                total += now.log_density(self.found.weighted.values[:, index[sd_name(label)]])
        parts_of_rows = split_coordinates(statement.parameters, statement.coordinates(theta))
        for (_, now), (_, before), (own, u) in zip(
            priors.dispersions, self.priors.dispersions, parts_of_rows, strict=True
        ):
            if now is not before:
                total += own.range.log_density(now, u)
        return total
