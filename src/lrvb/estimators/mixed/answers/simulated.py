"""Responses drawn from a fitted model, and how far the rows are from them: residuals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ....errors import InvalidModel
from ....likelihoods import Given, Likelihood
from ..design.design import Design, NewRows
from .joint import JointDraws, predictors

RESIDUALS = ("quantile", "pearson", "response")


def as_new_levels(design: Design, rows: NewRows) -> NewRows:
    """The same rows with every level taken to be new; rows of one level share what is drawn for it."""
    labels: list[np.ndarray] = []
    for codes, factor, known in zip(rows.codes, design.factors, rows.labels, strict=True):
        written = np.asarray(factor.levels, dtype=object)[np.maximum(codes, 0)]
        labels.append(known if len(known) else written)
    return rows._replace(codes=[np.full(len(rows.X), -1) for _ in rows.codes], labels=labels)


def with_new_structures(design: Design, draws: JointDraws, rng: np.random.Generator) -> JointDraws:
    """The draws with levels that have a structure drawn anew, z ~ N(0, sd² Q⁻¹)."""
    if not design.structured:
        return draws
    beta = draws.beta.copy()
    for part in design.structured:
        root = np.linalg.cholesky(np.linalg.inv(part.Q))
        noise = rng.standard_normal((len(draws), len(part.levels))) @ root.T
        beta[:, part.places] = draws.values[f"sd[{part.label}]"][:, None] * noise
    return replace(draws, beta=beta)


def given_at(draws: JointDraws, trials: np.ndarray | None) -> Given:
    """What a density needs besides η (n, m): the rows' trials, and the draws' dispersions."""
    own: dict[str, Any] = {name: part[:, None] for name, part in draws.noise.items()}
    return own if trials is None else {**own, "trials": trials}


def replicated(
    design: Design, draws: JointDraws, rows: NewRows, rng: np.random.Generator
) -> np.ndarray:
    """One response of m rows for every draw, (n, m)."""
    result = np.empty((len(draws), len(rows.X)))
    for here, lot, eta in predictors(design, draws, rows, rng):
        given = given_at(draws, lot.trials)
        result[:, here] = drawn_at(design.family, eta, given, rng)
    return result


def drawn_at(
    family: Likelihood, eta: np.ndarray, given: Given, rng: np.random.Generator
) -> np.ndarray:
    """One response for each η (n, m); a likelihood is asked for one long line of them."""
    long = {name: np.broadcast_to(part, eta.shape).ravel() for name, part in given.items()}
    return family.draw(rng, eta.ravel(), long).reshape(eta.shape)


def residuals(
    design: Design, draws: JointDraws, rows: NewRows, kind: str, rng: np.random.Generator
) -> pd.Series:
    """How far the fitted rows are from what the model expects of them, by `kind`."""
    family, y = design.family, design.y
    found = np.empty(len(y))
    for here, lot, eta in predictors(design, draws, rows, rng):
        given, own = given_at(draws, lot.trials), y[here]
        if kind == "quantile":
            upper = family.cdf(own, eta, given).mean(0)
            lower = family.cdf(own - 1, eta, given).mean(0) if family.discrete else upper
            share = lower + rng.random(len(own)) * (upper - lower)
            tiny = 0.5 / (len(draws) + 1)  # what so many draws can tell from 0 and 1
            found[here] = ndtri(np.clip(share, min(tiny, 1e-10), 1 - min(tiny, 1e-10)))
            continue
        mean = family.mean(eta, given)
        found[here] = own - mean.mean(0)
        if kind == "pearson":
            found[here] /= np.sqrt(family.variance(eta, given).mean(0))
    return pd.Series(found, index=design.rows, name=f"{kind} residual")


def check_residuals(kind: Any) -> str:
    """A kind of residuals."""
    if not isinstance(kind, str) or kind not in RESIDUALS:
        raise InvalidModel(f"kind={kind!r} must be one of {', '.join(map(repr, RESIDUALS))}.")
    return kind
