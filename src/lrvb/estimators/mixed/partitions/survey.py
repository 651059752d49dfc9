"""One look at every partition: rows, missing values, and the labels that columns and groups have.

From it a small table is made that has every category and every level, on which the formula is read as
on any other: what it says of columns and codes then holds in all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ....errors import InvalidData, InvalidModel
from ..design.columns import DROP_THEM, Table, is_text, read_table
from ..design.model_matrix import named_columns, refuse_labels
from ..text.formula import Formula
from ..text.scanning import words

SHIFTED = 64  # rows in which a group is shifted against others
SAMPLE = 4  # rows of each partition that show what its columns hold
LEARN = {"bs", "cc", "center", "cr", "cs", "lag", "ns", "poly", "scale", "standardize"}
CATEGORIES = ("C", "factor")  # what makes categories of numbers

Unit = tuple[str, ...]  # columns whose labels belong together


class Survey(NamedTuple):
    """Rows, those with missing values, missing values by column, labels by unit, and a few rows."""

    rows: int
    dropped: int
    missing: dict[str, int]
    labels: dict[Unit, pd.DataFrame]
    sample: pd.DataFrame


def units_of(formula: Formula) -> list[Unit]:
    """Columns of groups, those together that one factor joins."""
    units: list[Unit] = []
    for bar in formula.bars:
        joined = [unit for unit in units if set(unit) & set(bar.columns)]
        merged = tuple(dict.fromkeys([*(c for unit in joined for c in unit), *bar.columns]))
        units = [unit for unit in units if unit not in joined] + [merged]
    return units


def learning(formula: Formula) -> str:
    """The first transform that learns something from all rows, if there is one."""
    texts = [formula.response, formula.fixed, *formula.offsets, *(bar.lhs for bar in formula.bars)]
    found = (word.name for text in texts for word in words(text) if word.called)
    return next((name for name in found if name in LEARN), "")


def refuse_learning(formula: Formula) -> None:
    """Transforms that learn something from all rows are not for partitions."""
    if name := learning(formula):
        raise InvalidModel(
            f"The formula's '{name}(…)' looks at all rows before it gives a value, which are "
            "in partitions here; make a column of it first, as in ddf.assign(z=…).",
            function=name,
        )


def complete(part: pd.DataFrame, named: Sequence[str], own: Mapping[str, Callable]) -> Table | None:
    """The columns that a formula names in the rows without missing values; None if there are none."""
    frame = part[list(named)]
    frame = frame[~frame.isna().any(axis=1)]
    return read_table(frame, named)._replace(functions=own) if len(frame) else None


def survey_part(
    named: Sequence[str],
    units: Sequence[Unit],
    counted: frozenset[str],
    own: Mapping[str, Callable],
    part: pd.DataFrame,
) -> Survey:
    """The survey of one partition; `counted` are columns of numbers that enter as categories."""
    gaps = part[list(named)].isna()
    dropped = int(gaps.any(axis=1).sum())
    missing = {str(name): int(count) for name, count in gaps.sum().items() if count}
    table = complete(part, named, own)
    if table is None:
        return Survey(len(part), dropped, missing, {}, pd.DataFrame(columns=list(named)))
    frame = _as_declared(table.frame, part)
    grouped = {name for unit in units for name in unit}
    alone = [
        (name,)
        for name in named
        if name not in grouped and (name in counted or is_text(frame[name]))
    ]
    labels = {unit: frame[list(unit)].drop_duplicates() for unit in [*units, *alone]}
    return Survey(len(part), dropped, missing, labels, frame.iloc[:SAMPLE])


def _as_declared(frame: pd.DataFrame, part: pd.DataFrame) -> pd.DataFrame:
    """Columns of categories with all that a partition's column may have, so that partitions agree on them."""
    own = {
        name: frame[name].cat.set_categories(part[name].cat.categories)
        for name in frame
        if isinstance(part[name].dtype, pd.CategoricalDtype)
    }
    return frame.assign(**own)


def merge(surveys: Sequence[Survey]) -> Survey:
    """The survey of all."""
    there = [found for found in surveys if len(found.sample)]
    missing: dict[str, int] = {}
    for found in surveys:
        for name, count in found.missing.items():
            missing[name] = missing.get(name, 0) + count
    units = dict.fromkeys(unit for found in there for unit in found.labels)
    labels = {
        unit: _joined(
            [found.labels[unit] for found in there if unit in found.labels]
        ).drop_duplicates(ignore_index=True)
        for unit in units
    }
    sample = _joined([found.sample for found in there]) if there else pd.DataFrame()
    rows, dropped = sum(found.rows for found in surveys), sum(found.dropped for found in surveys)
    return Survey(rows, dropped, missing, labels, sample)


