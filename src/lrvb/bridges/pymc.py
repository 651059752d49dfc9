"""PyMC models as log densities: `lrvb.from_pymc`. Bambi's are PyMC's: `bambi_model.backend.model`."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..blackbox.density import LIKELIHOOD, Density, first_line
from ..data.tables import kind_of
from ..errors import InvalidModel, LrvbError
from ..numerics.double import in_double
from .log_density import BlackBox, around, coordinate_names

RELATIVE_STEP = (
    6e-6  # the third root of the rounding: errors of 1e-10 from it and from the third slope
)


def from_pymc(model: Any) -> BlackBox:
    """A PyMC model with its data. Variables and deterministics keep their names, dims and coords.

    A Bambi model is built first, then `lrvb.from_pymc(bambi_model.backend.model)`.
    """
    with _own_settings():
        try:
            import pymc
            from pymc.sampling import jax as _  # noqa: F401 - not part of pymc's own import
        except ImportError as error:
            raise ImportError(
                "lrvb.from_pymc needs PyMC, which is not installed: pip install 'lrvb[pymc]'.",
                name="pymc",
            ) from error
        if not isinstance(model, pymc.Model):
            hint = (
                "; of a Bambi model give model.backend.model" if hasattr(model, "backend") else ""
            )
            raise InvalidModel(f"model is {kind_of(model)}; it must be a pymc.Model{hint}.")
        try:
            _state_erfcx()
            _state_betainc()
            return BlackBox(_density(model))
        except LrvbError:
            raise
        except Exception as error:
            raise InvalidModel(
                f"PyMC could not turn this model into JAX: {type(error).__name__}: {first_line(error)}"
                f"{_remedy(str(error))}"
            ) from error


def _remedy(said: str) -> str:
    if "RandomType" in said:
        return (
            " Its log density draws random numbers, as with pm.Minibatch or pm.Simulator: give all data, "
            "and a likelihood that can be computed."
        )
    if "No JAX conversion" in said:
        return " State that part with functions of pytensor.tensor, which have one."
    return ""


@contextlib.contextmanager
def _own_settings() -> Iterator[None]:
    """What PyMC's JAX backend changes for all when it is imported is set back.

    JAX's global precision, and in XLA_FLAGS the number of devices, which processes would inherit.
    """
    before, flags = bool(jax.config.read("jax_enable_x64")), os.environ.get("XLA_FLAGS")
    jax.devices()  # counted now, before there seem to be a hundred
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags


def _state_erfcx() -> None:
    """e^(x²)·erfc(x) in JAX, which censored normals have, where PyTensor leaves it to an absent library.

    By log Φ, which has a tail: e^(x²)·2Φ(−√2·x).
    """
    import importlib.util

    from pytensor.link.jax.dispatch import jax_funcify
    from pytensor.scalar.math import Erfcx

    if importlib.util.find_spec("tensorflow_probability") is not None:
        return

    @jax_funcify.register(Erfcx)
    def _(op: Any, **_: Any) -> Any:
        return lambda x: 2 * jnp.exp(x**2 + jax.scipy.special.log_ndtr(-np.sqrt(2) * x))


def _state_betainc() -> None:
    """I_x(a, b) with slopes in a and b too, by central differences: JAX has that in x alone.

    Truncated, censored and hurdle negative binomials have it in their normalisers, as t distributions do.
    """
    from pytensor.link.jax.dispatch import jax_funcify
    from pytensor.scalar.math import BetaInc

    @jax_funcify.register(BetaInc)
    def _(op: Any, **_: Any) -> Any:
        return _betainc


@jax.custom_jvp
def _betainc(a: Any, b: Any, x: Any) -> Any:
    return jax.scipy.special.betainc(a, b, x)


@_betainc.defjvp
def _(at: tuple[Any, Any, Any], along: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    (a, b, x), (da, db, dx) = at, along
    special, step = jax.scipy.special, RELATIVE_STEP
    in_a = (_betainc(a * (1 + step), b, x) - _betainc(a * (1 - step), b, x)) / (2 * step * a)
    in_b = (_betainc(a, b * (1 + step), x) - _betainc(a, b * (1 - step), x)) / (2 * step * b)
    in_x = jnp.exp(special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b))
    return _betainc(a, b, x), in_a * da + in_b * db + in_x * dx


@in_double
def _density(model: Any) -> Density:
    from pymc.sampling.jax import get_jaxified_graph
    from pymc.util import is_transformed_name

    for variable in model.free_RVs:
        if np.issubdtype(np.dtype(variable.dtype), np.integer) or variable.dtype == "bool":
            if variable.name.endswith("_unobserved"):
                raise InvalidModel(
                    f"'{variable.name.removesuffix('_unobserved')}' has missing values, which are discrete "
                    "and have no gradient; leave these rows out."
                )
            raise InvalidModel(
                f"'{variable.name}' is discrete, which has no gradient; sum it out of the model "
                "(pm.Mixture, or pymc_extras.marginalize) first."
            )
    if not model.free_RVs:
        raise InvalidModel("This PyMC model has no free variables.")
    point = model.initial_point(0)
    inputs = model.value_vars
    first = [np.asarray(point[variable.name], dtype=float) for variable in inputs]
    ends = np.cumsum([value.size for value in first])
    outputs = [v for v in model.unobserved_value_vars if not is_transformed_name(v.name)]
    # Variables come first and as the model states them, deterministics after.
    log_p = get_jaxified_graph(inputs=inputs, outputs=[model.logp()])
    named = get_jaxified_graph(inputs=inputs, outputs=outputs)

    def unpacked(x: Any) -> list[Any]:
        return [
            jnp.reshape(x[end - value.size : end], value.shape)
            for value, end in zip(first, ends, strict=True)
        ]

    def log_density(x: Any) -> Any:
        return log_p(*unpacked(x))[0]

    def values(x: Any) -> dict[str, Any]:
        found = named(*unpacked(x))
        return {variable.name: value for variable, value in zip(outputs, found, strict=True)}

    data = [*model.observed_RVs, *model.potentials]

    @functools.cache  # made when it is asked for: it takes as long as the density itself
    def separated() -> Any:
        stated = [[variable] for variable in model.free_RVs] + ([data] if data else [])
        outputs = [model.logp(vars=variables, jacobian=False) for variables in stated]
        return get_jaxified_graph(inputs=inputs, outputs=outputs)

    def parts(x: Any) -> dict[str, Any]:
        found = separated()(*unpacked(x))
        names = [variable.name for variable in model.free_RVs]
        return dict(zip([*names, LIKELIHOOD], [*found, jnp.zeros(())], strict=False))

    def entries(x: Any) -> dict[str, Any]:
        outputs = model.logp(vars=data, sum=False)
        found = get_jaxified_graph(inputs=inputs, outputs=outputs)(*unpacked(x))
        return dict(zip([variable.name for variable in data], found, strict=True))

    center = np.concatenate([value.ravel() for value in first])
    shapes = {variable.name: value.shape for variable, value in zip(inputs, first, strict=True)}
    known = {variable.name for variable in outputs}
    observed = {variable.name for variable in model.observed_RVs}
    dims = {
        name: tuple(names)
        for name, names in model.named_vars_to_dims.items()
        if name in known | observed and None not in names
    }
    used = {dim for names in dims.values() for dim in names}
    return Density(
        log_density,
        values,
        around(center),
        tuple(coordinate_names(shapes)),
        "this PyMC model",
        dims,
        {dim: _plain(v) for dim, v in model.coords.items() if dim in used and v is not None},
        _observed(model),
        parts,
        entries if data else None,
    )


def _observed(model: Any) -> dict[str, Any]:
    """The data of observed variables: plain arrays, or those of a pm.Data."""
    found = {}
    for variable in model.observed_RVs:
        value = model.rvs_to_values[variable]
        data = value.get_value() if hasattr(value, "get_value") else getattr(value, "data", None)
        if data is not None:
            found[variable.name] = np.asarray(data)
    return found


def _plain(labels: Any) -> list[Any]:
    return [getattr(label, "item", lambda label=label: label)() for label in labels]
