"""A mixture's rows in parts: Dask arrays, restartable chunks, memory maps, and very large arrays.

Every pass standardises the rows it reads, so that nothing of the size of X is made beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...collapsed.partitions import Chunks, Partitions
from ...data.standardise import Measures, measure, merge
from ...data.tables import Rows, real, refuse_masked
from ...errors import InvalidData
from ...models.gaussian_mixture import NormalMixture
from .scaling import Scaling

LARGE = 2**22  # numbers in X above which an array in memory is visited in slices
SLICE = 2**18  # numbers per slice


class ArraySlices:
    """An array's rows in slices, with their weights: an iterable that can be restarted."""

    def __init__(self, X: np.ndarray, weights: np.ndarray | None):
        self.X, self.weights = X, weights
        self.size = max(1, SLICE // max(1, X.shape[1]))

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        for start in range(0, len(self.X), self.size):
            here = slice(start, start + self.size)
            part = {"x": self.X[here]}
            yield part if self.weights is None else {**part, "weight": self.weights[here]}


def in_parts(X: Any, weights: Any, whole: bool = False) -> Partitions | None:
    """X in parts, where it comes in parts or is too large to copy; None for an ordinary array.

    With `whole` only what comes in parts: a start that has a row for each of X's is of one array.
    """
    if hasattr(X, "__dask_graph__"):
        from ...bridges.dask import from_columns

        if X.ndim != 2:
            raise InvalidData(f"X has {X.ndim} dimensions; it must have rows and columns.")
        return from_columns({"x": X} if weights is None else {"x": X, "weight": weights})
    if isinstance(X, Chunks):
        if weights is not None:
            raise InvalidData("sample_weight cannot accompany chunks; use a Dask or NumPy array.")
        return X.prepared(_named)
    is_array = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiu"
    if is_array and (isinstance(X, np.memmap) or (X.size > LARGE and not whole)):
        return Chunks(ArraySlices(X, weights))
    return None


def _named(part: Any) -> dict[str, Any]:
    columns = dict(part) if isinstance(part, Mapping) else {"x": part}
    for name, column in columns.items():
        real(name, column)
        refuse_masked(name, column)
    return {name: np.asarray(column) for name, column in columns.items()}


def measure_parts(parts: Partitions) -> Measures:
    """One pass: the measures of every part, put together."""
    whole: Measures | None = None
    for part in parts.map(_measured):
        if part is None:
            continue
        if whole is not None and len(part.center) != len(whole.center):
            raise InvalidData(
                f"A part of X has {len(part.center)} columns, but another has {len(whole.center)}."
            )
        whole = part if whole is None else merge(whole, part)
    if whole is None:
        raise InvalidData("X has no rows: Found array with 0 sample(s); at least 2 are needed.")
    return whole


def _measured(number: int, part: Mapping[str, Any]) -> Measures | None:
    x = np.asarray(part["x"])
    if x.ndim != 2:
        raise InvalidData(f"Part {number} of X has shape {x.shape}; it must have rows and columns.")
    if not len(x):
        return None
    x = x.astype(np.float64, copy=False)
    if not np.isfinite(x).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(x))[0])
        raise InvalidData(
            f"Part {number} of X, row {row}, column {column}: the value {x[row, column]} must be "
            "finite. Input X contains NaN or infinity; drop or fill the row.",
            row=row,
            column=column,
        )
    w = None if "weight" not in part else _weights(number, part["weight"])
    if w is not None and not w.any():
        return None
    return measure(x, w)


def _weights(number: int, weights: Any) -> np.ndarray:
    w = np.asarray(weights, dtype=float)
    if not np.isfinite(w).all() or (w < 0).any():
        raise InvalidData(
            f"Part {number} of sample_weight holds a value that is negative or not finite."
        )
    return w


class StandardisedMixture(NormalMixture):
    """The mixture of x′ = (x − center)/scale, for rows that arrive in the data's own units."""

    prepares_rows = True

    def __init__(self, K: int, priors: tuple[Any, ...], scaling: Scaling, weighted: bool):
        super().__init__(K, *priors)
        self.center, self.scale = scaling
        self.weighted = weighted
        self.columns = ("x", "weight") if weighted else ("x",)

    def prepare(self, data: Mapping[str, Any]) -> Rows:
        """Standardised rows, counted by their weights."""
        x = (np.asarray(data["x"], dtype=np.float64) - self.center) / self.scale
        weights = np.asarray(data["weight"], dtype=float) if self.weighted else None
        return Rows({"x": x}, weights=weights)
