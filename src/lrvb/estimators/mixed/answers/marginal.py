"""Marginal effects: predictions, comparisons and slopes on the response's scale, from joint draws.

Of every draw the expected response of rows as they are, or with one column changed; averaged over
rows where asked, and only then summarised over the draws.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....errors import InvalidData, InvalidModel
from ....likelihoods import Given
from ..design.columns import close_to, column_names, is_text, read_table
from ..design.design import FILL_THEM, Design, NewRows
from ..design.weights import written_out
from ..text.formula import Formula
from ..text.scanning import words
from .joint import JointDraws, predictors
from .prediction import LeftOut, fitted_rows
from .simulated import given_at

COMPARISONS = ("difference", "ratio", "lnratio", "lift")
SHORT = ("sd", "2sd", "iqr", "minmax")
OF_LEVELS = ("reference", "pairwise", "sequential")
AS_LABELS = re.compile(r"(?<![\w.])(?:factor|C)\s*\(\s*\w+")
QUOTED = re.compile(r"`[^`]*`")
STEP = 1e-4  # of a column's range, over which a slope is a difference


class Asked(NamedTuple):
    """What all three questions share: groups left out, the scale, draws, their seed, probability."""

    out: LeftOut
    scale: str
    draws: JointDraws
    seed: int
    prob: float
    error: float


class Contrast(NamedTuple):
    """One comparison: its name, a column's values before and after, and what divides the difference."""

    term: str
    label: str
    low: Any
    high: Any
    per: float = 1.0


class Source:
    """The rows that are asked about, as a table whose columns can be changed.

    `reference` has the rows of the fit, where they are kept, for a column's range and its levels.
    """

    def __init__(self, design: Design, data: Any, more: list[str], out: LeftOut):
        self.design, self.spare = design, out.spare(design)
        if data is None:
            if not len(design.frame.columns):
                _ = design.X[0]  # rows that are elsewhere say so
            self.frame, self.rows = design.frame, design.rows
            known = [str(name) for name in self.frame.columns]
        else:
            known = column_names(data)
        for name in more:
            if name not in known:
                where = (
                    "the columns of the formula; give new_data=… the table that has it: "
                    if data is None
                    else "new_data: "
                )
                raise InvalidData(
                    f"There is no column '{name}' in {where}{close_to(name, known)}", column=name
                )
        if data is not None:
            table = read_table(data, [*design.needed(known, self.spare), *more], remedy=FILL_THEM)
            self.frame, self.rows = table.frame, table.rows
        self.reference = design.frame if len(design.frame.columns) else self.frame
        own = None if data is not None else design.weights
        #: how often each row counts in an average, (m,)
        self.counts = np.ones(len(self.frame)) if own is None else own
        if design.weights is not None and self.reference is design.frame:
            self.reference = design.frame.iloc[written_out(design.weights)]

    def applied(self, column: str | None = None, values: Any = None) -> NewRows:
        """The design of the rows, with one column replaced."""
        frame = self.frame
        if column is not None:
            frame = frame.copy(deep=False)
            frame[column] = _like(frame[column], values)
        return self.design.apply(frame, self.spare)._replace(rows=self.rows)


