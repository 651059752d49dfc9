"""Local variables: means, standard deviations, and covariances with the global quantities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..collapsed.seam import BoundSum
from ..data.tables import shortened
from ..errors import InvalidData, InvalidModel
from ..numerics.algebra import local_covariance
from ..statement.problem import Problem
from .units import Chart


def local_dataset(
    problem: Problem,
    bound: BoundSum,
    chart: Chart,
    index: Mapping[str, int],
    name: str,
    rows: Any = None,
) -> xr.Dataset:
    """The dataset of one local statistic, `z` or `log(z)`, over rows."""
    assert problem.rows is not None
    at, shape = _coordinates(problem, name)
    positions = row_positions(rows, problem.n)
    inner = chart.inner
    quantities = chart.M[np.array(list(index.values()), dtype=int)].T
    parts: dict[str, list[np.ndarray]] = {"mean": [], "sd": [], "mfvb_sd": [], "cov": []}
    for chunk in bound.respond(inner.fit.m, positions, inner.fit.point.state):
        alone, R = chunk.Sigma[:, at][:, :, at], chunk.R[:, at]
        covariance, cross = local_covariance(alone, R, inner.Sigma)
        parts["mean"].append(chunk.z[:, at])
        parts["sd"].append(np.sqrt(np.einsum("nii->ni", covariance)))
        parts["mfvb_sd"].append(np.sqrt(np.einsum("nii->ni", chunk.V[:, at][:, :, at])))
        parts["cov"].append(cross @ quantities)
    labels = problem.rows.labels
    coords = np.arange(problem.n) if labels is None else np.asarray(labels)
    return _dataset(
        {k: np.concatenate(v) for k, v in parts.items()},
        shape,
        problem.rows.dim,
        coords if positions is None else coords[positions],
        list(index),
        name,
    )


def _dataset(
    parts: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
    dim: str,
    labels: np.ndarray,
    quantities: list[str],
    name: str,
) -> xr.Dataset:
    inner = tuple(f"{name}_dim_{i}" for i in range(len(shape)))
    n = len(labels)
    variables: dict[str, Any] = {
        k: ((dim, *inner), parts[k].reshape(n, *shape)) for k in ("mean", "sd", "mfvb_sd")
    }
    cov = parts["cov"].reshape(n, *shape, len(quantities))
    variables["cov"] = ((dim, *inner, "quantity"), cov)
    return xr.Dataset(
        variables, coords={dim: labels, "quantity": quantities}, attrs={"block": name}
    )


def _coordinates(problem: Problem, name: str) -> tuple[np.ndarray, tuple[int, ...]]:
    """Flat local coordinates of a statistic named like a block (`z`) or a label of it (`log(z)`)."""
    available: dict[str, tuple[list[int], tuple[int, ...]]] = {}
    for block, family in problem.local.blocks.items():
        start = problem.local.slices[block].start
        first = start
        for slot in family.slots:
            if slot.label is not None:
                inside = (len(slot.indices()),) if slot.shape else ()
                at = [
                    first + copy * family.size + i
                    for copy in range(family.copies)
                    for i in range(slot.size)
                ]
                available[slot.label.format(block)] = (at, (*family.batch, *inside))
            first += slot.size
    if name not in available:
        raise InvalidModel(
            f"There is no local quantity '{name}'; the local quantities are: {', '.join(available)}."
        )
    at, shape = available[name]
    return np.array(at, dtype=int), shape


def local_names(problem: Problem) -> list[str]:
    """Every local quantity that `local_dataset` knows."""
    return [
        slot.label.format(block)
        for block, family in problem.local.blocks.items()
        for slot in family.slots
        if slot.label is not None
    ]


def row_positions(rows: Any, n: int) -> np.ndarray | None:
    """Positions of the rows asked for; None stands for all."""
    if rows is None:
        return None
    if isinstance(rows, slice):
        rows = np.arange(n)[rows]
    positions = np.atleast_1d(np.asarray(rows))
    if positions.dtype == bool and positions.shape == (n,):
        positions = np.flatnonzero(positions)
    if positions.size == 0:
        raise InvalidData(f"rows={shortened(rows)} asks for no rows; ask for at least one.")
    if positions.dtype.kind not in "iu" or positions.ndim != 1:
        raise InvalidData(
            f"rows={shortened(rows)} must be row positions: whole numbers, a slice, or one True or "
            f"False for each of the {n} rows."
        )
    bad = (positions < -n) | (positions >= n)
    if bad.any():
        raise InvalidData(f"Row {positions[bad][0]} does not exist; there are {n} rows, from 0.")
    return positions % n


def stored_dataset(stored: Mapping[str, xr.Dataset], name: str, rows: Any) -> xr.Dataset:
    """The dataset of a posterior read from a file."""
    if name not in stored:
        raise InvalidModel(
            f"The file holds no local quantity '{name}'; it holds: {', '.join(stored) or 'none'}."
        )
    dataset = stored[name]
    dim = str(dataset["mean"].dims[0])
    positions = row_positions(rows, dataset.sizes[dim])
    return dataset if positions is None else dataset.isel({dim: positions})
