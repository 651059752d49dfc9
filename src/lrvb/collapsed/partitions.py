"""Data that are never all in memory: parts of the rows, visited one after another or where they live.

Everything of size N is a sum over rows, so a fit needs only `map`: apply a function to every part
and bring back results of the size of the global parameters.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..data.sample import sample_rows
from ..data.tables import Rows
from ..errors import InvalidData, InvalidModel
from ..statement.model import Model
from ..statement.problem import Problem, state_problem
from .seam import BoundSum, CollapsedSums, Densities, LocalResponse, LocalSum
from .turning import Directions, count

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
    """One part: its number of rows, some of them with the number each stands for, and its mark."""

    n: int
    sample: dict[str, np.ndarray]
    weights: np.ndarray
    mark: int


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
    marks = tuple(s.mark for s in surveyed)
    return problem, PartitionedSum(rows, lengths, marks, inner(problem))


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
        return _Surveyed(0, {}, np.zeros(0), _mark(None))
    sample = sample_rows(rows, SAMPLE_PER_PART, seed=number)
    columns = {name: np.asarray(column) for name, column in sample.columns.items()}
    return _Surveyed(rows.n, columns, np.asarray(sample.weights), _mark(rows))


def _mark(rows: Rows | None) -> int:
    """A checksum of a part, by which the next pass knows it again."""
    if rows is None:
        return 0
    mark = rows.n
    weights = () if rows.weights is None else (rows.weights,)
    for column in (*rows.columns.values(), *weights):
        mark = zlib.crc32(np.ascontiguousarray(column).view(np.uint8).data, mark)
    return mark


def require_unchanged(marks: tuple[int, ...], number: int, rows: Rows | None) -> None:
    """Every pass reads the same rows: a sum over others belongs to no data at all."""
    if number >= len(marks) or _mark(rows) != marks[number]:
        found = f"{rows.n if rows is not None else 0} rows"
        raise InvalidData(
            f"Part {number} of the data ({found}) is not what it was in the first pass; every pass "
            "must read the same rows in the same order. Draw random numbers with a fixed seed, and "
            "do not write to the source while it is read.",
            part=number,
        )


def _require_all(marks: tuple[int, ...], count: int) -> None:
    if count != len(marks):
        raise InvalidData(
            f"The data had {len(marks)} parts in the first pass, but {count} in a later one; every "
            "pass must read the same rows in the same order."
        )


@dataclass(frozen=True)
class PartitionedSum:
    """A sum over parts, each computed by the inner sum where the part is."""

    parts: Partitions
    lengths: tuple[int, ...]
    marks: tuple[int, ...]
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

    def evaluate(self, m: np.ndarray, order: int = 2, state: Any = None) -> CollapsedSums:
        a = len(m)
        value, gradient, failed = 0.0, np.zeros(a), -1
        curvature = np.zeros((a, a)) if order == 2 else None
        starts = np.cumsum((0, *self.over.lengths))
        over, marks = self.over, self.over.marks
        one = functools.partial(
            _evaluate, marks, self.problem, over.inner, self.chunk_size, m, order
        )
        count = 0
        for i, sums in enumerate(over.parts.map(one)):
            count = i + 1
            if sums is None:
                continue
            value, gradient = value + sums.value, gradient + sums.gradient
            if curvature is not None:
                curvature = curvature + np.asarray(sums.curvature)
            if failed < 0 <= sums.failed:
                failed = int(starts[i]) + sums.failed
        _require_all(marks, count)
        return CollapsedSums(value, gradient, curvature, failed)

    def respond(
        self, m: np.ndarray, asked: np.ndarray | None = None, state: Any = None
    ) -> Iterator[LocalResponse]:
        if asked is not None and (np.diff(asked) < 0).any():
            raise InvalidData("Rows of partitioned data must be asked for in increasing order.")
        starts = np.cumsum((0, *self.over.lengths))
        one = functools.partial(
            _respond,
            self.over.marks,
            self.problem,
            self.over.inner,
            self.chunk_size,
            m,
            asked,
            starts,
        )
        for responses in self.over.parts.map(one):
            yield from responses

    def density(self, points: np.ndarray, gradient: bool = False) -> Densities:
        over = self.over
        total = Densities(np.zeros(len(points)), np.zeros(points.shape) if gradient else None)
        one = functools.partial(
            _density, over.marks, self.problem, over.inner, self.chunk_size, points, gradient
        )
        count = 0
        for part in over.parts.map(one):
            count += 1
            total = total if part is None else total + part
        _require_all(over.marks, count)
        return total

    def bend(self, m: np.ndarray, R: np.ndarray, state: Any = None) -> np.ndarray:
        return self._total(len(m), "bend", m, R)

    def bends(
        self, m: np.ndarray, R: np.ndarray, state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.bend(m, R, state), self.gap_slope(m, R, state)

    def turns(self, m: np.ndarray, S: np.ndarray, moved: Directions) -> np.ndarray:
        h = count(moved)
        return self._total((h + len(S), len(m) + h), "turns", m, S, moved)

    def gaps(self, points: np.ndarray) -> np.ndarray:
        return self._total(len(points), "gaps", points)

    def gap_slope(self, m: np.ndarray, R: np.ndarray, state: Any = None) -> np.ndarray:
        return self._total(R.shape[1], "gap_slope", m, R)

    def gap_bends(
        self, m: np.ndarray, velocity: np.ndarray, turn: np.ndarray, state: Any = None
    ) -> np.ndarray:
        return self._total(len(velocity), "gap_bends", m, velocity, turn)

    def _total(self, size: int | tuple[int, int], question: str, *args: Any) -> np.ndarray:
        """The sum over the parts of an answer that is an array."""
        over, count, total = self.over, 0, np.zeros(size)
        one = functools.partial(
            _asked, over.marks, self.problem, over.inner, self.chunk_size, question, args
        )
        for part in over.parts.map(one):
            count += 1
            total = total if part is None else total + part
        _require_all(over.marks, count)
        return total


def _evaluate(
    marks: tuple[int, ...],
    problem: Problem,
    inner: LocalSum,
    chunk_size: int | None,
    m: np.ndarray,
    order: int,
    number: int,
    rows: Rows | None,
) -> CollapsedSums | None:
    """The sums over one part."""
    require_unchanged(marks, number, rows)
    if rows is None:
        return None
    return inner.bind(replace(problem, rows=rows), chunk_size).evaluate(m, order)


def _respond(
    marks: tuple[int, ...],
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
    require_unchanged(marks, number, rows)
    if rows is None:
        return []
    inside, start = None, starts[number]
    if chosen is not None:
        inside = chosen[(chosen >= start) & (chosen < start + rows.n)] - start
        if not len(inside):
            return []
    return list(inner.bind(replace(problem, rows=rows), chunk_size).respond(m, inside))


def _density(
    marks: tuple[int, ...],
    problem: Problem,
    inner: LocalSum,
    chunk_size: int | None,
    points: np.ndarray,
    gradient: bool,
    number: int,
    rows: Rows | None,
) -> Densities | None:
    """The collapsed values of one part."""
    require_unchanged(marks, number, rows)
    if rows is None:
        return None
    return inner.bind(replace(problem, rows=rows), chunk_size).density(points, gradient)


def _asked(
    marks: tuple[int, ...],
    problem: Problem,
    inner: LocalSum,
    chunk_size: int | None,
    question: str,
    args: tuple[Any, ...],
    number: int,
    rows: Rows | None,
) -> Any:
    """The answer of one part to a question with a sum over rows for an answer."""
    require_unchanged(marks, number, rows)
    if rows is None:
        return None
    return getattr(inner.bind(replace(problem, rows=rows), chunk_size), question)(*args)
