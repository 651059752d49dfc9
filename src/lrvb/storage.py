"""A posterior in one file: arrays in an .npz archive with a JSON header, no pickle."""

from __future__ import annotations

import importlib
import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import families
from .errors import InvalidData, InvalidModel
from .families.base import Family
from .fitting import Fit, Point
from .meanfield import MeanField
from .posterior import Posterior
from .response import Response

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
        "elbo": fit.elbo,
        "n_iter": fit.n_iter,
        "converged": fit.converged,
        "reason": fit.reason,
        "stationarity": fit.stationarity,
        "local": {},
        "observed": [],
    }
    for name, dataset in (_local_datasets(posterior) if local else {}).items():
        dim = str(dataset["mean"].dims[0])
        header["local"][name] = {k: list(map(str, v.dims)) for k, v in dataset.data_vars.items()}
        header["local"][name]["dim"] = dim
        for variable, values in dataset.data_vars.items():
            arrays[f"local/{name}/{variable}"] = values.values
        arrays[f"local/{name}/labels"] = _plain(dataset[dim].values)
        header["local"][name]["quantities"] = [str(q) for q in dataset["quantity"].values]
    arrays["header"] = np.array(json.dumps(header))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
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
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise InvalidData(f"'{path}' is not a posterior saved by lrvb ({error}).") from error
    if header["format"] > FORMAT:
        raise InvalidData(f"'{path}' was written by a newer lrvb; upgrade to read it.")
    alpha = MeanField({name: _family(name, spec) for name, spec in header["blocks"].items()})
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


def _local_datasets(posterior: Posterior) -> dict[str, xr.Dataset]:
    from .locals import local_names

    if posterior._stored_local is not None:
        return posterior._stored_local
    problem = posterior.fit.problem
    names = local_names(problem) if problem is not None else []
    return {name: posterior.local(name) for name in names}


def _dataset(name: str, spec: dict[str, Any], arrays: dict[str, np.ndarray]) -> xr.Dataset:
    import xarray as xr

    variables = {
        k: (tuple(dims), arrays[f"local/{name}/{k}"])
        for k, dims in spec.items()
        if k not in ("dim", "quantities")
    }
    coords = {spec["dim"]: arrays[f"local/{name}/labels"], "quantity": spec["quantities"]}
    return xr.Dataset(variables, coords=coords, attrs={"block": name})


def _plain(labels: np.ndarray) -> np.ndarray:
    """Labels that need no pickle: objects become text."""
    return labels.astype(str) if labels.dtype == object else labels


def _describe(name: str, family: Family) -> dict[str, Any]:
    """A family as JSON: where its class lives and its arguments."""
    try:
        return {
            "module": type(family).__module__,
            "class": type(family).__qualname__,
            "arguments": dict(family.describe()),
        }
    except InvalidModel as error:
        raise InvalidModel(f"Block '{name}' cannot be saved: {error}") from error


def _family(name: str, spec: dict[str, Any]) -> Family:
    """The family of a saved block: ours, or one of the user's that can be imported."""
    found = getattr(families, spec["class"], None)
    if found is None or found.__module__ != spec["module"]:
        try:
            found = getattr(importlib.import_module(spec["module"]), spec["class"])
        except (ImportError, AttributeError) as error:
            raise InvalidData(
                f"The family {spec['module']}.{spec['class']} of block '{name}' cannot be imported; "
                "make its module importable and load again."
            ) from error
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in spec["arguments"].items()}
    if not (isinstance(found, type) and issubclass(found, Family)):
        raise InvalidData(f"{spec['module']}.{spec['class']} of block '{name}' is not a family.")
    return found(**arguments)
