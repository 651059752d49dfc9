"""Priors of a mixed model on the user's scale: what was stated by name, and defaults for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ....errors import InvalidModel
from ....prior import Gamma, Normal, Wishart
from ..design.columns import close_to
from ..design.design import Design
from ..design.separation import check_separation
from ..design.terms import Term
from .defaults import default_dispersion, default_fixed, default_term


@dataclass(frozen=True, eq=False)
class Priors:
    """β_j ~ N(mean_j, sd_j²), Λ_t ~ terms[t], τ ~ residual (gaussian only).

    names are the fixed effects'; terms are aligned with the design's, Gamma for a single
    coefficient's precision and Wishart (scale a (q, q) matrix) for a correlated term's; stated
    holds (kind, name) of the priors that the user gave.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    term_names: tuple[str, ...]
    terms: tuple[Gamma | Wishart, ...]
    residual: Gamma | None
    stated: frozenset[tuple[str, str]]

    def table(self) -> pd.DataFrame:
        """One row per prior: what it is of, the prior, and whether it is the default."""
        rows: list[tuple[str, str, Any]] = [
            (name, "coefficient", Normal(mean, sd))
            for name, mean, sd in zip(self.names, self.mean, self.sd, strict=True)
        ]
        rows += [
            (name, "precision" if isinstance(prior, Gamma) else "precision matrix", prior)
            for name, prior in zip(self.term_names, self.terms, strict=True)
        ]
        if self.residual is not None:
            rows.append(("residual", "precision", self.residual))
        return pd.DataFrame(
            {
                "of": [kind for _, kind, _ in rows],
                "prior": [repr(prior) for _, _, prior in rows],
                "default": [(kind, name) not in self.stated for name, kind, _ in rows],
            },
            index=pd.Index([name for name, _, _ in rows], name="name"),
        )


def resolve(priors: Mapping[str, Any] | None, design: Design) -> Priors:
    """The prior of everything in a design: the user's by name, otherwise the default.

    Keys: "fixed" (every coefficient not named), a fixed effect's name, a term's name ("1|g"; "g" for
    a correlated term), "residual" or "sigma" (gaussian). Where a name is both a fixed effect's and
    a term's, the kind of the prior decides.
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
    terms = [
        _stated_term(stated.get(_key(term)), term) or default_term(design, term)
        for term in design.terms
    ]
    residual = None
    for dispersion in design.family.dispersions:  # a mixed model fits one at most, the residual's
        residual = stated.get(("precision", dispersion.name))
        residual = residual or default_dispersion(design, dispersion)
    held = {
        name
        for (kind, name), prior in stated.items()
        if kind == "coefficient" and np.isfinite(prior.sd)
    }
    check_separation(design, held)
    return Priors(
        names=tuple(design.names),
        mean=mean,
        sd=sd,
        term_names=tuple(term.name for term in design.terms),
        terms=tuple(terms),
        residual=residual,
        stated=frozenset(stated),
    )


def _key(term: Term) -> tuple[str, str]:
    """A term's place among the stated priors."""
    kind = "precision" if len(term.coefficients) == 1 else "precision matrix"
    return kind, term.name


def _assign(priors: dict[str, Any], design: Design) -> dict[tuple[str, str], Any]:
    """Each stated prior at (kind, name), with "fixed" spread over the coefficients not named."""
    allowed: dict[tuple[str, str], type] = {("coefficient", name): Normal for name in design.names}
    kinds = {"precision": Gamma, "precision matrix": Wishart}
    allowed |= {_key(term): kinds[_key(term)[0]] for term in design.terms}
    allowed |= {("precision", dispersion.name): Gamma for dispersion in design.family.dispersions}
    taken = {name for _, name in allowed}
    found: dict[tuple[str, str], Any] = {}
    for key, prior in priors.items():
        if key == "fixed":
            if not isinstance(prior, Normal):
                raise _wrong_kind(key, prior, [Normal])
            continue
        name = "residual" if key == "sigma" and "sigma" not in taken else key
        places = [place for place in allowed if place[1] == name]
        if not places:
            raise InvalidModel(
                f"The prior '{key}' belongs to nothing in the model; {_valid(key, design)}",
                key=key,
            )
        fitting = [place for place in places if isinstance(prior, allowed[place])]
        if not fitting:
            raise _wrong_kind(key, prior, [allowed[place] for place in places])
        if fitting[0] in found:
            raise InvalidModel("The residual's prior is given twice, as 'residual' and as 'sigma'.")
        found[fitting[0]] = prior
    if "fixed" in priors:
        for name in design.names:
            found.setdefault(("coefficient", name), priors["fixed"])
    return found


def _valid(key: str, design: Design) -> str:
    """The close matches of a key and all keys there are."""
    keys = ["fixed", *design.names, *(term.name for term in design.terms)]
    keys += [dispersion.name for dispersion in design.family.dispersions]
    close = close_to(str(key), keys)
    listed = ", ".join(f"'{name}'" for name in keys)
    return f"{close} Valid keys: {listed}." if close.startswith("did") else f"valid keys: {listed}."


def _wrong_kind(key: str, prior: Any, kinds: list[type]) -> InvalidModel:
    """The error for a prior of the wrong kind."""
    examples: dict[type, str] = {
        Normal: "a fixed effect, which takes lrvb.prior.Normal(mean, sd)",
        Gamma: "a precision, which takes lrvb.prior.Gamma(shape, rate)",
        Wishart: "a correlated term, which takes lrvb.prior.Wishart(dof, scale)",
    }
    expected = " or ".join(examples[kind] for kind in kinds)
    return InvalidModel(f"The prior of '{key}' is {prior!r}, but '{key}' is {expected}.", key=key)


def _stated_term(prior: Any, term: Term) -> Gamma | Wishart | None:
    """A stated prior of a term; a Wishart's scale as a matrix that fits the term."""
    if not isinstance(prior, Wishart):
        return prior
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
