"""Levels' coefficients, variances and correlations, and the shares of variance that effects explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ....errors import InvalidModel
from ....likelihoods import Given, Likelihood
from ..design.design import Design
from .joint import JointDraws
from .simulated import given_at

WHAT = ("mean", "sd", "lower", "upper")
LATENT = {
    "logit": np.pi**2 / 3,
    "probit": 1.0,
    "cloglog": np.pi**2 / 6,
}  # variances of g(p)'s noise
ROWS = 2000  # of the fit over which a predictor's variance is taken, where there are more


def summarised(columns: dict[Any, np.ndarray], prob: float, name: str) -> pd.DataFrame:
    """`mean, sd, lower, upper` of quantities from their draws."""
    ends = [0.5 - prob / 2, 0.5 + prob / 2]
    rows = {
        key: [values.mean(), values.std(), *np.quantile(values, ends)]
        for key, values in columns.items()
    }
    found = pd.DataFrame.from_dict(rows, orient="index", columns=list(WHAT))
    found.index.name = name
    return found


def coefficients(design: Design, draws: JointDraws, group: Any, what: Any, prob: float) -> Any:
    """See `MixedModel.coef`."""
    if not isinstance(what, str) or what not in WHAT:
        raise InvalidModel(f"what={what!r} must be one of {', '.join(map(repr, WHAT))}.")
    names = list(dict.fromkeys([*_groups(design), *(part.group for part in design.structured)]))
    if not names:
        raise InvalidModel("The model has no random effects; its coefficients are in summary().")
    if group is None:
        found = {name: _of_group(design, draws, name, what, prob) for name in names}
        return found if len(found) > 1 else found[names[0]]
    if group not in names:
        raise InvalidModel(f"group={group!r} must be one of {', '.join(map(repr, names))}.")
    return _of_group(design, draws, group, what, prob)


def _groups(design: Design) -> list[str]:
    """The names of all terms' groups."""
    return [design.factors[term.factor].name for term in design.terms]


def _coefficient(label: str) -> str:
    """What varies by level in "1|g" or "x|g"."""
    name = label.rpartition("|")[0]
    return "Intercept" if name == "1" else name


def _of_group(
    design: Design, draws: JointDraws, group: str, what: str, prob: float
) -> pd.DataFrame:
    labels = np.asarray(design.factors[design.place(group)].levels)
    structured = [part for part in design.structured if part.group == group]
    if structured:
        labels = np.asarray(structured[0].levels)
    parts: dict[str, np.ndarray] = {
        name: np.broadcast_to(draws.beta[:, [j]], (len(draws), len(labels)))
        for j, name in enumerate(design.names)
        if not design.bent[j]
    }
    for part in structured:
        name = _coefficient(part.label)
        parts[name] = parts.get(name, np.zeros(1)) + draws.beta[:, part.places]
    for t, term in enumerate(design.terms):
        if design.factors[term.factor].name != group:
            continue
        for j, coefficient in enumerate(term.coefficients):
            name = "Intercept" if coefficient == "1" else coefficient
            parts[name] = parts.get(name, np.zeros(1)) + draws.effects[t][:, :, j]
    ends = {"lower": 0.5 - prob / 2, "upper": 0.5 + prob / 2}

    def of(values: np.ndarray) -> np.ndarray:
        if what in ends:
            return np.quantile(values, ends[what], axis=0)
        return values.mean(0) if what == "mean" else values.std(0)

    index = pd.Index(labels, name=group)
    return pd.DataFrame({name: of(values) for name, values in parts.items()}, index=index)


def variances(design: Design, draws: JointDraws, prob: float) -> pd.DataFrame:
    """See `MixedModel.var_corr`."""
    rows: list[tuple[str, str, str | None]] = []
    squares: list[float] = []
    columns: list[np.ndarray] = []
    for term, covariance in zip(design.terms, draws.covariances, strict=True):
        sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        names = ["(Intercept)" if c == "1" else c for c in term.coefficients]
        q = len(names)
        for i in range(q):
            rows.append((term.group, names[i], None))
            squares.append(float(covariance[:, i, i].mean()))
            columns.append(sd[:, i])
        for i in range(q):
            for j in range(i + 1, q):
                rows.append((term.group, names[i], names[j]))
                squares.append(float(covariance[:, i, j].mean()))
                columns.append(covariance[:, i, j] / (sd[:, i] * sd[:, j]))
    for part in design.structured:
        sd = draws.values[f"sd[{part.label}]"]
        name = _coefficient(part.label)
        rows.append((part.group, "(Intercept)" if name == "Intercept" else name, None))
        squares.append(float((sd**2).mean()))
        columns.append(sd)
    if "residual" in draws.noise:
        rows.append(("Residual", "", None))
        squares.append(float((draws.noise["residual"] ** 2).mean()))
        columns.append(draws.noise["residual"])
    if not rows:
        raise InvalidModel("The model has neither random effects nor a residual's sd.")
    found = summarised(dict(enumerate(columns)), prob, "").reset_index(drop=True)
    named = pd.DataFrame(rows, columns=["group", "var1", "var2"])
    return pd.concat(
        [named, pd.DataFrame({"vcov": squares}), found.rename(columns={"mean": "sdcor"})], axis=1
    )


