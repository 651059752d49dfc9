"""Predictions: the expected response and new observations, with everything that is uncertain in them."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit, ndtri

from ....collapsed.gaussian.row_terms import hermite
from ....engine.response import Response
from ....errors import InvalidData, InvalidModel, NewLevels
from ....posterior.intervals import check_probability
from ..design.columns import SHOWN
from ..design.design import Design, NewRows
from ..fit.precision_model import RESIDUAL
from .counts import BinomialCounts, Counts, PoissonCounts, count_quantile
from .predictor import Predictor, of_fitted_rows, of_new_rows
from .standard_deviations import inverse_mean

KINDS = ("mean", "response")
CHUNK = 2**16  # rows at a time


class Answer(NamedTuple):
    """mean and sd (n,), and where an interval was asked for its ends."""

    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None

    def table(self, rows: pd.Index) -> pd.DataFrame:
        """One row for each row of the data."""
        columns = {name: part for name, part in self._asdict().items() if part is not None}
        return pd.DataFrame(columns, index=rows)


def check_request(interval: Any, kind: Any) -> None:
    """The arguments of `predict`."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidModel(f"kind={kind!r} must be 'mean' or 'response'.")
    if interval is not None:
        check_probability("interval", interval)


def predict_rows(
    model: Any, design: Design, new_data: Any, interval: float | None, kind: str
) -> pd.DataFrame:
    """See `MixedModel.predict`; `model` has been fitted."""
    where, work, joined = model._where, model._work, model._joined

    def table(predictor: Predictor, trials: np.ndarray | None, rows: pd.Index) -> pd.DataFrame:
        if kind == "response" and design.family == "binomial" and trials is None:
            said = design.formula.trials
            raise InvalidData(
                f"A new observation of a binomial response needs its number of trials: add '{said}' "
                "to new_data, or ask for kind='mean', a probability.",
                column=said,
            )
        trials = np.ones(len(rows)) if trials is None else trials
        found = answer(design.family, predictor, joined.inner, trials, interval, kind)
        return found.table(rows)

    if new_data is None:
        predictor = of_fitted_rows(design, where, work, joined, model._effects)
        return table(predictor, design.trials, design.rows)
    new = design.apply(new_data)
    _tell_of_new_levels(design, new)
    parts = []
    for start in range(0, len(new.X), CHUNK):
        rows = _slice(new, slice(start, start + CHUNK))
        predictor = of_new_rows(design, where, work, joined, rows)
        parts.append(table(predictor, rows.trials, rows.rows))
    return pd.concat(parts)


def _tell_of_new_levels(design: Design, new: NewRows) -> None:
    """Warn of groups that the fit has not seen, whose effect is unknown: (1|obs) is always so."""
    for f, (factor, codes) in enumerate(zip(design.factors, new.codes, strict=True)):
        unseen = np.flatnonzero(codes < 0)
        if f == design.observation or not len(unseen):
            continue
        levels = list(dict.fromkeys(map(str, new.labels[f][unseen])))
        shown = ", ".join(f"'{level}'" for level in levels[:SHOWN])
        more = ", …" if len(levels) > SHOWN else ""
        count = "1 level" if len(levels) == 1 else f"{len(levels)} levels"
        warnings.warn(
            NewLevels(
                f"{len(unseen)} of {len(codes)} rows belong to {count} of '{factor.name}' that the "
                f"fit has not seen ({shown}{more}); their effect has mean 0 and the variance of its "
                "term. Levels of the fit are written as "
                + ", ".join(f"'{level}'" for level in factor.levels[:3])
                + ("." if len(factor.levels) <= 3 else ", …."),
                group=factor.name,
                levels=levels,
                rows=len(unseen),
            ),
            stacklevel=4,
        )


def _slice(new: NewRows, here: slice) -> NewRows:
    """Some of the new rows."""
    return NewRows(
        X=new.X[here],
        offset=None if new.offset is None else new.offset[here],
        R=[R[here] for R in new.R],
        codes=[codes[here] for codes in new.codes],
        labels=[labels[here] for labels in new.labels],
        trials=None if new.trials is None else new.trials[here],
        rows=new.rows[here],
    )


