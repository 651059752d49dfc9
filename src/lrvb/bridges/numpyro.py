"""NumPyro models as log densities: `lrvb.from_numpyro`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..blackbox.density import LIKELIHOOD, Density, first_line, told
from ..errors import InvalidModel, LrvbError
from ..numerics.double import in_double
from ..numerics.program import Program
from .log_density import BlackBox, coordinate_names
from .observed import require_numbers, require_shape

PRIOR_DRAWS = 24
FAR = 1e4  # of unconstrained coordinates, from which no climb comes back

#: Distributions whose quantiles are a few operations.
QUICK = frozenset(
    (
        *("Normal", "HalfNormal", "Cauchy", "HalfCauchy", "Laplace", "Logistic", "Gumbel"),
        *("Exponential", "Uniform", "Delta"),
    )
)

Uniforms = Callable[[str, tuple[int, ...]], Any]  # of a site's name and the shape wanted


@in_double
def from_numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> BlackBox:
    """A NumPyro model with its data, as it would be given to NUTS.

    Sites and deterministics keep their names and shapes; plates become the dimensions of `to_arviz`.
    Discrete sites are summed out by NumPyro's enumeration (which needs funsor) where it can.
    """
    try:
        import numpyro
    except ImportError as error:
        raise ImportError(
            "lrvb.from_numpyro needs NumPyro, which is not installed: pip install 'lrvb[numpyro]'.",
            name="numpyro",
        ) from error
    if not callable(model):
        raise InvalidModel(f"model={model!r} must be a function with numpyro.sample statements.")
    return BlackBox(_Sites(numpyro, model, args, kwargs).density())


class _Sites:
    """The sites of one trace of the model, and the functions made of them."""

    def __init__(self, numpyro: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self.numpyro, self.model, self.args, self.kwargs = numpyro, model, args, kwargs
        self._reached = ""
        self._free: dict[str, tuple[int, ...]] = {}  # shapes of the sites without bounds
        self.trace = self._traced()
        self.latent = {name: site for name, site in self.trace.items() if _latent(site)}
        discrete = [name for name, site in self.latent.items() if _discrete(site)]
        self.enumerated = bool(discrete)
        if discrete:
            self._require_enumeration(discrete)
            self.latent = {n: s for n, s in self.latent.items() if n not in discrete}
        for name, site in self.trace.items():
            if site["type"] == "param":
                raise InvalidModel(
                    f"Site '{name}' is a numpyro.param, which has no prior; make it a numpyro.sample."
                )
            if site["type"] == "sample" and site["is_observed"]:
                require_numbers(name, site["value"])
                require_shape(name, jnp.shape(site["value"]), tuple(site["fn"].shape()))
        if not self.latent:
            raise InvalidModel("This NumPyro model has no continuous latent site.")

    def density(self) -> Density:
        """Everything that inference asks for."""
        shapes = {name: self._free[name] for name in self.latent}
        names = list(shapes)
        ends = np.cumsum([int(np.prod(shapes[name], dtype=int)) for name in names])

        def unpacked(x: Any) -> dict[str, Any]:
            starts = [0, *ends[:-1]]
            return {
                name: jnp.reshape(x[start:end], shapes[name])
                for name, start, end in zip(names, starts, ends, strict=True)
            }

        util = self.numpyro.infer.util
        model = self._enumerated_model() if self.enumerated else self.model
        seeded = self.numpyro.handlers.seed(self.model, _key())

        def log_density(x: Any) -> Any:
            try:
                return -util.potential_energy(
                    model, self.args, self.kwargs, unpacked(x), enum=self.enumerated
                )
            except TypeError as error:
                if "PRNG" not in str(error):
                    raise
                raise InvalidModel(
                    "This NumPyro model draws random numbers by itself (numpyro.prng_key), so that log p is "
                    "random; make them numpyro.sample sites."
                ) from error
            except ValueError as error:
                if not self.enumerated:
                    raise
                raise InvalidModel(
                    f"NumPyro could not sum out the discrete sites: {first_line(error)} Every dimension of "
                    "the data must be that of a numpyro.plate."
                ) from error

        def values(x: Any) -> dict[str, Any]:
            found = util.constrain_fn(
                seeded, self.args, self.kwargs, unpacked(x), return_deterministic=True
            )
            return {name: found[name] for name in self._reported}

        handlers = self.numpyro.handlers

        def traced(x: Any) -> dict[str, Any]:
            at = util.constrain_fn(seeded, self.args, self.kwargs, unpacked(x))
            stated = handlers.substitute(seeded, data=at)
            return handlers.trace(stated).get_trace(*self.args, **self.kwargs)

        def parts(x: Any) -> dict[str, Any]:
            trace = traced(x)
            total = sum((_log_prob(site) for site in _observed(trace)), start=jnp.zeros(()))
            return {LIKELIHOOD: total} | {name: _log_prob(trace[name]) for name in self.latent}

        def entries(x: Any) -> dict[str, Any]:
            found = _observed(traced(x))
            return {site["name"]: site["fn"].log_prob(site["value"]) for site in found}

        dims, coords = self._dims()
        return Density(
            log_density,
            values,
            self._starts(shapes),
            tuple(coordinate_names(shapes)),
            "this NumPyro model",
            dims,
            coords,
            {
                name: np.asarray(site["value"])
                for name, site in self.trace.items()
                if site["type"] == "sample" and site["is_observed"] and _is_data(site)
            },
            None if self.enumerated else parts,
            None if self.enumerated else entries,
        )

    @property
    def _reported(self) -> list[str]:
        """Latent sites and deterministics, in the model's order."""
        return [
            name
            for name, site in self.trace.items()
            if name in self.latent or site["type"] == "deterministic"
        ]

    def _traced(self) -> dict[str, Any]:
        """All sites, from one run of the model that samples nothing improper."""
        found: dict[str, Any] = {}

        def run() -> Any:
            found.update(self._trace_at(lambda name, shape: jnp.full(shape, 0.5)))
            to = self.numpyro.distributions.biject_to
            for name, site in found.items():  # here: one site's bounds may be another's value
                if _latent(site) and not _discrete(site):
                    free = to(site["fn"].support).inverse_shape(jnp.shape(site["value"]))
                    self._free[name] = tuple(free)
            return 0

        try:
            jax.eval_shape(run)
        except LrvbError:
            raise
        except Exception as error:
            after = f" after site '{self._reached}'" if self._reached else ""
            raise InvalidModel(f"The NumPyro model{after} {told(error)}") from error
        return found

    def _trace_at(self, uniforms: Uniforms) -> dict[str, Any]:
        """A run of the model that draws its continuous sites from given uniforms."""
        handlers = self.numpyro.handlers
        model = handlers.substitute(
            handlers.seed(self.model, _key()), substitute_fn=self._drawn(uniforms)
        )
        return handlers.trace(model).get_trace(*self.args, **self.kwargs)

    def _drawn(self, uniforms: Uniforms) -> Callable[[Any], Any]:
        """A draw of every site by its quantiles: random numbers would take longest to compile.

        Where quantiles take long too, or there are none, uniformly about its mean in unconstrained
        coordinates, and about the origin where it has no mean.
        """
        distributions = self.numpyro.distributions

        def value(site: Any) -> Any:
            self._reached = site["name"]
            _require_all_rows(site)
            if not _latent(site) or _discrete(site):
                return None
            stated = site["fn"]
            _require_numbers_without_bounds(distributions, site["name"], stated)
            with contextlib.suppress(NotImplementedError):
                return _quantile(distributions, stated, uniforms(site["name"], stated.shape()))
            transform = distributions.biject_to(stated.support)
            noise = 4 * uniforms(site["name"], transform.inverse_shape(stated.shape())) - 2
            try:
                center = transform.inv(jnp.broadcast_to(stated.mean, stated.shape()))
            except (NotImplementedError, AttributeError):  # no mean is stated: around zero
                return transform(noise)
            return transform(noise + jnp.where(jnp.isfinite(center), center, 0.0))

        return value

    def _starts(self, shapes: Mapping[str, tuple[int, ...]]) -> np.ndarray:
        """The origin of unconstrained space, and draws from the prior."""
        to = self.numpyro.distributions.biject_to
        size = sum(int(np.prod(shape, dtype=int)) for shape in shapes.values())
        widths = {name: int(np.prod(self.latent[name]["fn"].shape(), dtype=int)) for name in shapes}
        ends = dict(zip(widths, np.cumsum(list(widths.values())), strict=True))

        def prior(u: Any) -> Any:
            def uniforms(name: str, shape: tuple[int, ...]) -> Any:
                first = int(ends[name]) - widths[name]
                return jnp.reshape(u[first : first + int(np.prod(shape, dtype=int))], shape)

            trace = self._trace_at(uniforms)
            parts = [to(trace[n]["fn"].support).inv(trace[n]["value"]) for n in shapes]
            return jnp.concatenate([jnp.ravel(part).astype(jnp.float64) for part in parts])

        u = np.random.default_rng(0).random((PRIOR_DRAWS, sum(widths.values())))
        draws = np.asarray(Program(jax.vmap(prior), brief=True)(u))
        good = draws[(np.abs(draws) < FAR).all(axis=1)]
        return np.concatenate([np.zeros((1, size)), good])

    def _dims(self) -> tuple[dict[str, tuple[str, ...]], dict[str, list[Any]]]:
        """Plates as dimensions of the sites inside them, counted from 0; those of data too."""
        dims, coords = {}, {}
        data = [name for name, site in self.trace.items() if site.get("is_observed")]
        for name in (*self._reported, *data):
            site = self.trace[name]
            shape = jnp.shape(site["value"])
            found = [f"{name}_dim_{k}" for k in range(len(shape))]
            event = getattr(site.get("fn"), "event_dim", 0)
            for frame in site.get("cond_indep_stack", ()):
                at = len(shape) - event + frame.dim
                if 0 <= at < len(shape) and shape[at] == frame.size:
                    found[at] = frame.name
                    coords[frame.name] = list(range(frame.size))
            dims[name] = tuple(found)
        return dims, coords

    def _require_enumeration(self, discrete: list[str]) -> None:
        name = discrete[0]
        for name in discrete:
            if not self.latent[name]["fn"].has_enumerate_support:
                raise InvalidModel(
                    f"Site '{name}' is discrete with unboundedly many values, which can neither be "
                    "differentiated nor summed out; integrate it out of the model by hand."
                )
        try:
            import funsor  # noqa: F401 - NumPyro's enumeration needs it
        except ImportError as error:
            raise InvalidModel(
                f"Site '{name}' is discrete, which has no gradient. Install funsor (pip install funsor), "
                "with which NumPyro sums it out, or write the sum in the model by hand."
            ) from error

    def _enumerated_model(self) -> Any:
        from numpyro.contrib.funsor import config_enumerate, enum

        plates = [f.dim for s in self.trace.values() for f in s.get("cond_indep_stack", ())]
        first = min(plates, default=0) - 1
        seeded = self.numpyro.handlers.seed(self.model, _key())
        return enum(config_enumerate(seeded), first)


