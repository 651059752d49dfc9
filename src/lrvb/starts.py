"""Where a fit starts: each family's own start, or moments, usual parameters or another fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from .errors import InvalidModel
from .families.base import Family
from .meanfield import MeanField, Moments
from .precision import in_double


@in_double
def initial(alpha: MeanField, init: Any) -> np.ndarray:
    """Flat natural parameters to start from; blocks that `init` leaves out keep their own start."""
    eta = alpha.start()
    if init is None:
        return eta
    other = getattr(init, "fit", init)  # a posterior carries its fit
    if hasattr(other, "eta") and hasattr(other, "alpha"):
        return _from_fit(alpha, other)
    if isinstance(init, Moments):
        init = {name: init[name] for name in init}
    if not isinstance(init, Mapping):
        raise InvalidModel(
            f"init is a {type(init).__name__}; give a posterior, a fit, or a mapping from blocks to "
            "moments or usual parameters, such as {'tau': {'shape': 2.0, 'rate': 1.0}}."
        )
    for name, given in init.items():
        if name not in alpha.blocks:
            raise InvalidModel(
                f"init names '{name}', but the global blocks are: {', '.join(alpha.blocks)}."
            )
        eta[alpha.slices[name]] = _block(name, alpha.blocks[name], given)
    return eta


def _from_fit(alpha: MeanField, other: Any) -> np.ndarray:
    if other.alpha.blocks != alpha.blocks:
        raise InvalidModel(
            f"init has the blocks {other.alpha.blocks}, but the model has {alpha.blocks}; "
            "start from a fit of the same model."
        )
    return np.array(other.eta)


def _block(name: str, family: Family, given: Any) -> np.ndarray:
    """Flat natural parameters of all copies from moments or usual parameters."""
    if isinstance(given, family.Stats):
        given = given._asdict()
    if not isinstance(given, Mapping):
        raise InvalidModel(
            f"init of block '{name}' is {given!r}; give a mapping with the moments "
            f"{family.Stats._fields} or the parameters {family.parameters}."
        )
    moments = set(given) == set(family.Stats._fields)
    if not moments and set(given) != set(family.parameters):
        raise InvalidModel(
            f"init of block '{name}' has {sorted(given)}; give the moments "
            f"{list(family.Stats._fields)} or the parameters {list(family.parameters)}."
        )
    shapes = [slot.shape for slot in family.slots]
    if moments:
        arrays = [
            np.broadcast_to(np.asarray(given[k], float), (*family.batch, *shape))
            for k, shape in zip(family.Stats._fields, shapes, strict=True)
        ]
        flat = np.asarray(family.flatten(family.Stats(*arrays)))
        solve = jax.jit(
            jax.vmap(lambda f: family.flatten(family.natural(family.unflatten(f)), natural=True))
        )
        return np.asarray(solve(flat.reshape(family.copies, family.size))).reshape(-1)
    usual = family.params(family.start())
    copies = []
    for index in np.ndindex(*family.batch):
        one = {k: _of_copy(v, index, np.ndim(usual[k])) for k, v in given.items()}
        eta = family.from_params(**one)
        eta = family.Stats(
            *(np.broadcast_to(np.asarray(e, float), s) for e, s in zip(eta, shapes, strict=True))
        )
        copies.append(np.asarray(family.flatten(eta, natural=True)))
    return np.concatenate(copies)


def _of_copy(value: Any, index: tuple[int, ...], ndim: int) -> np.ndarray:
    """A parameter's value for one copy: shared unless it has the batch axes in front."""
    value = np.asarray(value, dtype=float)
    return value[index] if value.ndim == ndim + len(index) else value


@in_double
def invalid_parts(alpha: MeanField, eta: np.ndarray) -> list[tuple[str, str]]:
    """Block and name of every copy (`mu`, `mu[2]`) whose natural parameters leave their domain."""
    return [
        (block, label)
        for block, label, here in alpha.parts()
        if not bool(
            alpha.blocks[block].valid(alpha.blocks[block].unflatten(eta[here], natural=True))
        )
    ]


@in_double
def usual_parameters(alpha: MeanField, eta: np.ndarray) -> dict[str, dict[str, Any]]:
    """The usual parameters of every block, with the batch axes in front."""
    result: dict[str, dict[str, Any]] = {}
    for name, family in alpha.blocks.items():
        copies = eta[alpha.slices[name]].reshape(family.copies, family.size)
        each = [family.params(family.unflatten(c, natural=True)) for c in copies]
        result[name] = {
            k: np.stack([np.asarray(e[k]) for e in each]).reshape(
                *family.batch, *np.shape(each[0][k])
            )
            for k in each[0]
        }
    return result
