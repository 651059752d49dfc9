"""A posterior in one file: arrays in an .npz archive with a JSON header, no pickle."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .. import families as shipped
from ..data.files import file_path, unwritable, whole
from ..engine.convergence import Convergence
from ..errors import InvalidData, InvalidModel, LrvbError
from ..families.base import Family
from ..numerics.double import in_double
from ..numerics.fingerprint import fingerprint
from ..statement.parameters import invalid_parts
from .archive import Archive, require_covariance, require_finite, require_sds
from .axes import Axes
from .blocks import Block, DerivedBlock, FamilyBlock, RealBlock, Support
from .certification import ASK, Checked
from .estimate import Estimate
from .locals import StoredLocals
from .posterior import Posterior
from .stored_certificate import restored, stored
from .weighted import WeightedDraws

if TYPE_CHECKING:
    import xarray as xr

T = TypeVar("T")

FORMAT = 1
SHIPPED = [getattr(shipped, name) for name in shipped.__all__]
CONVERGENCE = ("elbo", "n_iter", "converged", "reason", "stationarity")


def save(
    posterior: Posterior,
    path: Path,
    *,
    local: bool = True,
    more: Mapping[str, Any] | None = None,
    beside: Mapping[str, np.ndarray] | None = None,
) -> Path:
    """Write to a temporary name beside the target, then rename: never half a file.

    `more` goes into the header, and the arrays `beside` into the file.
    """
    estimate, how = posterior.estimate, posterior.convergence
    arrays: dict[str, np.ndarray] = {
        **(beside or {}),
        "m": estimate.m,
        "V": estimate.V,
        "Sigma": estimate.Sigma,
        "eta": estimate.eta,
        "trace": how.trace,
    }
    header: dict[str, Any] = {
        **(more or {}),
        "format": FORMAT,
        "blocks": {name: _describe(name, block) for name, block in estimate.blocks.items()},
        "labels": list(estimate.labels),
        "supports": [list(support) for support in estimate.supports],
        "elbo": float(how.elbo),
        "n_iter": int(how.n_iter),
        "converged": bool(how.converged),
        "reason": how.reason,
        "stationarity": float(how.stationarity),
        "unit": how.unit,
        "local": {},
        "absent": posterior.absent,
        "quick": [list(pair) for pair in posterior.checked.quick],
        "unchecked": posterior.checked.reason,
        "dims": {name: list(dims) for name, dims in posterior.axes.dims.items()},
        "coords": {
            dim: [_plain(label) for label in labels]
            for dim, labels in posterior.axes.coords.items()
        },
    }
    if posterior.weighted is not None:
        header["verdicts"] = list(posterior.weighted.verdicts)
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
    if posterior.checked.certificate is not None:
        told, kept = stored(posterior.checked.certificate)
        header |= told
        arrays |= kept
    arrays["header"] = np.array(json.dumps(header))
    try:
        with whole(path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise unwritable(path, error.strerror or str(error)) from error
    return path


def load(path: str | Path, *, families: Iterable[type[Family]] = ()) -> Posterior:
    """Read a posterior written by `Posterior.save`.

    Nothing that a file names is imported: families of your own are passed as classes.
    """
    known = known_families(families)
    return read(path, lambda header, archive: posterior_of(header, archive, known))


def read(path: str | Path, make: Callable[[dict[str, Any], Archive], T]) -> T:
    """What `make` makes of a file's header and arrays; whatever is wrong with the file is one sentence."""
    path = file_path(path)
    if not path.exists():
        raise InvalidData(f"There is no file '{path}'; give the path that was passed to save.")
    if path.is_dir():
        raise InvalidData(f"'{path}' is a folder; give the path that was passed to save.")
    try:
        with Archive(path) as archive:
            header = archive.header()
            if header["format"] > FORMAT:
                raise InvalidData(f"'{path}' was written by a newer lrvb; upgrade to read it.")
            return make(header, archive)
    except LrvbError:
        raise
    except Exception as error:  # whatever is wrong with the file, it is not one of ours
        reason = str(error).partition("\n")[0][:200]
        raise InvalidData(
            f"'{path}' is not a posterior saved by lrvb, or it is damaged ({reason}); save it again."
        ) from error


def known_families(families: Iterable[type[Family]]) -> dict[str, type[Family]]:
    """The classes that a file may name: ours, and those that were passed."""
    if not isinstance(families, Iterable):
        raise InvalidModel(f"families={families!r} must be a list of classes, such as [MyFamily].")
    known = {}
    for family in [*SHIPPED, *families]:
        if not (isinstance(family, type) and issubclass(family, Family)):
            raise InvalidModel(f"families holds {family!r}; give classes derived from lrvb.Family.")
        known[_where(family)] = family
    return known


def _where(family: type[Family]) -> str:
    return f"{family.__module__}.{family.__qualname__}"


