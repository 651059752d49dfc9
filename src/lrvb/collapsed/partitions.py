"""Data that are never all in memory: parts of the rows, visited one after another or where they live.

Everything of size N is a sum over rows, so a fit needs only `map`: apply a function to every part
and bring back results of the size of the global parameters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..data.sample import sample_rows
from ..data.tables import Rows
from ..errors import InvalidData, InvalidModel
from ..statement.model import Model
from ..statement.problem import Problem, state_problem
from .seam import BoundSum, LocalResponse, LocalSum, RowSums

T = TypeVar("T")

SAMPLE_PER_PART = 2000


class Partitions(Protocol):
    """Rows in parts."""

    def map(self, function: Callable[[int, Any], T]) -> Iterable[T]:
        """The results of function(number of the part, part), in order."""

    def prepared(self, function: Callable[[Any], Any]) -> Partitions:
        """The same parts after a function, kept where they live when that is possible."""


class Chunks:
    """Parts from an iterable that can be restarted: every pass iterates over it anew.

    Each item is a mapping of columns (or, for an estimator, an array). Memory holds one at a time.
    """

    def __init__(self, source: Iterable[Any], then: Callable[[Any], Any] | None = None):
        if isinstance(source, Iterator):
            raise InvalidData(
                "The chunks are an iterator, which can be read only once; give an object that can be "
                "iterated over again, such as a list or a class with __iter__."
            )
        self.source, self.then = source, then

    def map(self, function: Callable[[int, Any], T]) -> Iterable[T]:
        """One pass over the source."""
        for i, part in enumerate(self.source):
            yield function(i, part if self.then is None else self.then(part))

    def prepared(self, function: Callable[[Any], Any]) -> Chunks:
        """The function is applied again on every pass: nothing is kept."""
        if self.then is None:
            return Chunks(self.source, function)
        return Chunks(self.source, functools.partial(_composed, self.then, function))


def _composed(first: Callable[[Any], Any], second: Callable[[Any], Any], part: Any) -> Any:
    return second(first(part))


class _Surveyed(NamedTuple):
    """One part: its number of rows, and some of them with the number of rows each stands for."""

    n: int
    sample: dict[str, np.ndarray]
    weights: np.ndarray


def as_partitions(data: Any) -> Partitions | None:
    """The data as partitions, where they are: Dask columns, or partitions already."""
    if isinstance(data, Mapping) and any(hasattr(c, "__dask_graph__") for c in data.values()):
        from ..bridges.dask import from_columns

        return from_columns(data)
    return data if hasattr(data, "map") and hasattr(data, "prepared") else None


def partitioned_problem(
    model: Model, parts: Partitions, inner: Callable[[Problem], LocalSum]
) -> tuple[Problem, PartitionedSum]:
    """The problem, holding a sample of the rows for a start, and the sum over all parts.

    Every part is checked on the way, with the same sentences as data in memory.
    """
    rows = parts.prepared(functools.partial(_checked, model))
    surveyed = list(rows.map(_survey))
    full = [s for s in surveyed if s.n]
    if not full:
        raise InvalidData("The data have no rows; at least one is needed.", value=0)
    sample = {name: np.concatenate([s.sample[name] for s in full]) for name in full[0].sample}
    weights = np.concatenate([s.weights for s in full])
    lengths = tuple(s.n for s in surveyed)
    problem = state_problem(model, Rows(sample, weights=weights))
    problem = replace(problem, total=sum(lengths), data=None)
    return problem, PartitionedSum(rows, lengths, inner(problem))


def _checked(model: Model, columns: Any) -> Rows | None:
    """The rows of one part; None when it has none."""
    if isinstance(columns, Mapping) and model.columns is not None:
        columns = {k: v for k, v in columns.items() if k in model.columns} or columns
    if isinstance(columns, Mapping) and all(np.shape(c)[0] == 0 for c in columns.values()):
        return None
    if isinstance(model, Model) and not (model.prepares_rows or _as_inherited(model)):
        raise InvalidModel(
            f"prepare of {type(model).__name__} may need all rows at once; compute the columns "
            "first, such as x.compute(), or set prepares_rows = True if it treats each row alone."
        )
    try:
        rows = state_problem(model, columns).rows
    except InvalidData as error:
        if "row" not in error.evidence:
            raise
        words = f"{error} Rows are counted from the start of their part of the data."
        raise InvalidData(words, **error.evidence) from error
    if rows is None or rows.dim != "row":
        raise InvalidModel(
            f"{type(model).__name__} gathers its rows by {rows.dim if rows else 'nothing'}, which needs "
            "all of them at once; compute the columns first, such as x.compute()."
        )
    return replace(rows, labels=None)


def _as_inherited(model: Model) -> bool:
    return type(model).prepare is Model.prepare and "prepare" not in vars(model)


def _survey(number: int, rows: Rows | None) -> _Surveyed:
    if rows is None:
        return _Surveyed(0, {}, np.zeros(0))
    sample = sample_rows(rows, SAMPLE_PER_PART, seed=number)
    columns = {name: np.asarray(column) for name, column in sample.columns.items()}
    return _Surveyed(rows.n, columns, np.asarray(sample.weights))


@dataclass(frozen=True)
class PartitionedSum:
    """A sum over parts, each computed by the inner sum where the part is."""

    parts: Partitions
    lengths: tuple[int, ...]
    inner: LocalSum

    def bind(self, problem: Problem, chunk_size: int | None = None) -> BoundSum:
        """The sum over all parts; a problem with all its rows in memory is left to the inner sum."""
        if problem.total is None:
            return self.inner.bind(problem, chunk_size)
        bare = replace(problem, rows=None, total=None, data=None)
        return _BoundPartitions(self, bare, chunk_size)


class _BoundPartitions:
    def __init__(self, over: PartitionedSum, problem: Problem, chunk_size: int | None):
        self.over, self.problem, self.chunk_size = over, problem, chunk_size

    def evaluate(self, m: np.ndarray, order: int = 2) -> RowSums:
        a = len(m)
        value, gradient, failed = 0.0, np.zeros(a), -1
        curvature = np.zeros((a, a)) if order == 2 else None
        starts = np.cumsum((0, *self.over.lengths))
        one = functools.partial(_evaluate, self.problem, self.over.inner, self.chunk_size, m, order)
        for i, sums in enumerate(self.over.parts.map(one)):
            if sums is None:
                continue
            value, gradient = value + sums.value, gradient + sums.gradient
            if curvature is not None:
                curvature = curvature + np.asarray(sums.curvature)
            if failed < 0 <= sums.failed:
                failed = int(starts[i]) + sums.failed
        return RowSums(value, gradient, curvature, failed)

    def respond(self, m: np.ndarray, rows: np.ndarray | None = None) -> Iterator[LocalResponse]:
        if rows is not None and (np.diff(rows) < 0).any():
            raise InvalidData("Rows of partitioned data must be asked for in increasing order.")
        starts = np.cumsum((0, *self.over.lengths))
        one = functools.partial(
            _respond, self.problem, self.over.inner, self.chunk_size, m, rows, starts
        )
        for responses in self.over.parts.map(one):
            yield from responses


def _evaluate(
    problem: Problem,
    inner: LocalSum,
    chunk_size: int | None,
    m: np.ndarray,
    order: int,
    number: int,
    rows: Rows | None,
) -> RowSums | None:
    """The sums over one part."""
    if rows is None:
        return None
    return inner.bind(replace(problem, rows=rows), chunk_size).evaluate(m, order)


def _respond(
    problem: Problem,
    inner: LocalSum,
    chunk_size: int | None,
    m: np.ndarray,
    chosen: np.ndarray | None,
    starts: np.ndarray,
    number: int,
    rows: Rows | None,
) -> list[LocalResponse]:
    """The local variables of one part, or of those of its rows that are asked for."""
    if rows is None:
        return []
    inside, start = None, starts[number]
    if chosen is not None:
        inside = chosen[(chosen >= start) & (chosen < start + rows.n)] - start
        if not len(inside):
            return []
    return list(inner.bind(replace(problem, rows=rows), chunk_size).respond(m, inside))
