"""From a Dask DataFrame to a design: one look at all labels, one at all measures, one at all sums."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....bridges.dask import DaskPartitions, frame_parts, memory_left, shuffled_parts
from ....data.standardise import Measures
from ....errors import InvalidModel, RowsGathered
from ....integrated.effort import APART
from ....likelihoods import Likelihood
from ....likelihoods.totals import join
from ..design.design import Design, build, read_design
from ..design.groups import Factor
from ..design.naming import read_formula
from ..design.rank import centred, check_triangle
from ..design.response_column import read_categories, response_labels
from ..design.standardised import Standardisation, standardised
from ..design.terms import refuse_same_groups
from ..text.allowed import own_functions
from ..text.formula import Formula
from . import rows, scattered, survey
from .design import Elsewhere, PartitionedDesign
from .nesting import layout_of
from .values import ValuesInParts

GATHERED = 1_000_000  # rows that are brought together without asking what memory is free
ROW, CELL = 4000.0, 200.0  # bytes that a fit takes at most: of a row, and of each of its columns
FEW = APART  # rows that are, where sums of levels would do
STAYING = f"rows of a gaussian response stay, and of more than {FEW:,} those of any other"


class Need(NamedTuple):
    """What needs all rows together, and how they would stay."""

    what: str
    stay: str = ""


AS_FEW = Need("This model", f"In partitions {STAYING}.")
UNBLOCKED = Need("A variational fit", f"With factorization='blocked' {STAYING}.")
TOO_LITTLE = Need("A posterior of which sums in partitions tell too little")


def build_partitioned(
    formula: str,
    data: Any,
    family: Likelihood,
    missing: str,
    functions: Mapping[str, Callable[..., Any]] | None,
    blocked: bool,
) -> Design:
    """The design of a Dask DataFrame: from sums where they are enough, else of few rows, gathered."""
    own = own_functions(functions)
    read, named = read_formula(formula, [str(name) for name in data.columns], own)
    named = list(dict.fromkeys(named))
    parts = frame_parts(data, named)
    units = survey.units_of(read)
    counted = survey.counted_columns(read, named, own)
    look = functools.partial(survey.survey_part, named, units, counted, own)
    found = survey.merge(parts.map(functools.partial(rows.look_at, look)))
    survey.check(found, missing)
    survey.refuse_own_labels(found, read, counted)
    if not (family.quadratic and blocked):
        width = survey.width(found, named, units)
        gather = functools.partial(
            _gather, read.text, parts, found, width, family, missing, functions
        )
        if not blocked:
            return gather(UNBLOCKED)
        if found.rows <= FEW:
            return gather(AS_FEW)
        if learns := survey.learning(read):
            return gather(_learning(learns))
        here = functools.partial(gather, TOO_LITTLE)
        return _scattered(read, data, parts, named, found, units, family, functions, here)
    survey.refuse_learning(read)
    small = _small(read, parts, named, found, units, family, functions)
    return _from_sums(small, named, parts, found.dropped)


def _learning(name: str) -> Need:
    """Of a transform that learns something from all rows."""
    return Need(
        f"The formula's '{name}(…)', which looks at all rows before it gives a value,",
        f"Make a column of it first, as in ddf.assign(z=…): then {STAYING}.",
    )


def _gather(
    formula: str,
    parts: DaskPartitions,
    found: survey.Survey,
    width: int,
    family: Likelihood,
    missing: str,
    functions: Mapping[str, Callable[..., Any]] | None,
    need: Need,
) -> Design:
    """The rows, of so many columns, brought together, with a warning, while memory has room for their fit."""
    needed, size = found.rows * (ROW + CELL * width), ""
    if found.rows > GATHERED:
        free = memory_left()
        if needed > free:
            has = f"{free / 1e9:.1f} GB are free" if free else "nobody tells what is free"
            raise InvalidModel(
                f"{need.what} needs all {found.rows:,} rows together, and their fit up to "
                f"{needed / 1e9:.1f} GB of memory here, where {has}. {need.stay}".rstrip()
                + " Fit a sample of the levels, or call .compute() if you know that the rows fit into "
                "memory.",
                rows=found.rows,
            )
        size = f" (up to {needed / 1e9:.1f} of {free / 1e9:.1f} GB of memory that are free)"
    brought = f"were brought here from Dask's partitions{size}"
    if need is AS_FEW:
        told = f"{found.rows:,} rows, which are few, {brought}. {need.stay}"
    else:
        told = f"{need.what} needs all {found.rows:,} rows together, so they {brought}. {need.stay}"
    warnings.warn(RowsGathered(told.rstrip(), rows=found.rows), stacklevel=5)
    table = pd.concat(parts.map(lambda _, part: part), ignore_index=True)
    return build(formula, table, family, missing, functions)


def _scattered(
    read: Formula,
    data: Any,
    parts: DaskPartitions,
    named: list[str],
    found: survey.Survey,
    units: list[survey.Unit],
    family: Likelihood,
    functions: Mapping[str, Callable[..., Any]] | None,
    gather: Callable[[], Design],
) -> Design:
    """Levels' rows brought together, those of each into one partition."""
    small = _small(read, parts, named, found, units, family, functions)
    codes = functools.partial(
        parts.prepared, functools.partial(rows.codes_part, _bare(small), named)
    )
    layout = layout_of(small, codes)
    look = functools.partial(rows.read_part, _bare(small), named)
    with rows.in_partitions(parts, look):
        if small.terms:
            by = small.coders[small.terms[layout.kept].factor].columns
            arrays = shuffled_parts(data, named, by).prepared(look)
        else:
            arrays = DaskPartitions(parts.parts, keep=True).prepared(look)
        measured, values = _measured(small, arrays)
    standard = _standard(small, measured)
    root = arrays.folded(functools.partial(scattered.root_part, standard), scattered.join_roots)
    _check_columns(root[:, :-1], small, measured)
    totals = arrays.folded(scattered.total_part, join)
    n = measured.y.n
    alone = (t.factor for t in small.terms if t.coefficients == ("1",))
    single = [factor for factor in alone if len(small.factors[factor].levels) == n]
    given = _elsewhere(small, n, found.dropped) | {
        "observation": single[0] if single else None,
        "categories": read_categories(read, small.frame, family, values.high),
    }
    return scattered.ScatteredDesign(
        **given,
        measured=measured,
        reduced=scattered.NOTHING,
        values=values,
        left=scattered.left_by(root, n) if small.names else float(measured.y.spread[0]),
        layout=layout,
        arrays=arrays,
        totals=totals,
        gather=gather,
    )


