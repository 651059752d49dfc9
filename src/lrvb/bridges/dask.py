"""Dask: the sum over rows, computed where the partitions are; only sums travel.

With a `distributed` client the checked parts are kept on the workers, and the scheduler makes a
lost one again from its graph. Without one, Dask's local scheduler streams them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import dask
import numpy as np

from ..data.tables import kind_of, real, refuse_masked
from ..errors import InvalidData

T = TypeVar("T")
_JOINED = 8  # parts whose results are joined at a time


class DaskPartitions:
    """Parts as Dask delayed objects; those that functions make are kept on workers, or always if `keep`."""

    def __init__(self, parts: Sequence[Any], keep: bool = False):
        self.parts, self.keep = list(parts), keep

    def map(self, function: Callable[..., T], *own: Sequence[Any]) -> tuple[T, ...]:
        """All parts at once, each with its number and what of `own` is its, by the active scheduler."""
        task = dask.delayed(function, pure=False)
        each = zip(self.parts, *own, strict=True)
        return dask.compute(*(task(i, *part) for i, part in enumerate(each)))

    def prepared(self, function: Callable[..., Any], *own: Sequence[Any]) -> DaskPartitions:
        """The parts after a function, each with what of `own` is its, kept on workers where there are any."""
        task = dask.delayed(function, pure=False)
        parts = [task(*part) for part in zip(self.parts, *own, strict=True)]
        kept = dask.persist(*parts) if self.keep or _has_client() else parts
        return DaskPartitions(kept, self.keep)

    def folded(self, function: Callable[[Any], T], join: Callable[[Sequence[T]], T]) -> T:
        """One result of all parts: those of a few are joined where they are, then those of fewer."""
        made, joined = dask.delayed(function, pure=False), dask.delayed(join, pure=False)
        found = [made(part) for part in self.parts]
        while len(found) > 1:
            found = [joined(found[i : i + _JOINED]) for i in range(0, len(found), _JOINED)]
        return dask.compute(found[0])[0]


def frame_parts(frame: Any, names: Sequence[str]) -> DaskPartitions:
    """The partitions of some columns of a Dask DataFrame, as pandas holds them."""
    if not hasattr(frame, "columns"):
        raise InvalidData(
            f"The data are {kind_of(frame)}; give a Dask DataFrame with named columns."
        )
    return DaskPartitions(frame[list(names)].to_delayed())


def shuffled_parts(frame: Any, names: Sequence[str], by: Sequence[str]) -> DaskPartitions:
    """The partitions of some columns, after rows with equal `by` were brought into one; they are kept."""
    together = frame[list(names)].shuffle(on=list(by), shuffle_method="tasks")
    return DaskPartitions(together.to_delayed(), keep=True)


def from_columns(columns: Mapping[str, Any]) -> DaskPartitions:
    """Parts with the row chunks of the first Dask column; other columns are cut alike."""
    lazy = [c for c in columns.values() if hasattr(c, "__dask_graph__")]
    first = next((c for c in lazy if c.ndim), lazy[0])
    names, blocks = list(columns), []
    for name, column in columns.items():
        if not hasattr(column, "__dask_graph__"):
            column = _as_dask(name, column, first)
        real(name, column)
        if column.ndim == 0:
            raise InvalidData(
                f"Column '{name}' is a single value; give one value per row.", column=name
            )
        if (
            column.shape[0] != first.shape[0]
            and not np.isnan([column.shape[0], first.shape[0]]).any()
        ):
            raise InvalidData(
                f"Column '{name}' has {column.shape[0]} rows, but there is one with {first.shape[0]}; "
                "every column must have one value per row.",
                column=name,
            )
        if column.chunks[0] != first.chunks[0] and not np.isnan(first.shape[0]):
            column = column.rechunk({0: first.chunks[0]})
        if any(len(c) > 1 for c in column.chunks[1:]):
            column = column.rechunk(dict.fromkeys(range(1, column.ndim), -1))
        blocks.append(column.to_delayed().reshape(-1))
    counts = {len(b) for b in blocks}
    if len(counts) > 1:
        raise InvalidData("The Dask columns have different numbers of chunks; rechunk them alike.")
    gather = dask.delayed(functools.partial(_gathered, names))
    return DaskPartitions([gather(*block) for block in zip(*blocks, strict=True)])


def _gathered(names: Sequence[str], *columns: Any) -> dict[str, np.ndarray]:
    for name, column in zip(names, columns, strict=True):
        refuse_masked(name, column)
    return dict(zip(names, map(np.asarray, columns), strict=True))


def _as_dask(name: str, column: Any, like: Any) -> Any:
    import dask.array as da

    refuse_masked(name, column)
    values = np.asarray(column)
    if values.ndim == 0:
        raise InvalidData(
            f"Column '{name}' is the single value {column!r}; give one value per row.", column=name
        )
    return da.from_array(values, chunks=(like.chunks[0], *values.shape[1:]))


def memory_left() -> float:
    """Bytes that this process may still take, 0 where nobody tells: `distributed` brings who does."""
    try:
        import psutil
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        return 0.0
    taken = psutil.Process().memory_info().rss
    return float(max(0, min(psutil.virtual_memory().available, MEMORY_LIMIT - taken)))


def _has_client() -> bool:
    """Whether a distributed client is active."""
    try:
        from distributed import get_client

        get_client()
    except (ImportError, ValueError):
        return False
    return True
