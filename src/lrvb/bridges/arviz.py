"""Draws for ArviZ, both eras: an xarray.DataTree, wrapped for ArviZ before 1.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ..errors import LrvbError
from ..posterior.axes import Axes
from ..posterior.blocks import RealBlock

if TYPE_CHECKING:
    from ..posterior.posterior import Posterior


def to_arviz(posterior: Posterior, n: int = 1000, seed: Any = 0) -> Any:
    """`posterior` (one chain of n draws), `observed_data`, and `linear_response` (exact moments).

    ArviZ ≥ 1, or no ArviZ at all, takes the DataTree as it is; earlier versions an InferenceData.
    """
    return _wrapped(datatree(posterior, n, seed))


def _wrapped(tree: xr.DataTree) -> Any:
    """The tree as the installed ArviZ takes it."""
    try:
        import arviz
    except ImportError:  # xarray's own container is what ArviZ takes since 1.0
        return tree
    if hasattr(arviz, "from_datatree"):  # the era of InferenceData
        return arviz.from_datatree(tree)
    if int(arviz.__version__.split(".")[0]) >= 1:
        return tree
    raise LrvbError(
        f"ArviZ {arviz.__version__} is too old to take an xarray.DataTree; install arviz>=0.22."
    )


def draws_to_arviz(draws: dict[str, np.ndarray]) -> Any:
    """`posterior` alone, from draws of every block."""
    return _wrapped(xr.DataTree.from_dict({"/posterior": _posterior(draws, "certified")}))


def groups_to_arviz(groups: Mapping[str, xr.Dataset]) -> Any:
    """Datasets by the names of ArviZ's groups, with variables that a DataTree takes."""
    tree = {}
    for group, dataset in groups.items():
        content = {str(name): name for name in dataset.data_vars}
        allowed = _allowed(content, set(map(str, dataset.dims)))
        tree[f"/{group}"] = dataset.rename({old: new for new, old in allowed.items() if old != new})
    return _wrapped(xr.DataTree.from_dict(tree))


def datatree(posterior: Posterior, n: int, seed: Any) -> xr.DataTree:
    """The same as a plain xarray.DataTree."""
    how = "Gaussian copula" if posterior.weighted is None else "importance sampling"
    checked = posterior.checked.certificate
    if checked is not None and checked.polish is not None:
        how = "HMC"
    groups = {
        "/posterior": _posterior(posterior.draws(n, seed), how, posterior.axes).assign_coords(
            _coordinates(posterior)
        ),
        "/linear_response": xr.Dataset(
            {
                "mean": ("quantity", posterior.mean().to_numpy()),
                "sd": ("quantity", posterior.sd().to_numpy()),
                "mfvb_sd": ("quantity", posterior.sd(method="mfvb").to_numpy()),
                "cov": (("quantity", "other"), posterior.cov().to_numpy()),
            },
            coords={"quantity": posterior.names, "other": posterior.names},
            attrs={"elbo": posterior.elbo, "converged": int(posterior.converged)},
        ),
    }
    observed = _observed(posterior)
    if observed is not None:
        groups["/observed_data"] = observed
    return xr.DataTree.from_dict(groups)


def _posterior(
    draws: dict[str, np.ndarray],
    sampling: str = "Gaussian copula",
    axes: Axes | None = None,
) -> xr.Dataset:
    axes = Axes() if axes is None else axes
    variables = {
        name: (("chain", "draw", *axes.of(name, values.shape[1:], draws)), values[None])
        for name, values in _allowed(draws, {"chain", "draw"}).items()
    }
    n = len(next(iter(draws.values())))
    found = xr.Dataset(
        variables,
        coords={"chain": [0], "draw": np.arange(n)},
        attrs={"inference_library": "lrvb", "sampling": sampling},
    )
    return found.assign_coords(axes.labels(found.sizes))


def _coordinates(posterior: Posterior) -> dict[str, list[str]]:
    """The names of a vector's entries, where they have names of their own (fixed effects)."""
    estimate, found = posterior.estimate, {}
    for name, block in estimate.blocks.items():
        labels = list(estimate.labels[estimate.slices[name]])
        vector = isinstance(block, RealBlock) and len(block.shape) == 1
        if vector and None not in labels and labels != block.names(name):
            found[f"{name}_dim_0"] = [str(label) for label in labels]
    return found


def _observed(posterior: Posterior) -> xr.Dataset | None:
    """The columns that the model read; those kept elsewhere (Dask) stay there."""
    data = posterior.observed
    if data is None:
        return None
    columns = {
        name: column if hasattr(column, "__dask_graph__") else np.asarray(column)
        for name, column in _allowed(data, {"row"}).items()
    }
    lengths = {column.shape[:1] for column in columns.values()}
    axes = Axes() if posterior.axes is None else posterior.axes
    variables = {}
    for name, values in columns.items():
        dims = list(axes.of(name, values.shape, columns))
        if len(lengths) == 1 and dims[:1] == [f"{name}_dim_0"]:
            dims[0] = "row"
        variables[name] = (dims, values)
    found = xr.Dataset(variables)
    return found.assign_coords(axes.labels(found.sizes))


def _allowed(content: Mapping[str, Any], dimensions: set[str]) -> dict[str, Any]:
    """The same content under names that a DataTree takes: no slash, and not those of dimensions."""
    names = {name: name.replace("/", "_") for name in content}
    return {f"{new}_" if new in dimensions else new: content[old] for old, new in names.items()}
