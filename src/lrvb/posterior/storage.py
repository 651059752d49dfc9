"""A posterior in one file: arrays in an .npz archive with a JSON header, no pickle."""

from __future__ import annotations

import errno
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.files import file_path, whole
from ..engine.convergence import Convergence
from ..errors import InvalidData, InvalidModel, LrvbError
from ..families.base import Family
from ..numerics.fingerprint import fingerprint
from .blocks import Block, DerivedBlock, FamilyBlock, RealBlock, Support
from .estimate import Estimate
from .locals import StoredLocals
from .posterior import Posterior
from .weighted import WeightedDraws

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
CONVERGENCE = ("elbo", "n_iter", "converged", "reason", "stationarity")


def save(posterior: Posterior, path: Path, *, local: bool = True) -> Path:
    """Write to a temporary name beside the target, then rename: never half a file."""
    estimate, how = posterior.estimate, posterior.convergence
    arrays: dict[str, np.ndarray] = {
        "m": estimate.m,
        "V": estimate.V,
        "Sigma": estimate.Sigma,
        "eta": estimate.eta,
        "trace": how.trace,
    }
    header: dict[str, Any] = {
        "format": FORMAT,
        "blocks": {name: _describe(name, block) for name, block in estimate.blocks.items()},
        "labels": list(estimate.labels),
        "supports": [list(support) for support in estimate.supports],
        "elbo": float(how.elbo),
        "n_iter": int(how.n_iter),
        "converged": bool(how.converged),
        "reason": how.reason,
        "stationarity": float(how.stationarity),
        "local": {},
        "absent": posterior.absent,
    }
    if posterior.weighted is not None:
        arrays["weighted/values"] = posterior.weighted.values
        arrays["weighted/weights"] = posterior.weighted.weights
        arrays["weighted/root"] = posterior.weighted.root
    for name in posterior.local_variables.names if local else []:
        dataset = posterior.local(name)
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
    path = file_path(path)
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
    blocks: dict[str, Block] = {}
    start = 0
    for name, spec in header["blocks"].items():
        if "shape" in spec:
            kind = DerivedBlock if spec.get("derived") else RealBlock
            blocks[name] = kind(tuple(spec["shape"]))
            continue
        family = _family(name, spec)
        stop = start + family.copies * family.size
        blocks[name] = FamilyBlock(family, arrays["eta"][start:stop])
        start = stop
    if len(arrays["eta"]) != start:
        raise ValueError(f"eta has {len(arrays['eta'])} entries, not {start}")
    estimate = Estimate(
        blocks,
        arrays["m"],
        arrays["V"],
        arrays["Sigma"],
        tuple(header["labels"]),
        tuple(Support(*support) for support in header["supports"]),
    )
    return Posterior(
        estimate,
        Convergence(trace=arrays["trace"], **{key: header[key] for key in CONVERGENCE}),
        local_variables=StoredLocals(
            {name: _dataset(name, spec, arrays) for name, spec in header["local"].items()}
        ),
        origin="read from a file",
        weighted=_weighted(arrays),
        absent=header.get("absent"),
    )


def _weighted(arrays: dict[str, np.ndarray]) -> WeightedDraws | None:
    """The weighted draws that a file holds, if any."""
    if "weighted/weights" not in arrays:
        return None
    return WeightedDraws(*(arrays[f"weighted/{k}"] for k in ("values", "weights", "root")))


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


def _describe(name: str, block: Block) -> dict[str, Any]:
    """A block as JSON: the shape of real numbers; where a family's class lives and its arguments."""
    if isinstance(block, RealBlock):
        return {"shape": list(block.shape), "derived": isinstance(block, DerivedBlock)}
    if not isinstance(block, FamilyBlock):
        raise InvalidModel(f"Block '{name}' cannot be saved: files do not know {block!r}.")
    family = block.family
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