def _from_sums(small: Design, named: list[str], parts: DaskPartitions, dropped: int) -> Design:
    """Measures in one pass, the rows that stand for all in another."""
    look = functools.partial(rows.read_part, _bare(small), named)
    with rows.in_partitions(parts, look):
        arrays = parts.prepared(look)
        measured, _ = _measured(small, arrays)
    standard = _standard(small, measured)
    reduced = arrays.folded(functools.partial(rows.reduce_part, standard), rows.join_reduced)
    _check_columns(reduced.root, small, measured)
    _check_groups(small, reduced.codes, measured.y.n)
    left = _left(reduced, measured.y)
    given = _elsewhere(small, measured.y.n, dropped)
    return PartitionedDesign(**given, measured=measured, reduced=reduced, left=left)


def _small(
    read: Formula,
    parts: DaskPartitions,
    named: list[str],
    found: survey.Survey,
    units: list[survey.Unit],
    family: Likelihood,
    functions: Mapping[str, Callable[..., Any]] | None,
) -> Design:
    """The design of a table that has every label. See: small_table."""
    table = survey.small_table(found, units)
    look = functools.partial(rows.response_part, read, family, named, own_functions(functions))
    with rows.in_partitions(parts, look):
        return read_design(read, table, family, functions=functions, few=True)


def _measured(small: Design, arrays: DaskPartitions) -> tuple[rows.Measured, ValuesInParts]:
    """Measures of all rows, and the response's values, which are refused as in memory."""
    measured = rows.join_measures(arrays.map(lambda _, part: rows.measure_part(part)))
    values, name = ValuesInParts(measured.own, arrays), small.formula.response
    if small.formula.trials is None:
        small.family.check_all(values, name, response_labels(name, small.frame, small.family))
    return measured, values


def _standard(small: Design, measured: rows.Measured) -> Standardisation:
    return standardised(small.names, small.family, measured.X, float(measured.y.center[0]))


def _check_columns(root: np.ndarray, small: Design, measured: rows.Measured) -> None:
    """Refuse columns that are combinations of others, by the triangle of those standardised."""
    names = small.names
    if names:
        intercept = names.index("Intercept") if "Intercept" in names else None
        check_triangle(root, names, centred(measured.X, intercept, not small.family.intercept))


def _bare(small: Design) -> Design:
    """What reads rows, without those of the small table: it goes to every partition."""
    none = np.zeros(0)
    return replace(
        small,
        y=none,
        trials=None if small.trials is None else none,
        X=small.X[:0],
        offset=None,
        terms=[term._replace(R=term.R[:0]) for term in small.terms],
        factors=[factor._replace(codes=factor.codes[:0]) for factor in small.factors],
        rows=pd.RangeIndex(0),
        frame=small.frame.iloc[:0],
    )


def _elsewhere(small: Design, n: int, dropped: int) -> dict[str, Any]:
    """What a design of n rows has that are not here."""
    away: Any = Elsewhere()
    given = {f.name: getattr(small, f.name) for f in fields(Design)}
    return given | {
        "y": away,
        "trials": None if small.trials is None or small.family.quadratic else away,
        "X": away,
        "offset": away if small.offsets else None,
        "terms": [term._replace(R=away) for term in small.terms],
        "factors": [factor._replace(codes=away) for factor in small.factors],
        "rows": pd.RangeIndex(n),
        "frame": pd.DataFrame(index=pd.RangeIndex(n)),
        "dropped": dropped,
    }


def _left(reduced: rows.Reduced, y: Measures) -> float:
    """√mean of the squares that least squares on X leaves; the sd of y without X."""
    if not reduced.X.shape[1]:
        return float(y.spread[0])
    A = reduced.X
    coefficients = np.linalg.lstsq(A.T @ A, A.T @ reduced.y, rcond=None)[0]
    left = reduced.y - A @ coefficients
    return float(np.sqrt(left @ left / y.n))


def _check_groups(design: Design, codes: np.ndarray, n: int) -> None:
    """What the small table cannot show: factors that are one, and one row for each level."""
    factors = [
        Factor(factor.name, own, factor.levels)
        for factor, own in zip(design.factors, codes, strict=True)
    ]
    places = {(name, term.factor): 0 for term in design.terms for name in term.coefficients}
    refuse_same_groups(design.formula.text, factors, places)
    for term in design.terms:
        if term.coefficients == ("1",) and len(design.factors[term.factor].levels) == n:
            raise InvalidModel(
                f"The group '{term.group}' has one row for each level, so that its standard "
                "deviation cannot be told from the residual's; leave its term out.",
                term=term.name,
            )
