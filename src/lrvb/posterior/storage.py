"""A posterior in one file: arrays in an .npz archive with a JSON header, no pickle."""

from __future__ import annotations

import errno
import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.files import whole
from ..engine.fitting import Fit
from ..engine.objective import Point
from ..engine.response import Response
from ..errors import InvalidData, InvalidModel, LrvbError
from ..families.base import Family
from ..numerics.fingerprint import fingerprint
from ..statement.meanfield import MeanField
from .posterior import Posterior

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1


def save(posterior: Posterior, path: Path, *, local: bool = True) -> Path:
    """Write to a temporary name beside the target, then rename: never half a file."""
    fit, response = posterior.fit, posterior.response
    arrays: dict[str, np.ndarray] = {
        "eta": fit.eta,
        "m": fit.m,
        "C": response.C,
        "Sigma": response.Sigma,
        "trace": fit.trace,
    }
    header: dict[str, Any] = {
        "format": FORMAT,
        "blocks": {name: _describe(name, f) for name, f in posterior.response.alpha.blocks.items()},
        "labels": posterior.labels,
        "elbo": float(fit.elbo),
        "n_iter": int(fit.n_iter),
        "converged": bool(fit.converged),
        "reason": fit.reason,
        "stationarity": float(fit.stationarity),
        "local": {},
    }
    for name, dataset in (_local_datasets(posterior) if local else {}).items():
        dim = str(dataset["mean"].dims[0])
        header["local"][name] = {
            "dim": dim,
            "dims": {str(k): list(map(str, v.dims)) for k, v in dataset.data_vars.items()},
            "quantities": [str(q) for q in dataset["quantity"].values],
        }
        for variable, values in dataset.data_vars.items():
            arrays[f"local/{name}/{variable}"] = values.values
        labels = dataset[dim].values
        if labels.dtype == object:
            header["local"][name]["labels"] = [_plain(label) for label in labels.tolist()]
        else:
            arrays[f"local/{name}/labels"] = labels
    arrays["header"] = np.array(json.dumps(header))
    try:
        if not path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder")
        with whole(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise InvalidData(
            f"The posterior cannot be written to '{path}' ({error.strerror or error}); give the name "
            "of a file in a folder that exists and may be written to."
        ) from error
    return path


def load(path: str | Path) -> Posterior:
    """Read a posterior written by `Posterior.save`."""
    path = Path(path)
    if not path.exists():
        raise InvalidData(f"There is no file '{path}'; give the path that was passed to save.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays["header"]))
        if header["format"] > FORMAT:
            raise InvalidData(f"'{path}' was written by a newer lrvb; upgrade to read it.")
        return _posterior(header, arrays)
    except LrvbError:
        raise
    except Exception as error:  # whatever is wrong with the file, it is not one of ours
        raise InvalidData(
            f"'{path}' is not a posterior saved by lrvb, or it is damaged; save it again."
        ) from error


def _posterior(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Posterior:
    """The posterior from the content of a file."""
    alpha = MeanField({name: _family(name, spec) for name, spec in header["blocks"].items()})
    a = alpha.size
    for name, shape in {"eta": (a,), "m": (a,), "C": (a, a), "Sigma": (a, a)}.items():
        if arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {shape}")
    point = Point(
        eta=arrays["eta"],
        m=arrays["m"],
        C=arrays["C"],
        elbo=header["elbo"],
        gradient=arrays["eta"],
        H=None,
    )
    fit = Fit(
        problem=None,
        point=point,
        alpha=alpha,
        trace=arrays["trace"],
        n_iter=header["n_iter"],
        converged=header["converged"],
        reason=header["reason"],
        stationarity=header["stationarity"],
    )
    stored = {name: _dataset(name, spec, arrays) for name, spec in header["local"].items()}
    response = Response(fit, arrays["C"], arrays["Sigma"])
    return Posterior(response, local=stored, labels=header["labels"])


def _local_datasets(posterior: Posterior) -> Mapping[str, xr.Dataset]:
    from .locals import local_names

    if posterior._stored_local is not None:
        return posterior._stored_local
    problem = posterior.fit.problem
    names = local_names(problem) if problem is not None else []
    return {name: posterior.local(name) for name in names}


def _dataset(name: str, spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> xr.Dataset:
    import xarray as xr

    variables = {k: (tuple(dims), arrays[f"local/{name}/{k}"]) for k, dims in spec["dims"].items()}
    labels = arrays.get(f"local/{name}/labels")
    if labels is None:
        labels = np.empty(len(spec["labels"]), dtype=object)
        labels[:] = [tuple(label) if isinstance(label, list) else label for label in spec["labels"]]
    coords = {spec["dim"]: labels, "quantity": spec["quantities"]}
    return xr.Dataset(variables, coords=coords, attrs={"block": name})


def _plain(label: Any) -> Any:
    """A row label that JSON can hold; what it cannot becomes text."""
    if isinstance(label, tuple):
        return [_plain(part) for part in label]
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def _describe(name: str, family: Family) -> dict[str, Any]:
    """A family as JSON: where its class lives and its arguments, so that it can be made again."""
    try:
        spec = {
            "module": type(family).__module__,
            "class": type(family).__qualname__,
            "arguments": dict(family.describe()),
        }
        again = _family(name, spec)
    except LrvbError as error:
        raise InvalidModel(f"Block '{name}' cannot be saved: {error}") from error
    if fingerprint(again) != fingerprint(family):
        raise InvalidModel(
            f"Block '{name}' cannot be saved: {spec['class']}.describe() gives arguments that make "
            f"{again!r}, not {family!r}."
        )
    return spec


def _family(name: str, spec: dict[str, Any]) -> Family:
    """The family of a saved block: ours, or one of the user's that can be imported."""
    where = f"{spec['module']}.{spec['class']}"
    try:
        found = importlib.import_module(spec["module"])
        for part in spec["class"].split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidData(
            f"The family {where} of block '{name}' cannot be imported; define it in a module that "
            "can be, not inside a function, and try again."
        ) from error
    if not (isinstance(found, type) and issubclass(found, Family)):
        raise InvalidData(f"{where} of block '{name}' is not a family.")
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in spec["arguments"].items()}
    try:
        return found(**arguments)
    except TypeError as error:
        raise InvalidData(
            f"{where} of block '{name}' cannot be made from what its describe() gave: {error}."
        ) from error
