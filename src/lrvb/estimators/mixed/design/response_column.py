"""The response column, and the trials beside it, as numbers that its likelihood accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ....errors import InvalidData, InvalidModel
from ....likelihoods import Likelihood
from ....likelihoods.base import require_counts
from ....likelihoods.values import AtHand
from ..text.formula import Formula
from .columns import Table, is_text
from .model_matrix import build_number, check_size, named_columns
from .slips import refuse_dates, refuse_slips


def read_response(
    formula: Formula,
    table: Table,
    family: Likelihood,
    few: bool = False,
    labels: list[Any] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The response (N,) and its trials (N,), where the family has any; bad values name the row.

    `few` rows are some of many: one is enough, and what all values must be is not asked of them; `labels`
    are those of all, where numbers stand for any.
    """
    name = formula.response
    labels = labels or response_labels(name, table.frame, family)
    if labels is None:
        _refuse_labels(name, table, family)
        y = build_number(name, table)[0]
    else:
        y = family.encode(name, np.asarray(table.frame[name]), labels)
    check_size(name, y, table)
    if table.n == 1 and not few:
        raise InvalidData(
            "The data have one row; a mixed model needs at least two to tell effects from noise.",
            value=1,
        )
    has_trials = "trials" in family.extras
    if formula.trials is None:
        family.check(y, {}, {"response": name}, table.error)
        if not few:
            family.check_all(AtHand(y), name, labels)
        return y, np.ones_like(y) if has_trials else None
    if not has_trials:
        raise InvalidModel(
            f"The response {formula.text.partition('~')[0].strip()} is for family='binomial', "
            f"not for family='{family.name}'."
        )
    failures = formula.trials.removeprefix(f"{name} + ")
    if failures != formula.trials:
        require_counts(failures, build_number(failures, table)[0], table.error, "failures")
    trials = read_trials(formula, table)
    names = {"response": name, "trials": formula.trials}
    family.check(y, {"trials": trials}, names, table.error)
    return y, trials


def read_trials(formula: Formula, table: Table) -> np.ndarray:
    """The trials of prop(successes, trials): whole numbers from 1."""
    assert formula.trials is not None
    trials = build_number(formula.trials, table)[0]
    require_counts(formula.trials, trials, table.error, "trials")
    if (trials < 1).any():
        row = int(np.argmax(trials < 1))
        raise table.error(
            formula.trials, row, trials[row], "is no number of trials, 1 or more", "Drop the row"
        )
    return trials


def read_categories(
    formula: Formula, frame: pd.DataFrame, family: Likelihood, highest: float
) -> tuple[str, ...]:
    """The labels of an ordinal response's categories, from the lowest; none of another response."""
    if not family.categorical:
        return ()
    labels = response_labels(formula.response, frame, family)
    return tuple(map(str, labels or range(1, int(highest) + 1)))


def response_labels(name: str, frame: pd.DataFrame, family: Likelihood) -> list[Any] | None:
    """The labels of a response's numbers 1, 2, …, where the family has an order for them."""
    if name not in frame:
        return None
    column = frame[name]
    ordered = isinstance(column.dtype, pd.CategoricalDtype) and bool(column.cat.ordered)
    return family.labels(list(column.cat.categories) if ordered else None)


def _refuse_labels(name: str, table: Table, family: Likelihood) -> None:
    """Labels as a response, with the way to make numbers of them."""
    columns = named_columns(name, list(table.frame.columns), own=table.functions)
    if name not in columns or not is_text(table.frame[name]):
        return
    refuse_dates(name, table)
    refuse_slips(name, table)
    column = table.frame[name]
    remedy = family.label_remedy(name, sorted(map(str, column.unique())))
    raise table.error(name, 0, column.iloc[0], "is text, but the response must be a number", remedy)
