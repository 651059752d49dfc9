"""A log density of one's own: `lrvb.from_log_density`, and what every bridge hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..blackbox.density import LIKELIHOOD, Density
from ..blackbox.inference import infer
from ..blackbox.kernel import BATCH
from ..errors import InvalidModel
from ..numerics.double import in_double
from ..posterior.posterior import Posterior


class BlackBox:
    """A model known by its log density alone, ready to be inferred."""

    def __init__(self, density: Density):
        self.density = density

    def infer(
        self,
        check: bool = True,
        functions: Mapping[str, Callable[[Any], Any]] | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> Posterior:
        """The posterior of all named values, and of functions of them.

        Modes are searched from many starts; a Gaussian of full rank (mean field beyond 256 dimensions)
        is fitted at the best, and linear response corrects it. With `check` short HMC with control
        variates polishes the answer: tables show its numbers and, from the distance of the two, a verdict
        on each. `functions` maps names to functions of a dictionary of the model's values.
        """
        return infer(self.density, check=check, functions=functions, seed=seed, progress=progress)

    def __repr__(self) -> str:
        names = ", ".join(self.density.shapes())
        return f"<lrvb.BlackBox of {self.density.source}: {self.density.size} dimensions; {names}>"


@in_double
def from_log_density(
    f: Callable[[Any], Any], start: Any, *, log_prior: Callable[[Any], Any] | None = None
) -> BlackBox:
    """A model by its log density, up to a constant, of real numbers without bounds.

    f is written in jax.numpy and takes what `start` is: an array, whose entries are named `x[0]`, `x[1]`,
    …, or a dictionary of arrays and numbers by name. Bounded parameters are functions of unbounded ones:
    write f with the Jacobian's log, and ask for them by `functions` of `infer`. `log_prior`, a function of
    the same, is that part of f which `posterior.prior_sensitivity(power=...)` scales.
    """
    if not callable(f):
        raise InvalidModel(f"f={f!r} must be a function that returns a log density.")
    if log_prior is not None and not callable(log_prior):
        raise InvalidModel(
            f"log_prior={log_prior!r} must be a function that returns a log density."
        )
    named = isinstance(start, Mapping)
    parts = {
        name: _array(name, value) for name, value in (start if named else {"x": start}).items()
    }
    if not parts or not sum(part.size for part in parts.values()):
        raise InvalidModel("start is empty; it must hold at least one number.")
    sizes = [part.size for part in parts.values()]
    ends = np.cumsum(sizes)

    def values(x: Any) -> dict[str, Any]:
        return {
            name: jnp.reshape(x[end - size : end], part.shape)
            for (name, part), end, size in zip(parts.items(), ends, sizes, strict=True)
        }

    def log_density(x: Any) -> Any:
        found = values(x)
        return f(found if named else found["x"])

    def separated(x: Any) -> dict[str, Any]:
        assert log_prior is not None
        found = values(x)
        prior = log_prior(found if named else found["x"])
        return {LIKELIHOOD: log_density(x) - prior, "prior": prior}

    center = np.concatenate([part.ravel() for part in parts.values()])
    return BlackBox(
        Density(
            log_density,
            values,
            around(center),
            tuple(coordinate_names({name: part.shape for name, part in parts.items()})),
            "f",
            parts=None if log_prior is None else separated,
        )
    )


def around(center: np.ndarray, seed: int = 0) -> np.ndarray:
    """Starting points: the center, and others about as far from it as it is from the origin."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((BATCH // 2, len(center)))
    noise[0] = 0.0
    return center + noise * 0.5 * np.maximum(np.abs(center), 1.0)


def coordinate_names(shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Names of the entries of arrays, one array after another."""
    found = []
    for name, shape in shapes.items():
        inside = [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]
        found += inside if shape else [name]
    return found


def _array(name: Any, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidModel(
            f"start['{name}']={value!r} must be a number or an array of numbers."
        ) from error
    if not isinstance(name, str) or not np.isfinite(array).all():
        raise InvalidModel(f"start has {name!r}: {value!r}; it must map names to finite numbers.")
    return array