def _key() -> Any:
    """The random key of seed 0; `jax.random.key` would compile a program for it."""
    return jax.random.wrap_key_data(jax.device_put(np.zeros(2, np.uint32)), impl="threefry2x32")


def _quantile(distributions: Any, stated: Any, u: Any) -> Any:
    """A draw of a distribution from uniforms u of its shape; NotImplementedError where that is not quick."""
    name = type(stated).__name__
    if name in ("Independent", "ExpandedDistribution", "MaskedDistribution"):
        return _quantile(distributions, stated.base_dist, u)
    if name == "MultivariateNormal":
        z = jax.scipy.special.ndtri(u)
        return stated.loc + jnp.squeeze(stated.scale_tril @ z[..., None], -1)
    if name in QUICK:
        return stated.icdf(u)
    transformed = isinstance(stated, distributions.TransformedDistribution)
    if not transformed or stated.base_dist.shape() != stated.shape():
        raise NotImplementedError
    x = _quantile(distributions, stated.base_dist, u)
    for transform in stated.transforms:
        x = transform(x)
    return x


def _observed(trace: Mapping[str, Any]) -> list[Any]:
    return [site for site in trace.values() if site["type"] == "sample" and site["is_observed"]]


def _log_prob(site: Any) -> Any:
    """The log density of a site, with its plate's scale."""
    found = site["fn"].log_prob(site["value"])
    scale = site.get("scale")
    return jnp.sum(found if scale is None else scale * found)


