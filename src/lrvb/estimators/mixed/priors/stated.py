"""Priors of a mixed model on the user's scale: what was stated by name, and defaults for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....errors import InvalidModel
from ....prior import LKJ, Exponential, Gamma, HalfNormal, HalfStudentT, Normal, Wishart
from ..design.columns import close_to
from ..design.design import Design
from ..design.separation import check_separation
from ..design.terms import Term
from .defaults import (
    default_correlations,
    default_dispersion,
    default_fixed,
    default_residual,
    default_sds,
    default_smooth,
    default_term,
)

SdPrior = Gamma | HalfStudentT | HalfNormal | Exponential
OF_AN_SD = (HalfStudentT, HalfNormal, Exponential)

_AT = " at the mean of "  # a prior's centre, in the table


class SpreadPrior(NamedTuple):
    """The priors of a term's sds, in the order of its coefficients, and of their correlations.

    If `centred`, of its columns less their means beside an intercept, so that origins do not matter.
    """

    sds: tuple[SdPrior, ...]
    correlations: LKJ | None = None
    centred: bool = False


TermPrior = Gamma | Wishart | SpreadPrior


@dataclass(frozen=True, eq=False)
class MixedPriors:
    """β_j ~ N(mean_j, sd_j²), terms[t] of a term's precision or sds, residual's (gaussian only).

    names are the fixed effects'; terms are aligned with the design's: Gamma of a single
    coefficient's precision, Wishart (scale a (q, q) matrix) of a correlated term's, or priors of
    sds; dispersions are (name, prior) of the response's other parameters, smooths (label, prior) of the sds
    of smooths and structures, whose coefficients `bends` have sd_j = ∞; stated holds (kind, name) of the
    priors that the user gave.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    term_names: tuple[str, ...]
    coefficients: tuple[tuple[str, ...], ...]
    terms: tuple[TermPrior, ...]
    residual: SdPrior | None
    dispersions: tuple[tuple[str, Any], ...]
    stated: frozenset[tuple[str, str]]
    smooths: tuple[tuple[str, SdPrior], ...] = ()
    bends: frozenset[str] = frozenset()

    def table(self) -> pd.DataFrame:
        """One row per prior: what it is of, the prior, and whether it is the default."""
        rows: list[tuple[str, str, Any]] = [
            (name, "coefficient", Normal(mean, sd))
            for name, mean, sd in zip(self.names, self.mean, self.sd, strict=True)
            if name not in self.bends
        ]
        for name, coefficients, prior in zip(
            self.term_names, self.coefficients, self.terms, strict=True
        ):
            if isinstance(prior, Wishart):
                rows.append((name, "precision matrix", prior))
                continue
            parts = prior.sds if isinstance(prior, SpreadPrior) else (prior,)
            where = _where(prior, coefficients)
            rows += [
                (own, _of(part) + (where if own.startswith("1|") else ""), part)
                for own, part in zip(coefficients, parts, strict=True)
            ]
            if isinstance(prior, SpreadPrior) and prior.correlations is not None:
                rows.append((name, f"correlations{where}", prior.correlations))
        rows += [(name, _of(prior), prior) for name, prior in self.smooths]
        if self.residual is not None:
            rows.append(("residual", _of(self.residual), self.residual))
        rows += [(name, "dispersion", prior) for name, prior in self.dispersions]
        return pd.DataFrame(
            {
                "of": [kind for _, kind, _ in rows],
                "prior": [repr(prior) for _, _, prior in rows],
                "default": [(_place(kind), name) not in self.stated for name, kind, _ in rows],
            },
            index=pd.Index([name for name, _, _ in rows], name="name"),
        )


def _of(prior: SdPrior) -> str:
    return "precision" if isinstance(prior, Gamma) else "sd"


def _where(prior: Any, coefficients: tuple[str, ...]) -> str:
    """At which values of the columns a centred prior speaks of an intercept; nothing of another."""
    others = [name.rpartition("|")[0] for name in coefficients if not name.startswith("1|")]
    if not (isinstance(prior, SpreadPrior) and prior.centred) or len(others) in (
        0,
        len(coefficients),
    ):
        return ""
    return f"{_AT}{', '.join(others)}"


def _place(kind: str) -> str:
    """Where a prior of this kind is stated: that of a precision is one of its sd."""
    kind = kind.partition(_AT)[0]
    return "sd" if kind == "precision" else kind