# ---- shares of variance ----------------------------------------------------------------------


def explained(design: Design, draws: JointDraws, prob: float) -> pd.DataFrame:
    """See `MixedModel.r2`."""
    fixed, random, rest = _parts(design, draws)
    between = sum(random.values(), np.zeros(len(draws)))
    total = fixed + between + rest
    shares = {"marginal": fixed / total, "conditional": (fixed + between) / total}
    return summarised(shares, prob, "r2")


def shares(design: Design, draws: JointDraws, prob: float) -> pd.DataFrame:
    """See `MixedModel.icc`."""
    _, random, rest = _parts(design, draws)
    if not random:
        raise InvalidModel("The model has no random effects, so that rows share nothing.")
    between = sum(random.values(), np.zeros(len(draws)))
    found = {name: part / (between + rest) for name, part in random.items()}
    if len(found) > 1:
        found["all"] = between / (between + rest)
    return summarised(found, prob, "group")


def _parts(
    design: Design, draws: JointDraws
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """Variances on the link's scale at every draw: fixed effects', each factor's, and the rest.

    σ²_f is that of Xβ over rows, as often as they count, without levels that have a structure; a term's
    the mean over rows of rᵀΣr; (1|obs) belongs to the rest.
    """
    some = np.linspace(0, design.n - 1, min(design.n, ROWS)).astype(int)
    w = np.ones(len(some)) if design.weights is None else design.weights[some]
    w = w / w.sum()
    fixed = np.ones(len(design.names), dtype=bool)
    for structured in design.structured:
        fixed[structured.places] = False
    eta = draws.beta[:, fixed] @ design.X[np.ix_(some, fixed)].T
    offset = 0.0 if design.offset is None else design.offset[some]
    random: dict[str, np.ndarray] = {}
    own = np.zeros(len(draws))
    for t, (term, covariance) in enumerate(zip(design.terms, draws.covariances, strict=True)):
        R = design.terms[t].R[some]
        part = np.einsum("nij,ij->n", covariance, R.T @ (w[:, None] * R))
        if term.factor == design.observation:
            own = own + part
        else:
            name = design.factors[term.factor].name
            random[name] = random.get(name, np.zeros(len(draws))) + part
    for structured in design.structured:
        R = design.X[np.ix_(some, structured.places)]
        size = np.trace(np.linalg.solve(structured.Q, R.T @ (w[:, None] * R)))
        part = draws.values[f"sd[{structured.label}]"] ** 2 * size
        random[structured.group] = random.get(structured.group, np.zeros(len(draws))) + part
    between = own + sum(random.values(), np.zeros(len(draws)))
    center = (eta + offset) @ w + (between / 2 if design.family.link.name == "log" else 0.0)
    trials = None if design.trials is None else np.ones(1)
    given = {key: np.reshape(v, (-1,)) for key, v in given_at(draws, trials).items()}
    rest = own + noise_on_link(design.family, center, given)
    return (eta - (eta @ w)[:, None]) ** 2 @ w, random, rest


def noise_on_link(family: Likelihood, eta: np.ndarray, given: Given) -> np.ndarray:
    """The family's own variance on the link's scale at η (n,).

    That of the variable behind zeros and ones, or ordered categories; the variance of y itself for an
    identity; log(1 + Var y/(E y)²) for a log; else, of shares, by the link's slope at the mean.
    """
    link = family.link
    if family.discrete and link.name in LATENT:
        return np.full(len(eta), LATENT[link.name])
    variance = np.asarray(family.variance(eta, given), dtype=float)
    if link.name == "identity":
        return np.broadcast_to(variance, eta.shape)
    if link.name == "log":
        return np.log1p(variance / family.mean(eta, given) ** 2)
    return variance / family.slope(eta, given) ** 2
