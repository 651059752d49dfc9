"""The arrays of one partition's rows, and rows that stand for many others with the same sums.

Gaussian rows matter through CᵀC alone, C = [1, X, R, y] within each cell of the factors' levels. A cell of
more rows than columns is replaced by as many rows as there are columns, with the same sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from ....data.standardise import Measures, measure
from ....data.standardise import merge as merge_measures
from ....errors import InvalidData
from ....likelihoods import Likelihood
from ..design.columns import Table
from ..design.design import Design, total_of
from ..design.rank import triangle
from ..design.response_column import read_response, response_labels
from ..design.standardised import Standardisation
from ..text.formula import Formula
from .survey import complete

if TYPE_CHECKING:
    from ....bridges.dask import DaskPartitions

T = TypeVar("T")
MOST = 4e8  # numbers that rows which stand for others may have: 3 GB


class Arrays(NamedTuple):
    """Rows as the model sees them: y, trials, offset (n,); X (n, p); R (n, q) of terms; codes (F, n).

    y is the response where its noise is normal, log_volume what its own density has beside that of y; own
    are measures of the response itself, as one column.
    """

    y: np.ndarray
    trials: np.ndarray | None
    offset: np.ndarray | None
    X: np.ndarray
    R: list[np.ndarray]
    codes: np.ndarray
    log_volume: float = 0.0
    own: Measures | None = None

    @property
    def target(self) -> np.ndarray:
        """y − offset."""
        return self.y if self.offset is None else self.y - self.offset


class Measured(NamedTuple):
    """Measures of X, of each term's R, and of y − offset as one column; the log volume of all rows.

    own are those of the response itself, as one column.
    """

    X: Measures
    R: tuple[Measures, ...]
    y: Measures
    log_volume: float
    own: Measures


class Reduced(NamedTuple):
    """Rows that stand for others: a column of ones, X and y standardised, all terms' R, codes (F, n).

    root is the triangle of standardised X of all rows.
    """

    ones: np.ndarray
    X: np.ndarray
    R: np.ndarray
    y: np.ndarray
    codes: np.ndarray
    root: np.ndarray


def read_part(design: Design, named: Sequence[str], part: pd.DataFrame) -> Arrays:
    """The arrays of a partition."""
    table = complete(part, named, design.functions)
    return _nothing(design) if table is None else _arrays(design, table)


def response_part(
    formula: Formula,
    family: Likelihood,
    named: Sequence[str],
    own: Mapping[str, Callable[..., Any]],
    part: pd.DataFrame,
) -> None:
    """Refuse a response, or trials, that no row of this family can have."""
    table = complete(part, named, own)
    if table is not None:
        read_response(formula, table, family, few=True)


@contextmanager
def in_partitions(parts: DaskPartitions, look: Callable[[pd.DataFrame], Any]) -> Iterator[None]:
    """What turns out to be wrong with data is said of the partition where a look at it finds it.

    Rows that were put together, or brought together, are no longer where the user has them.
    """
    try:
        yield
    except InvalidData:
        parts.map(partial(look_at, look))
        raise


def look_at(look: Callable[[pd.DataFrame], T], number: int, part: pd.DataFrame) -> T:
    """What is found in a partition; what is wrong with it names its number."""
    try:
        return look(part)
    except InvalidData as error:
        raise InvalidData(f"Partition {number}: {error}", **error.evidence) from None


def codes_part(design: Design, named: Sequence[str], part: pd.DataFrame) -> np.ndarray:
    """Codes (F, n) of a partition's rows."""
    table = complete(part, named, design.functions)
    if table is None:
        return np.zeros((len(design.coders), 0), dtype=np.int32)
    return np.array([coder.codes(table) for coder in design.coders])


def _nothing(design: Design) -> Arrays:
    """The arrays of no rows."""
    none = np.zeros(0)
    return Arrays(
        none,
        None if design.trials is None else none,
        none if design.offsets else None,
        np.zeros((0, len(design.names))),
        [np.zeros((0, len(term.coefficients))) for term in design.terms],
        np.zeros((len(design.coders), 0), dtype=np.int32),
    )


