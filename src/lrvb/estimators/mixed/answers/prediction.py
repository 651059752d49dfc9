"""Predictions: the expected response and new observations, with everything that is uncertain in them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ....engine.response import Response
from ....errors import InvalidData, InvalidModel, NewLevels
from ....likelihoods import IDENTITY, Given, Likelihood, Link
from ....posterior.intervals import check_probability
from ..design.columns import SHOWN
from ..design.design import Design, NewRows
from ..design.standardised import Standardisation
from ..fit.arrangement import Arrangement
from ..fit.joint_response import JointResponse
from ..fit.precision_model import RESIDUAL
from .predictor import Predictor, of_fitted_rows, of_new_rows
from .standard_deviations import inverse_mean

KINDS = ("mean", "response", "probability")
SCALES = ("response", "link")
LINK = "link"  # as a kind of its own: the mean of η
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


class Shares(NamedTuple):
    """The probability of every category, (n, K), by its label."""

    values: np.ndarray
    categories: tuple[str, ...]

    def table(self, rows: pd.Index) -> pd.DataFrame:
        """One row for each row of the data, one column for each category."""
        return pd.DataFrame(self.values, index=rows, columns=list(self.categories))


def check_request(interval: Any, kind: Any, scale: Any, family: Likelihood) -> None:
    """The arguments of `predict`."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidModel(f"kind={kind!r} must be 'mean' or 'response'.")
    if kind == "probability":
        if not family.categorical:
            raise InvalidModel(
                f"kind='probability' is for ordered categories, not for family='{family.name}'; of a "
                "binary response kind='mean' is the probability."
            )
        if interval is not None or scale == "link":
            raise InvalidModel("kind='probability' has neither interval nor scale; leave them out.")
    if not isinstance(scale, str) or scale not in SCALES:
        raise InvalidModel(f"scale={scale!r} must be 'response' or 'link'.")
    if scale == "link" and kind == "response":
        raise InvalidModel(
            "A new observation has no scale but its own: ask for kind='mean' on the link's."
        )
    if interval is not None:
        check_probability("interval", interval)


class LeftOut(NamedTuple):
    """Random effects that an answer does without: of each term (q,), and columns (p,) of X."""

    effects: list[np.ndarray]
    columns: np.ndarray

    @property
    def some(self) -> bool:
        """Whether there are any."""
        return bool(self.columns.any()) or any(part.any() for part in self.effects)

    def of(self, rows: NewRows) -> NewRows:
        """Rows without them: a column of zeros has neither an effect nor a variance."""
        R = [np.where(gone, 0.0, part) for part, gone in zip(rows.R, self.effects, strict=True)]
        return rows._replace(R=R, X=np.where(self.columns, 0.0, rows.X))

    def kept(self, design: Design) -> set[int]:
        """The factors of which something is kept."""
        pairs = zip(design.terms, self.effects, strict=True)
        found = {term.factor for term, gone in pairs if not gone.all()}
        kept = [part for part in design.structured if not self.columns[part.places].all()]
        return found | {design.place(part.group) for part in kept}

    def spare(self, design: Design) -> set[int]:
        """The factors of which nothing is kept, so that rows need not name their levels."""
        return set(range(len(design.factors))) - self.kept(design)


def left_out(design: Design, groups: Any) -> LeftOut:
    """What `groups` leaves out: "all", "none", or the effects to keep."""
    names = [[f"{c}|{term.group}" for c in term.coefficients] for term in design.terms]
    known = {effect for effects in names for effect in effects}
    known |= {part.label for part in design.structured}
    asked = [groups] if isinstance(groups, str) else groups
    if isinstance(groups, str) and groups in ("all", "none"):
        asked = sorted(known) if groups == "all" else []
    if not isinstance(asked, Iterable) or not set(map(str, asked := list(asked))) <= known:
        wrong = (
            next((g for g in asked if g not in known), groups) if asked is not groups else groups
        )
        raise InvalidModel(
            f"groups={wrong!r} must be 'all', 'none', or some of the random effects: "
            f"{', '.join(sorted(known))}."
        )
    columns = np.zeros(len(design.names), dtype=bool)
    for part in design.structured:
        columns[part.places] = part.label not in asked
    return LeftOut([np.array([e not in asked for e in effects]) for effects in names], columns)