def _joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames one below the other, categories in the order of the first that has them."""
    columns = {}
    for name in frames[0]:
        parts = [frame[name] for frame in frames]
        if all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
            columns[name] = pd.Series(_united(str(name), parts))
        else:
            columns[name] = pd.concat(
                [part.astype(object) if is_text(part) else part for part in parts],
                ignore_index=True,
            )
    return pd.DataFrame(columns)


def _united(name: str, parts: list[pd.Series]) -> pd.Categorical:
    """All of their values; an order must be the same in all parts."""
    try:
        return pd.api.types.union_categoricals(parts)
    except TypeError as error:
        raise InvalidData(
            f"Column '{name}' has other categories, or others in order, in one partition than in another; "
            "give all the same, as with astype and one pandas.CategoricalDtype.",
            column=name,
        ) from error


def width(found: Survey, named: Sequence[str], units: Sequence[Unit]) -> int:
    """How many columns of numbers the named ones make: one for each label, but one of a group."""
    categories = {
        unit[0]: len(labels) for unit, labels in found.labels.items() if unit not in units
    }
    return sum(categories.get(name, 1) for name in named)


def check(found: Survey, missing: str) -> None:
    """Refuse a table without rows, and missing values unless they are to be dropped."""
    if missing not in ("error", "drop"):
        raise InvalidModel(f"missing={missing!r} must be 'error' or 'drop'.")
    if not found.rows:
        raise InvalidData("The data have no rows; at least one is needed.", value=0)
    if found.dropped and missing == "error":
        listed = "; ".join(f"column '{name}', {n:,} values" for name, n in found.missing.items())
        raise InvalidData(
            f"{found.dropped:,} of {found.rows:,} rows "
            f"{'has' if found.dropped == 1 else 'have'} missing values: {listed}. {DROP_THEM}",
            column=next(iter(found.missing)),
            rows=found.dropped,
        )
    if found.dropped == found.rows:
        raise InvalidData(
            f"Every one of the {found.rows:,} rows has a missing value in a column of the formula ("
            + ", ".join(f"'{name}'" for name in found.missing)
            + "), so that none is left; fill them in or leave a column out.",
            value=found.rows,
        )


def refuse_own_labels(found: Survey, formula: Formula, counted: frozenset[str]) -> None:
    """A fixed effect of texts that differ in all rows is refused as in memory."""
    grouped = {name for unit in units_of(formula) for name in unit}
    for (name, *_), labels in found.labels.items():
        if name in {formula.response, *grouped, *counted}:
            continue
        if 2 < len(labels) == found.rows - found.dropped:
            refuse_labels(name, len(labels), len(labels), labels[name].iloc[0])


def small_table(found: Survey, units: Sequence[Unit]) -> pd.DataFrame:
    """A table with every label; some rows shift each group against others, so that none look alike.

    There are more rows than labels: a category of fixed effects has not a value for every row.
    """
    length = max([2, *(len(labels) for labels in found.labels.values())])
    lengths = [length, *[min(length, SHIFTED)] * max(1, len(units))]
    columns: dict[str, pd.Series] = {}
    at = np.resize(np.arange(len(found.sample)), sum(lengths))
    for name in found.sample:
        columns[name] = found.sample[name].iloc[at].reset_index(drop=True)
    for unit, labels in found.labels.items():
        shift = units.index(unit) + 1 if unit in units else 0
        blocks = enumerate(lengths)
        place = [(np.arange(n) + (block == shift)) % len(labels) for block, n in blocks]
        for name in unit:
            columns[name] = labels[name].iloc[np.concatenate(place)].reset_index(drop=True)
    return pd.DataFrame(columns)


def counted_columns(
    formula: Formula, known: list[str], own: Mapping[str, Callable]
) -> frozenset[str]:
    """Columns of texts that make categories of numbers, C(x) or factor(x)."""
    texts = [formula.fixed, *(bar.lhs for bar in formula.bars)]
    return frozenset(
        name
        for text in texts
        if any(word.called and word.name in CATEGORIES for word in words(text))
        for name in _within_brackets(text, known, own)
    )


def _within_brackets(text: str, known: list[str], own: Mapping[str, Callable]) -> list[str]:
    """The columns inside the brackets of C(…) and factor(…)."""
    found = []
    for word in words(text):
        if word.called and word.name in CATEGORIES:
            begin, depth, end = text.index("(", word.at), 0, len(text)
            for i in range(begin, len(text)):
                depth += (text[i] == "(") - (text[i] == ")")
                if not depth:
                    end = i
                    break
            found += named_columns(text[begin + 1 : end].split(",")[0], known, own=own)
    return found