def resolve(
    priors: Mapping[str, Any] | None, design: Design, of_precisions: bool = False
) -> MixedPriors:
    """The prior of everything in a design: the user's by name, otherwise the default.

    Keys: "fixed" (every coefficient not named), a fixed effect's name; "1|g" or "sd[1|g]" of one
    effect, "corr[g]" of a term's correlations or "g" of a correlated term as a whole; "residual",
    "sd[residual]" or "sigma" (gaussian). Where a name is both a fixed effect's and a term's, the kind of the
    prior decides. With `of_precisions` defaults are Gamma and Wishart, and others are refused.
    """
    if priors is not None and not isinstance(priors, Mapping):
        raise InvalidModel(
            f"priors={priors!r} must be a mapping of names to priors, such as "
            "{'x': lrvb.prior.Normal(0, 1)}."
        )
    stated = _assign(dict(priors or {}), design)
    mean, sd = default_fixed(design)
    for j, name in enumerate(design.names):
        prior = stated.get(("coefficient", name))
        if isinstance(prior, Normal):
            mean[j], sd[j] = prior.mean, prior.sd
    mean[design.bent], sd[design.bent] = 0.0, np.inf
    smooths = [
        (part.label, stated.get(("sd", part.label)) or default_smooth(design, part.size))
        for part in design.penalised
    ]
    of_term = _of_precision if of_precisions else _of_spread
    terms = [of_term(stated, design, term) for term in design.terms]
    residual, others = None, []
    for dispersion in design.dispersions:
        if not design.family.quadratic:
            own = stated.get(("dispersion", dispersion.name))
            others.append((dispersion.name, own or default_dispersion(design, dispersion)))
            continue
        residual = stated.get(("sd", dispersion.name))
        if of_precisions and isinstance(residual, OF_AN_SD):
            raise _needs_precision(dispersion.name, residual, "Gamma(shape, rate)")
        default = (
            default_dispersion(design, dispersion) if of_precisions else default_residual(design)
        )
        residual = residual or default
    held = {
        name
        for name, width in zip(design.names, sd, strict=True)
        if np.isfinite(width) and (not of_precisions or ("coefficient", name) in stated)
    }
    bends = {name for name, bent in zip(design.names, design.bent, strict=True) if bent}
    check_separation(design, held | bends)
    return MixedPriors(
        names=tuple(design.names),
        mean=mean,
        sd=sd,
        term_names=tuple(term.name for term in design.terms),
        coefficients=tuple(_effects(term) for term in design.terms),
        terms=tuple(terms),
        residual=residual,
        dispersions=tuple(others),
        stated=frozenset(stated),
        smooths=tuple(smooths),
        bends=frozenset(bends),
    )


def _effects(term: Term) -> tuple[str, ...]:
    """The names of a term's effects: "1|g", "x|g"."""
    return tuple(f"{name}|{term.group}" for name in term.coefficients)


def _of_spread(stated: dict[tuple[str, str], Any], design: Design, term: Term) -> TermPrior:
    """Priors of a term's sds and correlations, or the Wishart of them all."""
    whole = stated.get(("precision matrix", term.name))
    parts = {name: stated.get(("sd", name)) for name in _effects(term)}
    correlations = stated.get(("correlations", term.name))
    if whole is not None:
        also = [name for name, part in parts.items() if part] + (
            [f"corr[{term.name}]"] if correlations else []
        )
        if also:
            raise InvalidModel(
                f"The prior of '{term.name}' is a Wishart of the whole term, and '{also[0]}' has one "
                "too; give either.",
                key=term.name,
            )
        return _checked_wishart(whole, term)
    default = default_sds(design, term)
    sds = tuple(part or other for part, other in zip(parts.values(), default, strict=True))
    if len(sds) == 1:
        return SpreadPrior(sds)
    if correlations is None and not any(parts.values()):
        return SpreadPrior(default_sds(design, term, True), default_correlations(), True)
    return SpreadPrior(sds, correlations or default_correlations())


def _of_precision(stated: dict[tuple[str, str], Any], design: Design, term: Term) -> TermPrior:
    """The Gamma of a precision or the Wishart of a precision matrix."""
    names, q = _effects(term), len(term.coefficients)
    other = stated.get(("correlations", term.name))
    for name in names:
        part = stated.get(("sd", name))
        if part is not None and (q > 1 or isinstance(part, OF_AN_SD)):
            other = part
    if other is not None:
        needed = "Gamma(shape, rate)" if q == 1 else "Wishart(dof, scale)"
        raise _needs_precision(term.name, other, needed)
    prior = stated.get(("sd", names[0])) if q == 1 else stated.get(("precision matrix", term.name))
    if isinstance(prior, Wishart):
        return _checked_wishart(prior, term)
    return prior or default_term(design, term)


def _needs_precision(name: str, prior: Any, needed: str) -> InvalidModel:
    return InvalidModel(
        f"The prior {prior!r} is of an sd or a correlation, but a variational fit has conjugate "
        f"factors: give '{name}' lrvb.prior.{needed} of its precision, or a model whose sums are exact.",
        key=name,
    )