def _require_all_rows(site: Any) -> None:
    """A sentence where a plate subsamples."""
    if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
        size, part = site["args"]
        raise InvalidModel(
            f"Plate '{site['name']}' subsamples {part} of {size} rows, so that log p is random; give "
            "it all rows, without subsample_size."
        )


def _require_numbers_without_bounds(distributions: Any, name: str, stated: Any) -> None:
    """A sentence where a site is a point mass, or has no coordinates without bounds."""
    plain = stated
    while hasattr(plain, "base_dist") and not isinstance(
        plain, distributions.TransformedDistribution
    ):
        plain = plain.base_dist
    if isinstance(plain, distributions.Delta):
        raise InvalidModel(
            f"Site '{name}' is a Delta, which has no density; make it a numpyro.deterministic."
        )
    try:
        distributions.biject_to(stated.support)
    except NotImplementedError:
        raise InvalidModel(
            f"NumPyro knows no coordinates without bounds for site '{name}', {type(plain).__name__}; state "
            "it by others (numpyro.infer.reparam has ways for some)."
        ) from None


def _latent(site: Any) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _discrete(site: Any) -> bool:
    return bool(site["fn"].support.is_discrete)


def _is_data(site: Any) -> bool:
    """Whether an observed value is a plain array, not one computed in the model."""
    return not isinstance(site["value"], jax.core.Tracer) and np.size(site["value"]) > 0