def predict_rows(
    model: Any,
    design: Design,
    new_data: Any,
    interval: float | None,
    kind: str,
    out: LeftOut,
) -> pd.DataFrame:
    """See `MixedModel.predict`; `model` has been fitted. `out` are the effects to leave out."""

    def given_by(trials: np.ndarray | None) -> Given:
        said = design.formula.trials
        if kind == "response" and said is not None and trials is None:
            raise InvalidData(
                f"A new observation of a binomial response needs its number of trials: add '{said}' "
                "to new_data, or ask for kind='mean', a probability.",
                column=said,
            )
        return {} if trials is None else {"trials": trials}

    if new_data is None and not out.some:
        found = model._answers.fitted(given_by(design.trials), interval, kind)
        return found.table(design.rows)
    new = fitted_rows(design) if new_data is None else design.apply(new_data, out.spare(design))
    new = out.of(new)
    tell_of_new_levels(design, new, out.kept(design))
    parts = []
    for start in range(0, len(new.X), CHUNK):
        rows = _slice(new, slice(start, start + CHUNK))
        parts.append(
            model._answers.of(rows, given_by(rows.trials), interval, kind).table(rows.rows)
        )
    return pd.concat(parts)


class Answers(Protocol):
    """How a fitted model predicts."""

    def fitted(self, given: Given, interval: float | None, kind: str) -> Answer | Shares:
        """The rows of the fit."""

    def of(self, rows: NewRows, given: Given, interval: float | None, kind: str) -> Answer | Shares:
        """Other rows."""


class VariationalAnswers(NamedTuple):
    """Predictions from a normal linear predictor."""

    design: Design
    standard: Standardisation
    arrangement: Arrangement
    joint: JointResponse

    def fitted(self, given: Given, interval: float | None, kind: str) -> Answer:
        """The rows of the fit."""
        return self._answer(of_fitted_rows(*self), given, interval, kind)

    def of(self, rows: NewRows, given: Given, interval: float | None, kind: str) -> Answer:
        """Other rows."""
        return self._answer(of_new_rows(*self, rows), given, interval, kind)

    def _answer(
        self, predictor: Predictor, given: Given, interval: float | None, kind: str
    ) -> Answer:
        return answer(self.design.family, predictor, self.joint.precisions, given, interval, kind)


def fitted_rows(design: Design) -> NewRows:
    """The rows of the fit, as new ones."""
    return NewRows(
        X=design.X,
        offset=design.offset,
        R=[term.R for term in design.terms],
        codes=[factor.codes for factor in design.factors],
        labels=[np.zeros(0, dtype=object) for _ in design.factors],
        trials=design.trials,
        rows=design.rows,
    )


def tell_of_new_levels(design: Design, new: NewRows, kept: set[int]) -> None:
    """Warn of groups that the fit has not seen, whose effect is unknown: (1|obs) is always so."""
    for f, (factor, codes) in enumerate(zip(design.factors, new.codes, strict=True)):
        unseen = np.flatnonzero(codes < 0)
        if f == design.observation or f not in kept or not len(unseen):
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
    family: Likelihood,
    predictor: Predictor,
    response: Response,
    given: Given,
    interval: float | None,
    kind: str,
) -> Answer:
    """The prediction of rows whose linear predictor is known."""
    with np.errstate(all="ignore"):  # what is beyond all numbers is infinite
        if kind == LINK or (kind == "mean" and family.link is IDENTITY):
            return _expected(IDENTITY, predictor, interval)
        noise = _noise(family, response)
        if kind == "response":
            return _observed(family, predictor, {**given, **noise}, interval)
        moved = predictor._replace(mean=family.mean_on_link(predictor.mean, noise))
        return _expected(family.link, moved, interval)


def _expected(link: Link, p: Predictor, interval: float | None) -> Answer:
    """E[y | covariates, groups], averaged over η; the interval is that of η, through the link."""
    mean, sd = link.moments(p.mean, p.variance, p.own)
    if interval is None:
        return Answer(mean, sd)
    z = float(ndtri(0.5 + interval / 2))
    root = np.sqrt(p.variance)
    ends = (link.averaged(p.mean + side * z * root, p.own) for side in (-1, 1))
    return Answer(mean, sd, *ends)


def _observed(family: Likelihood, p: Predictor, given: Given, interval: float | None) -> Answer:
    """A new observation, averaged over η and over the row's own effect."""
    total = p.variance + p.own
    mean, variance = family.averaged(p.mean, total, given)
    if interval is None:
        return Answer(mean, np.sqrt(variance))
    lower, upper = (
        family.averaged_quantile(p.mean, total, end, given)
        for end in ((1 - interval) / 2, (1 + interval) / 2)
    )
    return Answer(mean, np.sqrt(variance), lower, upper)


def _noise(family: Likelihood, response: Response) -> dict[str, float]:
    """The dispersion of the rows: a residual of variance E[1/τ]."""
    if not family.quadratic:
        return {}
    noise = float(inverse_mean(response, RESIDUAL)[0, 0])
    if not np.isfinite(noise):
        raise InvalidModel(
            "The residual variance has no finite expectation: there are too few rows. Give 'residual' "
            "a prior with a larger shape.",
            term="residual",
        )
    return {dispersion.name: np.sqrt(noise) for dispersion in family.dispersions}
