"""The response: what each family accepts, and the sentence for what it does not."""

from __future__ import annotations

import numpy as np

from ....errors import InvalidData, InvalidModel
from ..text.formula import Formula
from .columns import Table, close_to, is_text
from .model_matrix import build_number, named_columns

FAMILIES = ("gaussian", "poisson", "bernoulli", "binomial")


def check_family(family: str) -> None:
    """Whether a family is known."""
    if family not in FAMILIES:
        raise InvalidModel(f"family={family!r} is not known; {close_to(str(family), FAMILIES)}")


def read_response(
    formula: Formula, table: Table, family: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """The response (N,) and, for binomial, the trials (N,); bad values are errors that name the row."""
    name = formula.response
    _refuse_labels(name, table, family)
    y = build_number(name, table)[0]
    if table.n == 1:
        raise InvalidData(
            "The data have one row; a mixed model needs at least two to tell effects from noise.",
            value=1,
        )
    if family == "binomial":
        return y, _binomial(formula, y, table)
    if formula.trials is not None:
        raise InvalidModel(
            f"The response prop({name}, {formula.trials}) is for family='binomial', "
            f"not for family='{family}'."
        )
    if family == "poisson":
        _counts(name, y, table)
    elif family == "bernoulli":
        _zero_or_one(
            name, y, table, 'write prop(successes, trials) with family="binomial" for counts'
        )
    elif np.ptp(y) == 0:
        raise InvalidData(
            f"The response '{name}' is {y[0]:g} in every row, so that nothing is left to explain; "
            "choose a response that varies.",
            column=name,
            value=float(y[0]),
        )
    return y, None


def read_trials(formula: Formula, table: Table) -> np.ndarray:
    """The trials of prop(successes, trials): whole numbers from 1."""
    assert formula.trials is not None
    trials = build_number(formula.trials, table)[0]
    _counts(formula.trials, trials, table, "trials")
    if (trials < 1).any():
        row = int(np.argmax(trials < 1))
        raise table.error(
            formula.trials, row, trials[row], "is no number of trials, 1 or more", "Drop the row"
        )
    return trials


def _refuse_labels(name: str, table: Table, family: str) -> None:
    """Labels as a response, with the way to make numbers of two of them."""
    columns = named_columns(name, list(table.frame.columns), own=table.functions)
    if name not in columns or not is_text(table.frame[name]):
        return
    column = table.frame[name]
    labels = sorted(map(str, column.unique()))
    remedy = "Convert the column to numbers"
    if family in ("bernoulli", "binomial") and len(labels) == 2:
        remedy = f"Make it 0 and 1, with a column such as data['{name}'] == '{labels[1]}'"
    raise table.error(name, 0, column.iloc[0], "is text, but the response must be a number", remedy)


def _counts(name: str, y: np.ndarray, table: Table, what: str = "counts") -> None:
    """Whole numbers from 0."""
    problems = {
        "is negative": y < 0,
        "is not a whole number": y != np.floor(y),
        "is too large to be an exact count": y > 2**53,
    }
    for problem, bad in problems.items():
        if bad.any():
            row = int(np.argmax(bad))
            raise table.error(
                name,
                row,
                y[row],
                f"{problem}, but {what} must be whole numbers from 0",
                "Correct the value or drop the row",
            )


def _zero_or_one(name: str, y: np.ndarray, table: Table, otherwise: str) -> None:
    bad = (y != 0) & (y != 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise table.error(
            name, row, y[row], "is neither 0 nor 1", f"Recode the column as 0 and 1, or {otherwise}"
        )


def _binomial(formula: Formula, y: np.ndarray, table: Table) -> np.ndarray:
    """The trials of each row; a plain response is 0 or 1 with one trial each."""
    name = formula.response
    if formula.trials is None:
        _zero_or_one(name, y, table, "write the response as prop(successes, trials)")
        return np.ones_like(y)
    _counts(name, y, table, "successes")
    trials = read_trials(formula, table)
    if (y > trials).any():
        row = int(np.argmax(y > trials))
        raise table.error(
            name,
            row,
            y[row],
            f"is more than the {trials[row]:g} trials in '{formula.trials}'",
            "Correct one of the two, or drop the row",
        )
    return trials
