"""The numbers of a mixed model's priors, by the names that `priors=` has, each with its plain steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from ....posterior.hyperparameters import (
    Hyperparameter,
    PlainSteps,
    either_way,
    one_more,
    times,
)
from ..priors.stated import MixedPriors, SpreadPrior

_ONE_MORE = {"df", "shape", "eta", "dof", "a", "b"}  # counts; other positive numbers double

Stated = tuple[Hyperparameter, Callable[[float], MixedPriors]]


def stated_numbers(priors: MixedPriors) -> dict[str, Stated]:
    """Every number of a proper prior by name, `x.sd`, `1|g.scale`, `s(x).scale`; all priors at others."""
    found: dict[str, Stated] = {}

    def add(name: str, value: float, steps: PlainSteps, at: Callable[[float], MixedPriors]) -> None:
        found[name] = (Hyperparameter(name, value, steps, lambda _: {}), at)

    for j, name in enumerate(priors.names):
        mean, sd = float(priors.mean[j]), float(priors.sd[j])
        if np.isfinite(sd):
            add(f"{name}.mean", mean, either_way(sd), _fixed(priors, "mean", j))
            add(f"{name}.sd", sd, times(sd), _fixed(priors, "sd", j))
    for t, prior in enumerate(priors.terms):
        for label, part, put in _parts(priors, t, prior):
            for field, value, at in _numbers(part, put):
                add(f"{label}.{field}", value, _steps(part, field), _term(priors, t, at))
    if priors.residual is not None:
        for field, value, at in _numbers(priors.residual, lambda p: p):
            steps = _steps(priors.residual, field)
            add(f"residual.{field}", value, steps, _residual(priors, at))
    for which in ("dispersions", "smooths"):
        for j, (name, own) in enumerate(getattr(priors, which)):
            for field, value, at in _numbers(own, lambda p: p):
                add(f"{name}.{field}", value, _steps(own, field), _named(priors, which, j, at))
    return found


def _steps(prior: Any, field: str) -> PlainSteps:
    """One more or less of a count, a mean by its sd, twice or half of any other number."""
    value = float(getattr(prior, field))
    if field == "mean":
        return either_way(float(prior.sd))
    if field not in _ONE_MORE:
        return times(value)
    least = len(np.atleast_2d(prior.scale)) - 1 if field == "dof" else 0
    return one_more(value, float(least) if value > least else 0.0)


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


def _named(
    priors: MixedPriors, which: str, j: int, at: Callable[[float], Any]
) -> Callable[[float], MixedPriors]:
    def moved(value: float) -> MixedPriors:
        parts = list(getattr(priors, which))
        parts[j] = (parts[j][0], at(value))
        changed: Any = {which: tuple(parts)}
        return replace(priors, **changed)

    return moved


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
