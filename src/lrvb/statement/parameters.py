"""Where a fit starts: each family's own start, or moments, usual parameters or another fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..data.tables import kind_of, shortened
from ..errors import InvalidModel
from ..families.base import Family
from ..numerics.double import in_double
from ..numerics.lazy import jax
from .meanfield import MeanField, Moments


class Optimum(NamedTuple):
    """Natural parameters at an optimum, or very near one: from here Newton is the shortest way."""

    alpha: MeanField
    eta: np.ndarray


@in_double
def initial(alpha: MeanField, init: Any) -> np.ndarray:
    """Flat natural parameters to start from; blocks that `init` leaves out keep their own start."""
    eta = alpha.start()
    if init is None:
        return eta
    other = optimum_in(init)
    if other is not None:
        return _from_optimum(alpha, other)
    if isinstance(init, Moments):
        init = {name: init[name] for name in init}
    if not isinstance(init, Mapping):
        raise InvalidModel(
            f"init is {kind_of(init)}; give a posterior, a fit, or a mapping from blocks to "
            "moments or usual parameters, such as {'tau': {'shape': 2.0, 'rate': 1.0}}."
        )
    for name, given in init.items():
        if name not in alpha.blocks:
            raise InvalidModel(
                f"init names '{name}', but the global blocks are: {', '.join(alpha.blocks)}."
            )
        eta[alpha.slices[name]] = _block(name, alpha.blocks[name], given)
    return eta


def optimum_in(init: Any) -> Optimum | None:
    """The optimum that a fit, a response or a posterior carries; None for anything else.

    A posterior's is that of its estimate, in the units of its quantities.
    """
    carrier = getattr(init, "estimate", init)
    if hasattr(carrier, "eta") and hasattr(carrier, "alpha"):
        return Optimum(carrier.alpha, np.array(carrier.eta))
    return None


def _from_optimum(alpha: MeanField, other: Optimum) -> np.ndarray:
    if other.alpha.blocks != alpha.blocks:
        raise InvalidModel(
            f"init has the blocks {other.alpha.blocks}, but the model has {alpha.blocks}; "
            "start from a fit of the same model."
        )
    return other.eta


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
    values = {key: _numbers(name, key, value) for key, value in given.items()}
    with np.errstate(all="ignore"):  # what is not finite is outside the domain, and reported so
        return (_from_moments if moments else _from_params)(name, family, values)


def _numbers(name: str, key: str, value: Any) -> np.ndarray:
    """A given value as finite real numbers."""
    try:
        array = np.asarray(value)
        array = np.asarray(np.nan) if array.dtype.kind == "c" else array.astype(np.float64)
    except (TypeError, ValueError):
        array = np.asarray(np.nan)
    if not np.isfinite(array).all():
        raise InvalidModel(
            f"init of block '{name}' has {key}={shortened(value)}; give finite real numbers.",
            block=name,
        )
    return array


def _from_moments(name: str, family: Family, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """Natural parameters of all copies with the given moments, which some member must have."""
    fields = zip(family.Stats._fields, family.slots, strict=True)
    arrays = [_shaped(name, k, given[k], (*family.batch, *slot.shape)) for k, slot in fields]
    target = np.asarray(family.flatten(family.Stats(*arrays))).reshape(family.copies, family.size)

    def solve(flat: Any) -> tuple[Any, Any]:
        eta = family.natural(family.unflatten(flat))
        return family.flatten(eta, natural=True), family.flatten(family.mean(eta))

    eta, found = (np.asarray(part) for part in jax.jit(jax.vmap(solve))(target))
    _require_same(name, family, target, found, "moments")
    return eta.reshape(-1)


def _from_params(name: str, family: Family, given: Mapping[str, np.ndarray]) -> np.ndarray:
    """Natural parameters of all copies with the given usual parameters."""
    usual = {k: np.shape(v) for k, v in family.params(family.start()).items()}
    batched = {k: v.ndim == len(usual[k]) + len(family.batch) for k, v in given.items()}
    arrays = {
        k: _shaped(name, k, v, (*family.batch, *usual[k]) if batched[k] else usual[k])
        for k, v in given.items()
    }
    copies = []
    for index in np.ndindex(*family.batch):
        one = {k: v[index] if batched[k] else v for k, v in arrays.items()}
        natural = zip(family.from_params(**one), family.slots, strict=True)
        eta = family.Stats(*(np.broadcast_to(np.asarray(e, float), s.shape) for e, s in natural))
        for k, back in family.params(eta).items():
            _require_same(name, family, one[k], np.asarray(back), "parameters")
        copies.append(np.asarray(family.flatten(eta, natural=True)))
    return np.concatenate(copies)


def _shaped(name: str, key: str, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise InvalidModel(
            f"init of block '{name}' has {key} of shape {value.shape}; its shape must be {shape}.",
            block=name,
        ) from None


def _require_same(name: str, family: Family, given: Any, found: Any, what: str) -> None:
    """What was given must come back: a value outside the domain does not."""
    if not np.allclose(given, found, rtol=1e-6, atol=1e-6 * np.abs(given).max()):
        raise InvalidModel(
            f"init of block '{name}' lies outside the domain of {family!r}: no member of it has "
            f"such {what}. Check its values.",
            block=name,
        )


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


def require_methods(family: Family, methods: tuple[str, ...], purpose: str) -> None:
    """What a family may leave out is missed only when it is needed, and then by its name."""
    for method in methods:
        if getattr(type(family), method) is getattr(Family, method):
            raise InvalidModel(
                f"{type(family).__name__} has no method {method}, which {purpose} need; write it, as "
                "in docs/skeletons/family.py."
            )


@in_double
def usual_parameters(alpha: MeanField, eta: np.ndarray) -> dict[str, dict[str, Any]]:
    """The usual parameters of every block, with the batch axes in front."""
    result: dict[str, dict[str, Any]] = {}
    for name, family in alpha.blocks.items():
        require_methods(family, ("params",), "its usual parameters")
        copies = eta[alpha.slices[name]].reshape(family.copies, family.size)
        each = [family.params(family.unflatten(c, natural=True)) for c in copies]
        result[name] = {
            k: np.stack([np.asarray(e[k]) for e in each]).reshape(
                (*family.batch, *np.shape(each[0][k]))
            )
            for k in each[0]
        }
    return result
