"""NumPyro models as log densities: `lrvb.from_numpyro`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..blackbox.density import LIKELIHOOD, Density, first_line
from ..errors import InvalidModel, LrvbError
from ..numerics.double import in_double
from ..numerics.program import Program
from .log_density import BlackBox, coordinate_names

PRIOR_DRAWS = 24
FAR = 1e4  # of unconstrained coordinates, from which no climb comes back

#: Distributions whose samplers have no loops.
CHEAP = frozenset(
    {
        *(
            "Normal",
            "LogNormal",
            "HalfNormal",
            "HalfCauchy",
            "Cauchy",
            "Exponential",
            "Uniform",
            "Laplace",
        ),
        *("Logistic", "Gumbel", "MultivariateNormal", "LowRankMultivariateNormal", "Delta", "Unit"),
    }
)


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
        self.trace = self._traced()
        self.latent = {
            name: site
            for name, site in self.trace.items()
            if site["type"] == "sample" and not site["is_observed"]
        }
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
        if not self.latent:
            raise InvalidModel("This NumPyro model has no continuous latent site.")

    def density(self) -> Density:
        """Everything that inference asks for."""
        shapes = self._unconstrained_shapes()
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
        seeded = self.numpyro.handlers.seed(self.model, 0)

        def log_density(x: Any) -> Any:
            return -util.potential_energy(
                model, self.args, self.kwargs, unpacked(x), enum=self.enumerated
            )

        def values(x: Any) -> dict[str, Any]:
            found = util.constrain_fn(
                seeded, self.args, self.kwargs, unpacked(x), return_deterministic=True
            )
            return {name: found[name] for name in self._reported}

        handlers = self.numpyro.handlers

        def parts(x: Any) -> dict[str, Any]:
            at = util.constrain_fn(seeded, self.args, self.kwargs, unpacked(x))
            stated = handlers.substitute(seeded, data=at)
            trace = handlers.trace(stated).get_trace(*self.args, **self.kwargs)
            observed = [s for s in trace.values() if s["type"] == "sample" and s["is_observed"]]
            total = sum((_log_prob(site) for site in observed), start=jnp.zeros(()))
            return {LIKELIHOOD: total} | {name: _log_prob(trace[name]) for name in self.latent}

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
        handlers = self.numpyro.handlers
        found: dict[str, Any] = {}

        def run(key: Any) -> Any:
            model = handlers.substitute(
                handlers.seed(self.model, key), substitute_fn=self._inside_support(key)
            )
            found.update(handlers.trace(model).get_trace(*self.args, **self.kwargs))
            return 0

        try:
            jax.eval_shape(run, jax.random.key(0))
        except LrvbError:
            raise
        except Exception as error:
            raise InvalidModel(
                f"The NumPyro model raised {type(error).__name__} when it was run: {first_line(error)}"
            ) from error
        return found

    def _inside_support(self, key: Any) -> Callable[[Any], Any]:
        """A value for sites that cannot be sampled, or whose sampler would take seconds to compile.

        About its mean in unconstrained coordinates, where there is one, and about the origin else.
        """
        distributions = self.numpyro.distributions

        def value(site: Any) -> Any:
            if site["type"] != "sample" or site["is_observed"] or _discrete(site):
                return None
            stated = site["fn"]
            base = stated
            while hasattr(base, "base_dist"):
                base = base.base_dist
            if type(base).__name__ in CHEAP:
                return None
            transform = distributions.biject_to(stated.support)
            draw = jax.random.fold_in(key, sum(map(ord, site["name"])))
            shape = transform.inverse_shape(stated.shape())
            noise = jax.random.uniform(draw, shape, minval=-2.0, maxval=2.0)
            try:
                center = transform.inv(jnp.broadcast_to(stated.mean, stated.shape()))
            except (NotImplementedError, AttributeError):  # no mean is stated: around zero
                return transform(noise)
            return transform(noise + jnp.where(jnp.isfinite(center), center, 0.0))

        return value

    def _unconstrained_shapes(self) -> dict[str, tuple[int, ...]]:
        to = self.numpyro.distributions.biject_to
        return {
            name: tuple(to(site["fn"].support).inverse_shape(jnp.shape(site["value"])))
            for name, site in self.latent.items()
        }

    def _starts(self, shapes: Mapping[str, tuple[int, ...]]) -> np.ndarray:
        """The origin of unconstrained space, and draws from the prior."""
        handlers, to = self.numpyro.handlers, self.numpyro.distributions.biject_to
        size = sum(int(np.prod(shape, dtype=int)) for shape in shapes.values())

        def prior(seed: Any) -> Any:
            key = jax.random.key(seed, impl="unsafe_rbg")
            model = handlers.substitute(
                handlers.seed(self.model, key), substitute_fn=self._inside_support(key)
            )
            trace = handlers.trace(model).get_trace(*self.args, **self.kwargs)
            parts = [to(trace[n]["fn"].support).inv(trace[n]["value"]) for n in shapes]
            return jnp.concatenate([jnp.ravel(part).astype(jnp.float64) for part in parts])

        try:
            draws = np.asarray(Program(jax.vmap(prior))(np.arange(PRIOR_DRAWS, dtype=np.uint32)))
        except NotImplementedError:  # a sampler that asks for another generator
            draws = np.zeros((0, size))
        good = draws[(np.abs(draws) < FAR).all(axis=1)]
        return np.concatenate([np.zeros((1, size)), good])

    def _dims(self) -> tuple[dict[str, tuple[str, ...]], dict[str, list[Any]]]:
        """Plates as dimensions of the sites inside them, counted from 0."""
        dims, coords = {}, {}
        for name in self._reported:
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
            import funsor  # noqa: F401
        except ImportError as error:
            raise InvalidModel(
                f"Site '{name}' is discrete, which has no gradient. Install funsor (pip install funsor), "
                "with which NumPyro sums it out, or write the sum in the model by hand."
            ) from error

    def _enumerated_model(self) -> Any:
        from numpyro.contrib.funsor import config_enumerate, enum

        plates = [f.dim for s in self.trace.values() for f in s.get("cond_indep_stack", ())]
        first = min(plates, default=0) - 1
        seeded = self.numpyro.handlers.seed(self.model, 0)
        return enum(config_enumerate(seeded), first)


def _log_prob(site: Any) -> Any:
    """The log density of a site, with its plate's scale."""
    found = site["fn"].log_prob(site["value"])
    scale = site.get("scale")
    return jnp.sum(found if scale is None else scale * found)


def _discrete(site: Any) -> bool:
    return bool(site["fn"].support.is_discrete)


def _is_data(site: Any) -> bool:
    """Whether an observed value is a plain array, not one computed in the model."""
    return not isinstance(site["value"], jax.core.Tracer) and np.size(site["value"]) > 0