def _allowed(design: Design) -> dict[tuple[str, str], tuple[type, ...]]:
    """What each (kind, name) takes."""
    of_sd = (Gamma, *OF_AN_SD)
    allowed: dict[tuple[str, str], tuple[type, ...]] = {
        ("coefficient", name): (Normal,) for name in design.effects
    }
    allowed |= {("sd", part.label): of_sd for part in design.penalised}
    for term in design.terms:
        allowed |= {("sd", name): of_sd for name in _effects(term)}
        if len(term.coefficients) > 1:
            allowed[("precision matrix", term.name)] = (Wishart,)
            allowed[("correlations", term.name)] = (LKJ,)
    for dispersion in design.dispersions:
        if design.family.quadratic:
            allowed[("sd", dispersion.name)] = of_sd
        else:
            allowed[("dispersion", dispersion.name)] = dispersion.range.takes
    return allowed


def _keys(design: Design) -> dict[str, list[tuple[str, str]]]:
    """Every key and what it may be of."""
    keys: dict[str, list[tuple[str, str]]] = {}
    for place in _allowed(design):
        kind, name = place
        keys.setdefault(f"corr[{name}]" if kind == "correlations" else name, []).append(place)
        if kind == "sd":
            keys.setdefault(f"sd[{name}]", []).append(place)
    if ("sd", "residual") in _allowed(design):
        keys.setdefault("sigma", [("sd", "residual")])
    return keys


def _assign(priors: dict[str, Any], design: Design) -> dict[tuple[str, str], Any]:
    """Each stated prior at (kind, name), with "fixed" spread over the coefficients not named."""
    allowed, keys = _allowed(design), _keys(design)
    found: dict[tuple[str, str], Any] = {}
    given: dict[tuple[str, str], str] = {}
    for key, prior in priors.items():
        if key == "fixed":
            if not isinstance(prior, Normal):
                raise _wrong_kind(key, prior, [("coefficient", key)], design)
            continue
        places = keys.get(key)
        if not places:
            raise InvalidModel(
                f"The prior '{key}' belongs to nothing in the model; {_valid(key, design)}",
                key=key,
            )
        fitting = [place for place in places if isinstance(prior, allowed[place])]
        if not fitting:
            raise _wrong_kind(key, prior, places, design)
        if fitting[0] in found:
            raise InvalidModel(
                f"The prior of '{fitting[0][1]}' is given twice, as '{given[fitting[0]]}' and as "
                f"'{key}'; give one."
            )
        found[fitting[0]], given[fitting[0]] = prior, key
    if "fixed" in priors:
        for name in design.effects:
            found.setdefault(("coefficient", name), priors["fixed"])
    return found


def _valid(key: str, design: Design) -> str:
    """The close matches of a key and all keys there are."""
    keys = ["fixed", *design.effects, *(part.label for part in design.penalised)]
    for term in design.terms:
        keys += [name for name in _effects(term) if name not in keys]
        if len(term.coefficients) > 1:
            keys += [f"corr[{term.name}]", term.name]
    keys += [dispersion.name for dispersion in design.dispersions]
    close = close_to(str(key), keys)
    listed = ", ".join(f"'{name}'" for name in keys)
    return f"{close} Valid keys: {listed}." if close.startswith("did") else f"valid keys: {listed}."


def _wrong_kind(
    key: str, prior: Any, places: list[tuple[str, str]], design: Design
) -> InvalidModel:
    """The error for a prior of the wrong kind."""
    words = {
        "coefficient": "a fixed effect, which takes lrvb.prior.Normal(mean, sd)",
        "sd": "a standard deviation, which takes lrvb.prior.HalfStudentT(df, scale), "
        "HalfNormal(scale) or Exponential(rate), or lrvb.prior.Gamma(shape, rate) of the precision",
        "correlations": "a term's correlations, which take lrvb.prior.LKJ(eta)",
        "precision matrix": "a correlated term, which takes lrvb.prior.Wishart(dof, scale)",
    }
    own = {dispersion.name: dispersion.range.words for dispersion in design.dispersions}
    expected = " or ".join(
        own[name] if kind == "dispersion" else words[kind] for kind, name in places
    )
    return InvalidModel(f"The prior of '{key}' is {prior!r}, but '{key}' is {expected}.", key=key)


def _checked_wishart(prior: Wishart, term: Term) -> Wishart:
    """A stated Wishart with its scale as a matrix that fits the term."""
    q = len(term.coefficients)
    scale = np.asarray(prior.scale, dtype=np.float64)
    if scale.ndim == 0:
        scale = float(scale) * np.eye(q)
    if scale.shape != (q, q):
        raise InvalidModel(
            f"The prior of '{term.name}' has a {scale.shape[0]} by {scale.shape[1]} scale, but the "
            f"term has the {q} coefficients {', '.join(term.coefficients)}; give a {q} by {q} matrix "
            "or a number.",
            key=term.name,
        )
    if prior.dof <= q - 1:
        raise InvalidModel(
            f"The prior of '{term.name}' has dof={prior.dof:g}, but {q} coefficients need more than "
            f"{q - 1} for a proper Wishart prior.",
            key=term.name,
        )
    return Wishart(prior.dof, scale)
