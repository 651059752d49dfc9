"""Local variables: means, standard deviations, and covariances with the global quantities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..collapsed.autodiff import AutodiffSum
from ..data.tables import shortened
from ..engine.response import Response
from ..errors import InvalidData, InvalidModel
from ..numerics.algebra import local_covariance
from ..statement.problem import Problem

if TYPE_CHECKING:
    import xarray as xr


class LocalVariables(Protocol):
    """The local variables of a posterior, wherever they are kept."""

    @property
    def names(self) -> list[str]:
        """Every local quantity."""

    def dataset(self, name: str, rows: Any = None) -> xr.Dataset:
        """`mean`, `sd`, `mfvb_sd` and `cov` of one of them, of all rows or those asked for."""


class NoLocals:
    """A model without local variables."""

    names: list[str] = []

    def dataset(self, name: str, rows: Any = None) -> xr.Dataset:
        """There is none."""
        raise InvalidModel(f"The model has no local blocks, so there is no local '{name}'.")


@dataclass(frozen=True, eq=False)
class StoredLocals:
    """Local variables that a file holds."""

    datasets: Mapping[str, xr.Dataset]

    @property
    def names(self) -> list[str]:
        """Every local quantity in the file."""
        return list(self.datasets)

    def dataset(self, name: str, rows: Any = None) -> xr.Dataset:
        """As it was saved."""
        if name not in self.datasets:
            raise InvalidModel(
                f"The file holds no local quantity '{name}'; it holds: "
                f"{', '.join(self.datasets) or 'none'}."
            )
        return some_rows(self.datasets[name], rows)


@dataclass(frozen=True, eq=False)
class ModelRows:
    """Local variables of a model's rows, computed when asked for.

    `quantities` are the posterior's names, with the rows of M (q, a) that give their statistics from
    those of the fit.
    """

    response: Response
    quantities: list[str]
    M: np.ndarray

    @property
    def names(self) -> list[str]:
        """Every local quantity of the model."""
        return list(_coordinates(self.response.fit.problem))

    def dataset(self, name: str, rows: Any = None) -> xr.Dataset:
        """Cov(z, α) = RΣ̂ and Cov(z) = Σ̂_z|α + RΣ̂Rᵀ. See: eq:nuisance_lrvb_est."""
        fit, Sigma = self.response.fit, self.response.Sigma
        problem = fit.problem
        assert problem.rows is not None
        available = _coordinates(problem)
        if name not in available:
            raise InvalidModel(
                f"There is no local quantity '{name}'; the local quantities are: "
                f"{', '.join(available)}."
            )
        at, shape = available[name]
        positions = row_positions(rows, problem.n)
        bound = (fit.local_sum or AutodiffSum()).bind(problem, fit.chunk_size)
        parts: dict[str, list[np.ndarray]] = {"mean": [], "sd": [], "mfvb_sd": [], "cov": []}
        for chunk in bound.respond(fit.m, positions, fit.point.state):
            alone, R = chunk.Sigma[:, at][:, :, at], chunk.R[:, at]
            covariance, cross = local_covariance(alone, R, Sigma)
            parts["mean"].append(chunk.z[:, at])
            parts["sd"].append(np.sqrt(np.einsum("nii->ni", covariance)))
            parts["mfvb_sd"].append(np.sqrt(np.einsum("nii->ni", chunk.V[:, at][:, :, at])))
            parts["cov"].append(cross @ self.M.T)
        labels = problem.rows.labels
        coords = np.arange(problem.n) if labels is None else np.asarray(labels)
        return _dataset(
            {k: np.concatenate(v) for k, v in parts.items()},
            shape,
            problem.rows.dim,
            coords if positions is None else coords[positions],
            self.quantities,
            name,
        )


def rows_of(
    response: Response, index: Mapping[str, int], M: np.ndarray | None = None
) -> LocalVariables:
    """The local variables of a fitted model; `index` are the posterior's names and coordinates.

    M (a, a) leads from the statistics of the fit to the posterior's, where they differ.
    """
    if not response.fit.problem.local.blocks:
        return NoLocals()
    at = np.array(list(index.values()), dtype=int)
    M = np.eye(len(response.m)) if M is None else M
    return ModelRows(response, list(index), M[at])


def some_rows(dataset: xr.Dataset, rows: Any) -> xr.Dataset:
    """A dataset over rows at the positions asked for."""
    dim = str(dataset["mean"].dims[0])
    positions = row_positions(rows, dataset.sizes[dim])
    return dataset if positions is None else dataset.isel({dim: positions})


def _dataset(
    parts: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
    dim: str,
    labels: np.ndarray,
    quantities: list[str],
    name: str,
) -> xr.Dataset:
    import xarray as xr

    inside = tuple(f"{name}_dim_{i}" for i in range(len(shape)))
    n = len(labels)
    variables: dict[str, Any] = {
        k: ((dim, *inside), parts[k].reshape(n, *shape)) for k in ("mean", "sd", "mfvb_sd")
    }
    cov = parts["cov"].reshape(n, *shape, len(quantities))
    variables["cov"] = ((dim, *inside, "quantity"), cov)
    return xr.Dataset(
        variables, coords={dim: labels, "quantity": quantities}, attrs={"block": name}
    )


def _coordinates(problem: Problem) -> dict[str, tuple[np.ndarray, tuple[int, ...]]]:
    """Flat local coordinates and shape of every statistic that has a name: `z`, `log(z)`."""
    available: dict[str, tuple[np.ndarray, tuple[int, ...]]] = {}
    for block, family in problem.local.blocks.items():
        first = problem.local.slices[block].start
        for slot in family.slots:
            if slot.label is not None:
                inside = (len(slot.indices()),) if slot.symmetric else slot.shape
                at = [
                    first + copy * family.size + i
                    for copy in range(family.copies)
                    for i in range(slot.size)
                ]
                shape = (*family.batch, *inside)
                available[slot.label.format(block)] = (np.array(at, dtype=int), shape)
            first += slot.size
    return available


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
