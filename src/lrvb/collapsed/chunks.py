"""Rows in chunks of few different lengths, so that each is compiled once and memory stays flat."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidData
from ..statement.problem import Problem

_WORKING_SET = 2**21  # numbers held per chunk: 16 MB, near the size of the last-level cache
_MOST_ROWS = 2**12
_PAIRS = 2**17  # rows times points computed at a time
_VERY_FEW, _FEW_POINTS = 16, 64


@dataclass(frozen=True)
class Chunk:
    """Columns of some rows, padded to a length that recurs; padding has weight zero."""

    columns: dict[str, np.ndarray]
    weights: np.ndarray
    n: int


def chunk_length(problem: Problem, chunk_size: int | None, width: int) -> int:
    """Rows per chunk: the user's choice, or as many as keep `width` numbers a row in cache."""
    if chunk_size is None:
        return int(np.clip(_WORKING_SET // max(width, 1), 64, _MOST_ROWS))
    whole = isinstance(chunk_size, numbers.Integral) and not isinstance(chunk_size, bool)
    if not whole or chunk_size < 1:
        raise InvalidData(f"chunk_size={chunk_size!r} must be a whole number, 1 or more.")
    return int(chunk_size)


def padded(n: int) -> int:
    """The next length of the form k·2^j with k < 16: few different shapes, at most 1/8 waste.

    Up to 16 it is a power of two: there rows cost nothing, and each shape its compilation.
    """
    if n <= 16:
        return 1 << (n - 1).bit_length()
    unit = 2 ** (int(n).bit_length() - 4)
    return -(-n // unit) * unit


def chunks(problem: Problem, size: int, rows: np.ndarray | None = None) -> Iterator[Chunk]:
    """The rows in chunks of `size`, the last one padded by repeating its last row.

    Several chunks share one shape, and so one compilation; a single one is padded only a little.
    """
    assert problem.rows is not None
    columns, weights = problem.rows.columns, problem.rows.weights
    total = problem.n if rows is None else len(rows)
    for start in range(0, total, size):
        stop = min(start + size, total)
        n = stop - start
        length = size if total > size else min(size, padded(n))
        take: Any = slice(start, stop) if rows is None else rows[start:stop]
        part = {name: _pad(np.asarray(c[take]), length) for name, c in columns.items()}
        w = np.ones(n) if weights is None else np.asarray(weights[take], dtype=np.float64)
        yield Chunk(part, np.concatenate([w, np.zeros(length - n)]), n)


def point_chunks(points: np.ndarray, rows: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Points (S, a) in chunks of one length: all at once, 64 for few or many rows, else up to 1024."""
    length = _FEW_POINTS if len(points) > _VERY_FEW else len(points)
    if len(points) > _FEW_POINTS:
        length = 1 << int(np.log2(np.clip(_PAIRS // max(rows, 1), _FEW_POINTS, 1024)))
    for start in range(0, len(points), length):
        here = slice(start, min(start + length, len(points)))
        yield here, _pad(points[here], length)


def _pad(values: np.ndarray, length: int) -> np.ndarray:
    if len(values) == length:
        return values
    return np.concatenate([values, np.repeat(values[-1:], length - len(values), axis=0)])
