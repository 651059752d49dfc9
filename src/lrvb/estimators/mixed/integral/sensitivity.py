"""What another prior would do to an integrated model: covariances with the prior's score, no refit.

With weighted draws of the posterior dE[q]/dε = Cov(q, ∂log p(θ, β; ε)/∂ε) for any number ε of a prior,
and dE[q²]/dε likewise, so that sds follow too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ....errors import InvalidModel
from ....integrated.normal import Normal
from ....integrated.terms import split_by_size
from ....likelihoods.dispersion import split_coordinates
from ....posterior.answering import PriorChange
from ....posterior.hyperparameters import Hyperparameter
from ..priors.stated import MixedPriors, SpreadPrior
from .fit import IntegratedFit, integrate_model

_ONE_MORE = {"df", "shape", "eta", "dof", "a", "b"}  # rise by one; other positive numbers double
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

    @property
    def estimate(self) -> Any:
        """Of the integrated fit."""
        return self.found.estimate

    @cached_property
    def sd(self) -> np.ndarray:
        """Of every coordinate."""
        return np.sqrt(np.diag(self.found.estimate.Sigma))

    @cached_property
    def _stated(self) -> dict[str, tuple[Hyperparameter, Callable[[float], MixedPriors]]]:
        """Every number of a prior by its name: `x.sd`, `1|g.scale`, `corr[g].eta`, `residual.scale`."""
        found: dict[str, tuple[Hyperparameter, Callable[[float], MixedPriors]]] = {}

        def add(name: str, value: float, step: float, at: Callable[[float], MixedPriors]) -> None:
            found[name] = (Hyperparameter(name, value, step, lambda _: {}), at)

        priors = self.priors
        for j, name in enumerate(priors.names):
            if np.isfinite(priors.sd[j]):
                add(
                    f"{name}.mean",
                    float(priors.mean[j]),
                    float(priors.sd[j]),
                    _fixed(priors, "mean", j),
                )
                add(f"{name}.sd", float(priors.sd[j]), float(priors.sd[j]), _fixed(priors, "sd", j))
        for t, prior in enumerate(priors.terms):
            for label, part, put in _parts(priors, t, prior):
                for field, value, at in _numbers(part, put):
                    step = 1.0 if field in _ONE_MORE else value
                    add(f"{label}.{field}", value, step, _term(priors, t, at))
        if priors.residual is not None:
            for field, value, at in _numbers(priors.residual, lambda p: p):
                step = 1.0 if field in _ONE_MORE else value
                add(f"residual.{field}", value, step, _residual(priors, at))
        for j, (name, own) in enumerate(priors.dispersions):
            for field, value, at in _numbers(own, lambda p: p):
                step = 1.0 if field in _ONE_MORE else value
                step = own.sd if field == "mean" else step
                add(f"{name}.{field}", value, step, _dispersion(priors, j, at))
        return found

    def known(self) -> list[Hyperparameter]:
        """Every number of every proper prior."""
        return [h for h, _ in self._stated.values()]

    def prior_changes(self, at: np.ndarray) -> list[PriorChange]:
        """Derivatives of the means and sds `at` in every hyperparameter."""
        found = map(self.prior_change, self.known())
        return [PriorChange(h, d_mean[at], d_sd[at]) for h, d_mean, d_sd in found]

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
        return PriorChange(hyperparameter, first_moment, d_sd)

    def refitted(self, hyperparameter: Hyperparameter) -> np.ndarray:
        """The change of all means at the whole plain step, by an integration of its own."""
        found = self.found
        moved = self._stated[hyperparameter.name][1](hyperparameter.value + hyperparameter.step)
        again = integrate_model(found.design, moved, found.standard)
        return again.estimate.m - found.estimate.m

    def remark(self, names: list[str], at: np.ndarray) -> str:
        """Nothing."""
        return ""

    def _score(self, hyperparameter: Hyperparameter) -> _Score:
        name, _, field = hyperparameter.name.rpartition(".")
        priors = self.priors
        if name in priors.names and field in ("mean", "sd"):
            return self._score_of_fixed(priors.names.index(name), field)
        at = self._stated[hyperparameter.name][1]
        h = _DIFFERENCE * (abs(hyperparameter.value) or hyperparameter.step)
        up, down = (self._log_prior(at(hyperparameter.value + e)) for e in (h, -h))
        return _Score((up - down) / (2 * h))

    def _score_of_fixed(self, k: int, field: str) -> _Score:
        """(β − b)/s² of a mean b; ((β − b)² − s²)/s³ of an sd s."""
        b, s = float(self.priors.mean[k]), float(self.priors.sd[k])
        draws = self.found.weighted
        away = draws.values[:, k] - b
        if field == "mean":
            return _Score(away / s**2, k, linear=1 / s**2, center=b)
        within = (draws.root[:, k] ** 2).sum(-1) if k < draws.p else 0.0
        return _Score((away**2 + within - s**2) / s**3, k, square=1 / s**3, center=b)

    def _log_prior(self, priors: MixedPriors) -> np.ndarray:
        """log p(θ) of every term and the residual at the draws, (n,)."""
        statement, theta = self.found.statement, self.found.theta
        first = 0 if isinstance(statement.inside, Normal) else statement.inside.p
        ordered = [statement.terms[t] for t in statement.order]
        parts = dict(zip(statement.order, split_by_size(theta[:, first:], ordered), strict=True))
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
            total += changed.log_prior(parts[t], changed.spread(parts[t]))
        if priors.residual is not self.priors.residual:
            if priors.residual is None:
                raise InvalidModel("A gaussian model needs a prior of its residual sd.")
            total += priors.residual.log_density(np.exp(theta[:, -1]))
        parts_of_rows = split_coordinates(statement.parameters, statement.coordinates(theta))
        for (_, now), (_, before), (own, u) in zip(
            priors.dispersions, self.priors.dispersions, parts_of_rows, strict=True
        ):
            if now is not before:
                total += own.range.log_density(now, u)
        return total


def _fixed(priors: MixedPriors, which: str, j: int) -> Callable[[float], MixedPriors]:
    def at(value: float) -> MixedPriors:
        changed = getattr(priors, which).copy()
        changed[j] = value
        return replace(priors, **{which: changed})

    return at


def _term(
    priors: MixedPriors, t: int, at: Callable[[float], Any]
) -> Callable[[float], MixedPriors]:
    def changed(value: float) -> MixedPriors:
        return replace(priors, terms=(*priors.terms[:t], at(value), *priors.terms[t + 1 :]))

    return changed


def _dispersion(
    priors: MixedPriors, j: int, at: Callable[[float], Any]
) -> Callable[[float], MixedPriors]:
    def changed(value: float) -> MixedPriors:
        parts = list(priors.dispersions)
        parts[j] = (parts[j][0], at(value))
        return replace(priors, dispersions=tuple(parts))

    return changed


def _residual(priors: MixedPriors, at: Callable[[float], Any]) -> Callable[[float], MixedPriors]:
    return lambda value: replace(priors, residual=at(value))


def _parts(priors: MixedPriors, t: int, prior: Any) -> list[tuple[str, Any, Callable[[Any], Any]]]:
    """The priors within a term's: what each is of, itself, and the term's prior with it replaced."""
    if not isinstance(prior, SpreadPrior):
        return [(priors.term_names[t], prior, lambda p: p)]
    parts: list[tuple[str, Any, Callable[[Any], Any]]] = []
    for i, (label, sd) in enumerate(zip(priors.coefficients[t], prior.sds, strict=True)):

        def put(part: Any, i: int = i) -> SpreadPrior:
            return prior._replace(sds=(*prior.sds[:i], part, *prior.sds[i + 1 :]))

        parts.append((label, sd, put))
    if prior.correlations is not None:
        of = f"corr[{priors.term_names[t]}]"
        parts.append((of, prior.correlations, lambda part: prior._replace(correlations=part)))
    return parts


def _numbers(
    prior: Any, put: Callable[[Any], Any]
) -> list[tuple[str, float, Callable[[float], Any]]]:
    """The single numbers of a prior, with what holds it at other values."""
    assert is_dataclass(prior)
    found: list[tuple[str, float, Callable[[float], Any]]] = []
    for field in fields(prior):
        value = getattr(prior, field.name)
        if isinstance(value, float):

            def at(number: float, name: str = field.name) -> Any:
                # a dataclass, as asserted above, which mypy does not carry into functions
                return put(replace(prior, **{name: number}))  # type: ignore[type-var]

            found.append((field.name, value, at))
    return found