def answer(
    family: str,
    predictor: Predictor,
    response: Response,
    trials: np.ndarray,
    interval: float | None,
    kind: str,
) -> Answer:
    """The prediction of rows whose linear predictor is known; trials are 1 unless binomial."""
    with np.errstate(all="ignore"):  # what is beyond all numbers is infinite
        if kind == "mean":
            return _expected(family, predictor, interval)
        if family == "gaussian":
            return _gaussian(predictor, response, interval)
        return _counted(family, predictor, trials, interval)


def _expected(family: str, p: Predictor, interval: float | None) -> Answer:
    """E[y | covariates, groups], averaged over η; the interval is that of η, through the link."""
    root = np.sqrt(p.variance)
    z = 0.0 if interval is None else float(ndtri(0.5 + interval / 2))
    ends = [p.mean - z * root, p.mean + z * root]
    if family == "gaussian":
        mean, sd = p.mean, root
    elif family == "poisson":
        mean = np.exp(p.mean + (p.variance + p.own) / 2)
        sd = mean * np.sqrt(np.expm1(p.variance))
        ends = [np.exp(end + p.own / 2) for end in ends]
    else:
        mean, square = _logistic_moments(p.mean, root, p.own)
        sd = np.sqrt(np.maximum(square - mean**2, 0.0))
        ends = [_curve(end, p.own) for end in ends]
    return Answer(mean, sd) if interval is None else Answer(mean, sd, *ends)


def _gaussian(p: Predictor, response: Response, interval: float | None) -> Answer:
    """η plus a residual of variance E[1/τ]."""
    noise = float(inverse_mean(response, RESIDUAL)[0, 0])
    if not np.isfinite(noise):
        raise InvalidModel(
            "The residual variance has no finite expectation: there are too few rows. Give 'residual' "
            "a prior with a larger shape.",
            term="residual",
        )
    sd = np.sqrt(p.variance + noise)
    if interval is None:
        return Answer(p.mean, sd)
    z = float(ndtri(0.5 + interval / 2))
    return Answer(p.mean, sd, p.mean - z * sd, p.mean + z * sd)


def _counted(family: str, p: Predictor, trials: np.ndarray, interval: float | None) -> Answer:
    """A Poisson or binomial count averaged over η and over the row's own effect."""
    total = p.variance + p.own
    counts: Counts
    if family == "poisson":
        counts, mean = PoissonCounts(), np.exp(p.mean + total / 2)
        variance = mean + mean**2 * np.expm1(total)
    else:
        counts = BinomialCounts(trials)
        share, square = _logistic_moments(p.mean, np.sqrt(total), np.zeros_like(total))
        mean = trials * share
        variance = trials * (share - square) + trials**2 * np.maximum(square - share**2, 0.0)
    if interval is None:
        return Answer(mean, np.sqrt(variance))
    lower, upper = (
        count_quantile(counts, p.mean, total, end)
        for end in ((1 - interval) / 2, (1 + interval) / 2)
    )
    return Answer(mean, np.sqrt(variance), lower, upper)


def _logistic_moments(
    eta: np.ndarray, root: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """E and E of the square of the logistic curve over η ~ N(eta, root²), `own` averaged inside."""
    first, second = np.zeros_like(eta), np.zeros_like(eta)
    for x, weight in zip(*hermite(root.max(initial=0.0)), strict=True):
        value = _curve(eta + root * x, own)
        first += weight * value
        second += weight * value**2
    return first, second


def _curve(eta: np.ndarray, own: np.ndarray) -> np.ndarray:
    """E σ(η + e) for e ~ N(0, own)."""
    if not own.any():
        return expit(eta)
    root, total = np.sqrt(own), np.zeros_like(eta)
    for x, weight in zip(*hermite(root.max()), strict=True):
        total += weight * expit(eta + root * x)
    return total