def _like(column: pd.Series, values: Any) -> Any:
    """Values in the column's own kind."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        filled = np.full(len(column), values, dtype=object) if np.ndim(values) == 0 else values
        return pd.Categorical(filled, dtype=column.dtype)
    return values


def expected(design: Design, asked: Asked, rows: NewRows) -> Iterator[tuple[slice, np.ndarray]]:
    """The expected response (or η) of rows at every draw, some rows at a time, (n, m).

    An effect of a new row, as of (1|obs), is noise: it is averaged within the mean and not drawn.
    """
    draws, family, rng = asked.draws, design.family, np.random.default_rng(asked.seed)
    rows = asked.out.of(rows)
    R = list(rows.R)
    own = np.zeros((1, len(rows.X)))
    for t, term in enumerate(design.terms):
        if term.factor == design.observation and asked.scale == "response":
            new = rows.codes[term.factor] < 0
            own = draws.covariances[t][:, 0] * np.where(new, R[t][:, 0], 0.0) ** 2
            R[t] = np.where(new[:, None], 0.0, R[t])
    given = given_at(draws, None)
    for here, _, eta in predictors(design, draws, rows._replace(R=R), rng):
        if asked.scale == "link":
            yield here, eta
        elif own[:, here].any():
            yield here, family.mean_moments(eta, np.zeros_like(eta), own[:, here], given)[0]
        else:
            yield here, mean_response(design, eta, given)


def mean_response(design: Design, eta: np.ndarray, given: Given) -> np.ndarray:
    """The expected response at η; of a binomial one the probability."""
    family = design.family
    return family.link.inverse(family.mean_on_link(eta, given))


# ---- the three questions --------------------------------------------------------------------


def predictions(design: Design, asked: Asked, data: Any, by: Any) -> pd.DataFrame:
    """See `MixedModel.predictions`."""
    columns = _by(by)
    source = Source(design, data, columns, asked.out)
    rows = source.applied() if data is not None else fitted_rows(design)
    groups = Groups(source, by, columns, asked.prob)
    for here, mean in expected(design, asked, rows):
        groups.add(here, mean)
    return groups.table({}, asked)


def comparisons(
    design: Design,
    asked: Asked,
    variables: Any,
    how: str,
    data: Any,
    by: Any,
    slopes: bool = False,
) -> pd.DataFrame:
    """See `MixedModel.comparisons` and `MixedModel.slopes`."""
    if not isinstance(how, str) or how not in COMPARISONS:
        raise InvalidModel(
            f"comparison={how!r} must be one of {', '.join(map(repr, COMPARISONS))}."
        )
    known = [str(n) for n in design.frame.columns] or ([] if data is None else column_names(data))
    wanted, columns = _variables(design, variables, known), _by(by)
    source = Source(design, data, [*wanted, *columns], asked.out)
    parts = []
    for name, values in wanted.items():
        for contrast in contrasts(source, name, values, slopes):
            low, high = (source.applied(name, v) for v in (contrast.low, contrast.high))
            found = [Groups(source, by, columns, asked.prob) for _ in range(3)]
            for (here, a), (_, b) in zip(
                expected(design, asked, low), expected(design, asked, high), strict=True
            ):
                if by is None:
                    found[0].add(here, _compared(a, b, how) / contrast.per)
                else:
                    found[1].add(here, a)
                    found[2].add(here, b)
            averages = None
            if by is not None:  # of averages, not the average of every row's ratio
                averages = _compared(found[1].averages, found[2].averages, how) / contrast.per
            label = contrast.label
            if how != "difference":
                label = label.replace(" - ", " / ")
            named = {"term": name, "contrast": label}
            parts.append(found[0].table(named, asked, averages))
    result = pd.concat(parts) if by is None else pd.concat(parts, ignore_index=True)
    result.attrs = parts[0].attrs
    return result


def _compared(a: np.ndarray, b: np.ndarray, how: str) -> np.ndarray:
    if how == "difference":
        return b - a
    with np.errstate(divide="ignore", invalid="ignore"):
        if how == "ratio":
            return b / a
        return np.log(b / a) if how == "lnratio" else (b - a) / a


# ---- averages over rows, draw by draw --------------------------------------------------------


class Groups:
    """Rows one by one (by=None), all together (by=True), or by the values of columns.

    Of rows one by one nothing but their summaries is kept.
    """

    def __init__(self, source: Source, by: Any, columns: list[str], prob: float):
        self.rows, self.one_by_one, self.columns = source.rows, by is None, columns
        self.ends = np.array([0.5 - prob / 2, 0.5 + prob / 2])
        self.tables: list[pd.DataFrame] = []
        self.counts = source.counts
        self.code, self.keys = np.zeros(len(source.frame), dtype=int), [()]
        if columns:
            grouped = source.frame.groupby(columns, sort=True, observed=True)
            self.code = grouped.ngroup().to_numpy()
            first = np.unique(self.code, return_index=True)[1]
            self.keys = [tuple(source.frame[name].iloc[i] for name in columns) for i in first]
        self.count = np.bincount(self.code, self.counts, minlength=len(self.keys))
        self.sums: np.ndarray | None = None

    def add(self, here: slice, values: np.ndarray) -> None:
        """Values (n, m) of some of the rows."""
        if self.one_by_one:
            self.tables.append(_summaries(values, self.ends))
            return
        code = self.code[here]
        if self.sums is None:
            self.sums = np.zeros((len(values), len(self.keys)))
        for k in np.unique(code):
            self.sums[:, k] += values[:, code == k] @ self.counts[here][code == k]

    @property
    def averages(self) -> np.ndarray:
        """Of every group at every draw, (n, groups)."""
        assert self.sums is not None
        return self.sums / self.count

    def table(
        self, named: Mapping[str, str], asked: Asked, averages: np.ndarray | None = None
    ) -> pd.DataFrame:
        """`mean, sd, lower, upper` beside the columns that say of what."""
        if self.one_by_one:
            found = pd.concat(self.tables, ignore_index=True)
        else:
            found = _summaries(self.averages if averages is None else averages, self.ends)
        for at, name in enumerate(self.columns):
            found.insert(at, name, [key[at] for key in self.keys])
        for at, (name, value) in enumerate(named.items()):
            found.insert(at, name, value)
        if self.one_by_one:
            found.index = self.rows
        found.attrs = {"draws": len(asked.draws), "mcse": asked.error}
        return found


def _summaries(values: np.ndarray, ends: np.ndarray) -> pd.DataFrame:
    """Of m quantities from their draws (n, m)."""
    lower, upper = np.quantile(values, ends, axis=0)
    return pd.DataFrame(
        {"mean": values.mean(0), "sd": values.std(0), "lower": lower, "upper": upper}
    )


def _by(by: Any) -> list[str]:
    """The columns that `by` names."""
    if by is None or by is True:
        return []
    names = [by] if isinstance(by, str) else by
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidModel(
            f"by={by!r} must be None (every row), True (all rows together), or names of columns."
        )
    return list(dict.fromkeys(names))


# ---- which values are compared ---------------------------------------------------------------


def _variables(design: Design, variables: Any, columns: list[str]) -> dict[str, Any]:
    """Names of columns with what to compare of each, None for the default."""
    known = design.needed(columns) if columns else []
    if isinstance(variables, str):
        variables = {variables: None}
    elif not isinstance(variables, Mapping):
        try:
            variables = dict.fromkeys(variables)
        except TypeError:
            raise InvalidModel(
                f"variables={variables!r} must be a column's name, a list of names, or a mapping from "
                "names to what to compare, such as {'x': 2, 'arm': 'pairwise'}."
            ) from None
    if not variables:
        raise InvalidModel("variables is empty; name the column whose effect is asked for.")
    for name in variables:
        if name not in known and columns:
            raise InvalidData(
                f"The formula '{design.formula.text}' has no column '{name}'; {close_to(str(name), known)}",
                column=str(name),
            )
    return dict(variables)


def contrasts(source: Source, name: str, asked: Any, slopes: bool) -> list[Contrast]:
    """The comparisons of one column: of numbers a step, of labels the levels."""
    column, own = source.frame[name], source.reference[name]
    labels = is_text(column) or isinstance(column.dtype, pd.CategoricalDtype)
    if labels or column.dtype == bool or name not in _numbers(source.design.formula):
        return _of_levels(own, name, asked)
    values = column.to_numpy(dtype=float)
    if slopes:
        spread = float(np.ptp(own.to_numpy(dtype=float))) or 1.0
        h = STEP * spread
        return [Contrast(name, "dY/dX", values - h / 2, values + h / 2, h)]
    if asked is None:
        seen = np.unique(own.to_numpy(dtype=float))
        asked = (0.0, 1.0) if np.array_equal(seen, [0.0, 1.0]) else 1
    return [_of_number(own.to_numpy(dtype=float), values, name, asked)]


def _numbers(formula: Formula) -> set[str]:
    """Names that the formula computes with; a number that it only groups by is a label."""
    texts = [formula.fixed, *formula.offsets, *(bar.lhs for bar in formula.bars)]
    texts += [smooth.argument for smooth in formula.smooths]
    plain = (AS_LABELS.sub("", text) for text in texts)
    quoted = {name.strip("`") for text in texts for name in QUOTED.findall(text)}
    return {word.name for text in plain for word in words(text) if not word.called} | quoted


def _of_number(own: np.ndarray, values: np.ndarray, name: str, asked: Any) -> Contrast:
    """A step around where each row is, of a size or in sds; or from one value to another for all rows."""
    if isinstance(asked, str) and asked in SHORT:
        if asked in ("sd", "2sd"):
            half = own.std(ddof=1) * (0.5 if asked == "sd" else 1.0)
            label = "(x+sd/2) - (x-sd/2)" if asked == "sd" else "(x+sd) - (x-sd)"
            return Contrast(name, label, values - half, values + half)
        low, high = np.quantile(own, [0.25, 0.75]) if asked == "iqr" else (own.min(), own.max())
        return Contrast(name, "Q3 - Q1" if asked == "iqr" else "max - min", low, high)
    if isinstance(asked, list | tuple) and len(asked) == 2 and all(map(_is_number, asked)):
        low, high = map(float, asked)
        return Contrast(name, f"{high:g} - {low:g}", low, high)
    if _is_number(asked):
        half = float(asked) / 2
        return Contrast(name, f"{float(asked):+g}", values - half, values + half)
    raise InvalidModel(
        f"The comparison {asked!r} of the numeric column '{name}' must be a step such as 1, two values "
        f"such as (0, 2), or one of {', '.join(map(repr, SHORT))}."
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _of_levels(own: pd.Series, name: str, asked: Any) -> list[Contrast]:
    """Levels of a factor: against the first, each with each, one after another, or two of them."""
    if isinstance(own.dtype, pd.CategoricalDtype):
        seen = set(own.unique())
        levels = [level for level in own.cat.categories if level in seen]
    else:
        levels = sorted(own.unique())
    asked = "reference" if asked is None else asked
    pairs: list[tuple[Any, Any]]
    if isinstance(asked, str) and asked in OF_LEVELS:
        if asked == "reference":
            pairs = [(levels[0], level) for level in levels[1:]]
        elif asked == "sequential":
            pairs = list(pairwise(levels))
        else:
            pairs = [(a, b) for i, a in enumerate(levels) for b in levels[i + 1 :]]
    elif isinstance(asked, list | tuple) and len(asked) == 2 and set(asked) <= set(levels):
        pairs = [(asked[0], asked[1])]
    else:
        raise InvalidModel(
            f"The comparison {asked!r} of '{name}' must be one of {', '.join(map(repr, OF_LEVELS))}, or two "
            f"of its levels ({', '.join(map(repr, levels[:5]))}{', …' if len(levels) > 5 else ''})."
        )
    return [Contrast(name, f"{high} - {low}", low, high) for low, high in pairs]