@in_double
def posterior_of(
    header: dict[str, Any], archive: Archive, known: Mapping[str, type[Family]]
) -> Posterior:
    """The posterior from the content of a file."""
    made: dict[str, RealBlock | Family] = {}
    for name, spec in header["blocks"].items():
        kind = DerivedBlock if spec.get("derived") else RealBlock
        real = "shape" in spec
        made[name] = kind(_shape(spec["shape"])) if real else _family(name, spec, known)
    sizes = {
        name: part.size if isinstance(part, RealBlock) else part.copies * part.size
        for name, part in made.items()
    }
    a = sum(sizes.values())
    natural = sum(sizes[name] for name, part in made.items() if isinstance(part, Family))
    if not len(header["labels"]) == len(header["supports"]) == a:
        raise ValueError(f"there must be {a} labels and supports")
    m, eta = archive.array("m", (a,)), archive.array("eta", (natural,))
    V, Sigma = archive.array("V", (a, a)), archive.array("Sigma", (a, a))
    require_finite("m", m)
    require_covariance("V", V)
    require_covariance("Sigma", Sigma)
    blocks: dict[str, Block] = {}
    start = 0
    for name, part in made.items():
        if isinstance(part, RealBlock):
            blocks[name] = part
            continue
        blocks[name] = FamilyBlock(part, eta[start : start + sizes[name]])
        start += sizes[name]
    estimate = Estimate(
        blocks, m, V, Sigma, tuple(header["labels"]), tuple(map(_support, header["supports"]))
    )
    outside = invalid_parts(estimate.alpha, estimate.eta)
    if outside:
        raise ValueError(f"the natural parameters of '{outside[0][1]}' lie outside their domain")
    return Posterior(
        estimate,
        Convergence(
            trace=archive.array("trace"),
            unit=header.get("unit", "iteration"),
            **{key: header[key] for key in CONVERGENCE},
        ),
        local_variables=StoredLocals(
            {name: _dataset(name, spec, archive) for name, spec in header["local"].items()}
        ),
        origin="read from a file",
        checked=Checked(
            restored(header, archive, estimate),
            _pairs(header, len(estimate.index)),
            _reason(header),
        ),
        weighted=_weighted(archive, a, header),
        absent={str(k): str(v) for k, v in header.get("absent", {}).items()},
        axes=Axes(
            {str(name): tuple(map(str, dims)) for name, dims in header.get("dims", {}).items()},
            {str(dim): list(labels) for dim, labels in header.get("coords", {}).items()},
        ),
    )


def _pairs(header: Mapping[str, Any], n: int) -> tuple[tuple[str, str], ...]:
    """Verdicts without draws, with their reasons, where a file has any."""
    found = tuple((str(verdict), str(why)) for verdict, why in header.get("quick", []))
    if len(found) not in (0, n):
        raise ValueError(f"there must be {n} verdicts, or none")
    return found


def _reason(header: Mapping[str, Any]) -> str:
    """Why there is no verdict; what a certificate is made from is not in a file."""
    given = str(header.get("unchecked", "the file is of an older version"))
    return given.replace(ASK, "a file holds no density to check it against")


def _weighted(archive: Archive, a: int, header: Mapping[str, Any]) -> WeightedDraws | None:
    """The weighted draws that a file holds, if any."""
    if "weighted/weights" not in archive.names:
        return None
    weights, root = archive.array("weighted/weights"), archive.array("weighted/root")
    n, p = len(weights), root.shape[-1]
    found = WeightedDraws(
        archive.array("weighted/values", (n, a)),
        archive.array("weighted/weights", (n,)),
        archive.array("weighted/root", (n, p, p)),
        tuple(str(verdict) for verdict in header["verdicts"]),
    )
    for name in ("values", "weights", "root"):
        require_finite(f"weighted/{name}", getattr(found, name))
    if p > a or (weights < 0).any() or not np.isclose(weights.sum(), 1):
        raise ValueError("the weights of the draws must be positive and sum to one")
    return found


def _shape(shape: Any) -> tuple[int, ...]:
    if not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ValueError(f"{shape} is no shape")
    return tuple(shape)


def _support(support: Any) -> Support:
    kind, log = support
    if kind not in ("real", "positive", "negative") or not isinstance(log, int | None):
        raise ValueError(f"{support} is no support")
    return Support(kind, log)


def _dataset(name: str, spec: dict[str, Any], archive: Archive) -> xr.Dataset:
    import xarray as xr

    values = {k: archive.array(f"local/{name}/{k}") for k in spec["dims"]}
    require_sds(name, values)
    variables = {k: (tuple(dims), values[k]) for k, dims in spec["dims"].items()}
    if f"local/{name}/labels" in archive.names:
        labels = archive.array(f"local/{name}/labels")
    else:
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
        again = _family(name, spec, {_where(type(family)): type(family)})
    except LrvbError as error:
        raise InvalidModel(f"Block '{name}' cannot be saved: {error}") from error
    if fingerprint(again) != fingerprint(family):
        raise InvalidModel(
            f"Block '{name}' cannot be saved: {spec['class']}.describe() gives arguments that make "
            f"{again!r}, not {family!r}."
        )
    return spec


def _family(name: str, spec: dict[str, Any], known: Mapping[str, type[Family]]) -> Family:
    """The family of a saved block: ours, or one of the user's that was passed."""
    where = f"{spec['module']}.{spec['class']}"
    if where not in known:
        raise InvalidData(
            f"The family {where} of block '{name}' is not one of lrvb's; pass its class, as in "
            f"lrvb.load(path, families=[{spec['class']}])."
        )
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in spec["arguments"].items()}
    try:
        return known[where](**arguments)
    except TypeError as error:
        raise InvalidData(
            f"{where} of block '{name}' cannot be made from what its describe() gave: {error}."
        ) from error