def _arrays(design: Design, table: Table) -> Arrays:
    labels = response_labels(design.formula.response, design.frame, design.family)
    y, trials = read_response(design.formula, table, design.family, few=True, labels=labels)
    made = {id(source.block): source.block for source in design.sources}
    blocks = {key: block.apply(table) for key, block in made.items()}
    return Arrays(
        design.family.working(y),
        trials,
        total_of([number.apply(table) for number in design.offsets]),
        design.fixed.apply(table),
        [
            np.ascontiguousarray(blocks[id(source.block)][:, list(source.chosen)])
            for source in design.sources
        ],
        np.array([coder.codes(table) for coder in design.coders]).reshape(-1, table.n),
        float(np.sum(design.family.constant(y))),
        measure(y[:, None]),
    )


def measure_part(rows: Arrays) -> Measured | None:
    """Measures of one partition, if it has rows."""
    if rows.own is None:
        return None
    return Measured(
        measure(rows.X),
        tuple(measure(R) for R in rows.R),
        measure(rows.target[:, None]),
        rows.log_volume,
        rows.own,
    )


def join_measures(parts: Sequence[Measured | None]) -> Measured:
    """Measures of all."""
    there = [part for part in parts if part is not None]
    whole = there[0]
    for part in there[1:]:
        whole = Measured(
            merge_measures(whole.X, part.X),
            tuple(merge_measures(a, b) for a, b in zip(whole.R, part.R, strict=True)),
            merge_measures(whole.y, part.y),
            whole.log_volume + part.log_volume,
            merge_measures(whole.own, part.own),
        )
    return whole


def reduce_part(standard: Standardisation, rows: Arrays) -> Reduced:
    """The rows of a partition, standardised, as few as have the same sums."""
    X = standard.inward(rows.X)
    p = X.shape[1]
    R = np.concatenate([np.zeros((len(X), 0)), *rows.R], axis=1)
    root = triangle(X, np.zeros(p), np.ones(p))
    whole = Reduced(np.ones(len(X)), X, R, rows.target - standard.shift, rows.codes, root)
    return fewer(whole)


def join_reduced(parts: Sequence[Reduced]) -> Reduced:
    """The rows of several partitions, as few as have the same sums."""
    p = parts[0].X.shape[1]
    ones, X, R, y = (
        np.concatenate([part[i] for part in parts])
        for i in range(4)  # codes have their rows last
    )
    codes = np.concatenate([part.codes for part in parts], axis=1)
    root = triangle(np.concatenate([part.root for part in parts]), np.zeros(p), np.ones(p))
    found = fewer(Reduced(ones, X, R, y, codes, root))
    if found.X.size + found.R.size > MOST:
        raise InvalidData(
            f"The levels of the grouping factors meet in so many combinations that {len(found.y):,} rows "
            f"are needed to stand for them, more than the {MOST:.0e} numbers that are brought "
            "together; fit a sample of the levels, or leave a factor out.",
            rows=len(found.y),
        )
    return found


def fewer(rows: Reduced) -> Reduced:
    """Cells of more rows than columns have as many rows as columns afterwards, with the same sums."""
    C = np.column_stack([rows.ones, rows.X, rows.R, rows.y])
    n, k = C.shape
    if n <= k:
        return rows
    order = np.lexsort(rows.codes) if len(rows.codes) else np.arange(n)
    codes, C = rows.codes[:, order], C[order]
    first = np.flatnonzero(np.r_[True, (codes[:, 1:] != codes[:, :-1]).any(0)])
    sizes = np.diff(np.r_[first, n])
    large = sizes > k
    if not large.any():
        return rows._replace(
            ones=C[:, 0],
            X=C[:, 1 : 1 + rows.X.shape[1]],
            R=C[:, 1 + rows.X.shape[1] : -1],
            y=C[:, -1],
            codes=codes,
        )
    unit = np.maximum(np.abs(C).max(0), 1e-300)
    inside = np.repeat(large, sizes)
    dense = C[inside] / unit
    starts = np.cumsum(np.r_[0, sizes[large][:-1]])
    gram = np.empty((int(large.sum()), k, k))
    for i in range(k):
        for j in range(i, k):
            gram[:, i, j] = gram[:, j, i] = np.add.reduceat(dense[:, i] * dense[:, j], starts)
    values, vectors = np.linalg.eigh(gram)
    there = values > 1e-15 * values[:, -1:]
    made = np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.swapaxes(1, 2) * unit
    new = np.broadcast_to(codes[:, first[large], None], (len(codes), len(gram), k))
    C = np.concatenate([C[~inside], made[there]])
    codes = np.concatenate([codes[:, ~inside], new[:, there]], axis=1)
    p = rows.X.shape[1]
    return Reduced(C[:, 0], C[:, 1 : 1 + p], C[:, 1 + p : -1], C[:, -1], codes, rows.root)
